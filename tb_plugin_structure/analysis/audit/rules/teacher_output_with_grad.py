"""The loss uses a teacher's output that carries a gradient."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.mutual_learning import unless_it_learns
from tb_plugin_structure.analysis.audit.recorded_loss import EXTERNAL, recorded_loss
from tb_plugin_structure.analysis.external_values import takes_a_gradient


@rule(
    "teacher-output-with-grad",
    severity="warning",
    explanation="The loss used a teacher's output that carries a gradient: the backward pass runs through the teacher.",
    fix="Run the teacher under torch.no_grad(), or detach() its outputs.",
)
def teacher_output_with_grad(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None:
        return
    if not context.teacher.total("trainable_parameters") and takes_a_gradient(context.teacher.structure):
        return  # the gradient is meant for what made its input: a generator, a prompt, an image that is optimised
    outside = loss.outside
    used = set(outside.kernels["inputs"].tolist())
    for tensor, roles in loss.origin.items():
        is_external = outside.tensors["origin"][tensor] == EXTERNAL
        if is_external and tensor in used and roles == {"teacher"} and outside.tensors["requires_grad"][tensor]:
            path = outside.tensors.text("name", tensor).partition("/")[2]
            yield context.teacher.found(
                f"the loss uses {path or 'the output'} of the teacher with its gradient",
                path,
                severity=unless_it_learns(context),
            )
