"""Dimensions are exchanged whose sizes happen to be equal, so that nothing raises."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.batch_order import batch_given_first
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.forms import describe
from tb_plugin_structure.analysis.audit.loss_names import loss_names
from tb_plugin_structure.analysis.audit.side import Side

_ALIKE = {dim.HIDDEN: dim.CHANNELS, dim.CLASSES: dim.CHANNELS, dim.VOCABULARY: dim.CHANNELS}


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
    pairs = list(_pairs(context))
    yield from pairs or _in_the_loss(context)
    for side in context.sides:
        yield from _batch_second(side)


def _pairs(context: Context) -> Iterator[Finding]:
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


def _in_the_loss(context: Context) -> Iterator[Finding]:
    """Two values of one shape that a loss compares dimension by dimension, in two orders."""
    found = loss_names(context)
    if found is None:
        return
    loss, names = found
    for kernel, (teacher, student) in loss.meetings():
        if not loss.is_elementwise(kernel):
            continue  # a matrix product of the two pairs a dimension with another on purpose
        labels = [names.of(tensor) for tensor in (teacher, student)]
        t, s = ([_ALIKE.get(dimension.name, dimension.name) for dimension in label] for label in labels)
        equal_shapes = loss.outside.shape(teacher) == loss.outside.shape(student)
        if dim.SINGLE in t:
            continue  # every example with every other one, on purpose
        if equal_shapes and t != s and sorted(t) == sorted(s) and dim.UNKNOWN not in t:
            texts = ["[" + ", ".join(dimension.text() for dimension in label) + "]" for label in labels]
            yield Finding(
                f"{loss.where(kernel)} compares the teacher's {texts[0]} with the student's {texts[1]}: equal shapes, "
                "other dimensions",
                subject="outside",
            )
            break  # once: mse by hand is a subtraction and more


def _batch_second(side: Side) -> Iterator[Finding]:
    given = batch_given_first(side)
    if given is not None:
        path = side.structure.call_path(given[0])
        names = ", ".join(dimension.text() for dimension in given[1])
        yield side.found(f"{path or 'the model'} has batch_first=False and is given [{names}]", path)
