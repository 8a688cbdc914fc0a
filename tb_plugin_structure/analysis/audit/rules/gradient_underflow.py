"""In half precision every gradient of the student is rounded to zero."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.measured import parameters_with
from tb_plugin_structure.analysis.audit.wording import counted


@rule(
    "gradient-underflow",
    severity="warning",
    explanation="float16 holds nothing smaller than 6e-8: gradients of a small loss, such as one that is divided by "
    "a large number or by T² too often, become 0 on their way back.",
    fix="Scale the loss with torch.amp.GradScaler, keep the loss in float32, or use bfloat16.",
)
def gradient_underflow(context: Context) -> Iterator[Finding]:
    reached = parameters_with(context, "student", "gradient_reached", 1.0)
    zero = set(parameters_with(context, "student", "gradient_norm", 0.0))
    if not reached or not zero.issuperset(reached):
        return
    tensors = context.student.structure.tensors
    made = (tensors["producer"] >= 0).nonzero()[0].tolist()
    if any(tensors.text("dtype", tensor) == "float16" for tensor in made):
        yield context.student.found(
            f"the gradients of all {counted(len(reached), 'parameter')} are 0, and the student computes in float16"
        )
