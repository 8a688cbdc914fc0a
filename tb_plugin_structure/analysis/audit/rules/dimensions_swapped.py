"""Dimensions are exchanged whose sizes happen to be equal, so that nothing raises."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.forms import describe
from tb_plugin_structure.analysis.audit.side import Side


@rule(
    "dimensions-swapped",
    severity="warning",
    explanation=(
        "The shapes agree by chance while the dimensions mean different things: a loss, or an attention, runs over the "
        "wrong dimension without an error, and fails or changes its meaning at another size."
    ),
    fix="Permute one side to the order of the other; give batch_first=True to modules that take [batch, tokens, …].",
)
def dimensions_swapped(context: Context) -> Iterator[Finding]:
    for index, row in enumerate(context.rows):
        t, s = row.teacher, row.student
        if t is None or s is None or t.dimensions == s.dimensions:
            continue
        if t.shape != s.shape or t.names == s.names or dim.UNKNOWN in (*t.names, *s.names):
            continue
        if sorted(t.names) == sorted(s.names):
            yield Finding(
                f"{t.path or 'the teacher'} gives {describe(t)}, {s.path or 'the student'} {describe(s)}: equal "
                "shapes, other dimensions",
                module_path=s.path,
                row=index,
            )
            break  # once: the rows say the rest
    for side in context.sides:
        yield from _batch_second(side)


def _batch_second(side: Side) -> Iterator[Finding]:
    """A module with batch_first=False whose input comes from an image or a signal with the batch in front."""
    structure = side.structure
    for call in side.names.sequence_first_calls:
        inputs = structure.module_calls.values("inputs", call).tolist()
        label = side.names.traced(inputs[0]) if inputs else None
        if label is None or len(label) != 3 or label[0].name != dim.BATCH:
            continue
        if label[1].name == dim.LENGTH or (label[1].name == dim.TOKENS and label[1].grid is not None):
            path = structure.call_path(call)
            names = ", ".join(dimension.text() for dimension in label)
            yield side.found(f"{path or 'the model'} has batch_first=False and is given [{names}]", path)
            return
