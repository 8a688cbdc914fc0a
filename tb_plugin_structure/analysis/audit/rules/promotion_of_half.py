"""The output of a half-precision block is single precision."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.side import Side
from tb_plugin_structure.analysis.audit.stages import BLOCK, STAGE

_HALF = ("float16", "bfloat16")


@rule(
    "promotion-of-half",
    severity="warning",
    explanation=(
        "A single-precision constant or buffer meets half-precision values and widens them: everything after it costs "
        "twice the memory, and a feature loss against another block fails on dtypes or is computed in the wider one."
    ),
    fix="Cast the constant to x.dtype, or register it as a buffer so that model.half() or .to() converts it.",
)
def promotion_of_half(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        if side.structure.header.provenance.autocast:
            continue
        widened = list(_widened(side))
        if widened:
            path, dtype = widened[0]
            more = f" and {len(widened) - 1} more" if len(widened) > 1 else ""
            yield side.found(f"{path}{more} has {dtype} weights and gives float32", path)


def _widened(side: Side) -> Iterator[tuple[str, str]]:
    structure = side.structure
    dtypes = structure.parameters.column_texts("dtype")
    if not set(_HALF) & set(dtypes):
        return
    for call in range(structure.module_calls.rows):
        if side.stages.of_call(call)[1] not in (STAGE, BLOCK):
            continue
        module = int(structure.module_calls["module"][call])
        kinds = {dtypes[row] for row in side.own_parameters(module)}
        if len(kinds) != 1 or not kinds <= set(_HALF):
            continue
        takes = structure.module_calls.values("inputs", call)
        gives = side.feature(call)
        if gives.dtype == "float32" and len(takes) and structure.tensors.text("dtype", int(takes[0])) in _HALF:
            yield gives.path, kinds.pop()
