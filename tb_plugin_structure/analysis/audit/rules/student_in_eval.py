"""The student is trained in evaluation mode."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.measured import parameters_with
from tb_plugin_structure.analysis.audit.side import Side
from tb_plugin_structure.analysis.audit.wording import counted

NORMS = ("BatchNorm", "SyncBatchNorm")
_DROPOUTS = ("Dropout", "AlphaDropout", "DropPath", "StochasticDepth")


@rule(
    "student-in-eval",
    severity="warning",
    explanation="The optimizer trains the student while all of it is in evaluation mode: dropout does nothing and "
    "batch norm keeps the statistics it has. A validation pass often leaves a model so.",
    fix="student.train() at the beginning of each epoch; silence this where batch norm is frozen on purpose.",
)
def student_in_eval(context: Context) -> Iterator[Finding]:
    trained = set(parameters_with(context, "student", "in_optimizer", 1.0))
    structure = context.student.structure
    if not trained.intersection(parameters_with(context, "student", "gradient_reached", 1.0)):
        return
    if context.outside is None or bool(structure.modules["training"].any()):
        return
    by_mode = [path for row, path in enumerate(structure.module_paths) if depends_on_mode(context.student, row)]
    if by_mode:
        yield context.student.found(
            f"the student is trained in evaluation mode, with {counted(len(by_mode), 'layer')} of batch norm or "
            f"dropout, first {by_mode[0]}"
        )


def depends_on_mode(side: Side, module: int) -> bool:
    """Whether a layer that ran does something else in training mode: dropout with a probability, batch norm that is
    trained. One whose weights are frozen as well is frozen on purpose, as in detectors."""
    structure = side.structure
    if not structure.modules["calls"][module]:
        return False
    class_name = structure.module_classes[module]
    if class_name.startswith(_DROPOUTS):
        attributes = structure.attributes(module)
        return attributes.get("p", attributes.get("drop_prob", "?")) not in ("0", "0.0")
    weights = side.own_parameters(module)
    frozen = bool(weights) and not any(structure.parameters["requires_grad"][row] for row in weights)
    return class_name.startswith(NORMS) and not frozen
