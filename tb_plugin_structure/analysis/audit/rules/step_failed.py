"""A recorded pass, or what ran between the models of a recorded step, raised."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.records.structure import Structure

_BACKWARD = (
    "What the backward pass needs was written over or freed, or never kept: clone() a tensor before it is written in "
    "place (a memory bank, a running mean), detach what has a graph of an earlier step, call backward() once."
)


@rule(
    "step-failed",
    severity="error",
    explanation="What was recorded ends with this error; the rows and findings are about what ran until then.",
    fix="Compare the shapes that the operator got with the rows of the modules that made them: an adapter named "
    "there makes the student's fit the teacher's.",
)
def step_failed(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        # Of one value per channel a rule of its own says more.
        if side.structure.header.HasField("error") and "more than 1 value per channel" not in _message(side.structure):
            yield side.found(_told(side.structure), side.structure.header.error.module_path)
    if context.outside is not None and context.outside.header.HasField("error"):
        is_backward = context.outside.header.error.kernel == "backward"
        told = _told(context.outside) + _adapter_between(context)
        yield Finding(told, subject="outside", fix=_BACKWARD if is_backward else "")


def _message(structure: Structure) -> str:
    return structure.header.error.message


def _told(structure: Structure) -> str:
    error = structure.header.error
    where = " ".join(filter(None, [error.kernel, f"({error.source})" if error.source else ""]))
    lines = error.message.splitlines()
    text = f"{where} raised {error.type}" if where else f"it raised {error.type}"
    text += f": {lines[0]}" if lines else ""
    return f"{text}; it got {', '.join(error.operands)}" if error.operands else text


def _adapter_between(context: Context) -> str:
    """The adapter of the row whose two features met, where the operands are one row's."""
    assert context.outside is not None
    made_by = [operand.partition(" ")[0].partition("/") for operand in context.outside.header.error.operands]
    paths = {model: path for model, slash, path in made_by if slash}
    names = context.teacher.structure.name, context.student.structure.name
    met = tuple(paths.get(name) for name in names)
    for row in context.rows:
        if (row.teacher_path, row.student_path) == met and row.comparison.adapter:
            return f"; {row.comparison.adapter.line()} makes the student's fit"
    return ""
