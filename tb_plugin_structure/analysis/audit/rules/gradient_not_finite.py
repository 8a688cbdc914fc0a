"""Gradients of the step that are infinite or not a number."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.measured import parameters_with
from tb_plugin_structure.analysis.audit.wording import counted


@rule(
    "gradient-not-finite",
    severity="warning",
    explanation="One step of the optimizer with an infinite gradient, or one that is no number, ruins each weight that "
    "it touches. Only a GradScaler, which skips such steps, makes it harmless.",
    fix="Look for a logarithm of 0, a division by 0, the square root of 0 or a half-precision value above 65,504 in "
    "the loss; take logarithms with log_softmax, and losses in float32.",
)
def gradient_not_finite(context: Context) -> Iterator[Finding]:
    bad = parameters_with(context, "student", "gradient_norm", inf)
    if bad:
        yield context.student.found(
            f"the gradients of {counted(len(bad), 'parameter')} are not finite, first {bad[0]}",
            bad[0].rpartition(".")[0],
            severity="info" if _runs_in_half_precision(context) else "",
        )


def _runs_in_half_precision(context: Context) -> bool:
    """Whether the student computes in float16, which is trained with a GradScaler: its first steps overflow, and it
    skips them."""
    structure = context.student.structure
    made = (structure.tensors["producer"] >= 0).nonzero()[0].tolist()
    return any(structure.tensors.text("dtype", tensor) == "float16" for tensor in made)
