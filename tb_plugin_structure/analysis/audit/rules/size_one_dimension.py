"""A dimension of size 1 is lost or gained."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.side import Side
from tb_plugin_structure.analysis.audit.stages import MODEL


@rule(
    "size-one-dimension",
    severity="warning",
    explanation=(
        "[B, 1] and [B] hold the same values and broadcast to [B, B] when they meet; squeeze() without a dimension "
        "also removes the batch as soon as it holds a single example, as the last one of an epoch may."
    ),
    fix="squeeze(-1) or unsqueeze(-1) with the dimension named, on the side that differs.",
)
def size_one_dimension(context: Context) -> Iterator[Finding]:
    for index, row in enumerate(context.rows):
        t, s = row.teacher, row.student
        if row.level != MODEL or t is None or s is None or len(t.shape) == len(s.shape):
            continue
        if [size for size in t.shape if size != 1] == [size for size in s.shape if size != 1]:
            yield Finding(f"the teacher gives {list(t.shape)}, the student {list(s.shape)}", row=index)
    for side in context.sides:
        yield from _squeezed(side)


def _squeezed(side: Side) -> Iterator[Finding]:
    structure = side.structure
    for kernel, name in enumerate(structure.kernels.column_texts("name")):
        if name != "aten.squeeze.default" or not side.names.inputs[kernel] or not side.names.outputs[kernel]:
            continue
        source, result = side.names.inputs[kernel][0], side.names.outputs[kernel][0]
        label = side.names.of(source)
        if not label or label[0].name != dim.BATCH or 1 not in side.names.shapes[source]:
            continue
        path = side.path_of_kernel(kernel)
        where = f"{path or 'the model'}{side.source_of_kernel(kernel)}"
        shapes = f"{side.names.shapes[source]} to {side.names.shapes[result]}"
        if label[0].size == 1:
            yield side.found(f"squeeze() in {where} removed the batch: {shapes}", path)
        else:
            yield side.found(f"squeeze() in {where} would remove a batch of one: {shapes}", path, severity="info")
        return
