"""Products are computed whose results reach no output."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.rules.repeated_computation import NOTEWORTHY_SHARE
from tb_plugin_structure.analysis.audit.side import Side


@rule(
    "unused-result",
    severity="warning",
    explanation="What is computed here reaches no output of the model: the time is wasted, and nothing in it learns.",
    fix="Remove it, or return its result.",
)
def unused_result(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        header = side.structure.header
        if not header.HasField("error") and side.structure.module_calls.rows:
            yield from _unused(side, context)


def _unused(side: Side, context: Context) -> Iterator[Finding]:
    structure = side.structure
    macs = structure.kernels["macs"]
    live = _live_kernels(side, context)
    wasted = [kernel for kernel in range(structure.kernels.rows) if macs[kernel] > 0 and not live[kernel]]
    if not wasted:
        return
    total, lost = float(macs[macs > 0].sum()), float(macs[wasted].sum())
    path = side.path_of_kernel(wasted[0])
    yield side.found(
        f"the results of {len(wasted)} products ({lost / total:.1%} of the MACs) are never used, first in "
        f"{path or 'the model'}{side.source_of_kernel(wasted[0])}",
        path,
        severity="warning" if lost / total >= NOTEWORTHY_SHARE else "info",
    )


def _live_kernels(side: Side, context: Context) -> bytearray:
    """Kernels from which a value reaches an output, or a module output that the loss of the step used; 1 a kernel."""
    structure = side.structure
    needed = bytearray(structure.tensors.rows)
    for call in (0, *_used_outside(side, context)):
        for tensor in structure.module_calls.values("outputs", call).tolist():
            needed[tensor] = 1
    live = bytearray(structure.kernels.rows)
    inputs, outputs = side.names.inputs, side.names.outputs
    reads = structure.kernels.column_lists("also_reads")
    for kernel in range(structure.kernels.rows - 1, -1, -1):
        if any(needed[tensor] for tensor in outputs[kernel]):
            live[kernel] = 1
            for tensor in (*inputs[kernel], *reads[kernel]):
                needed[tensor] = 1
    return live


def _used_outside(side: Side, context: Context) -> Iterator[int]:
    """Calls whose outputs were read between the models: hooked features."""
    outside = context.outside
    if outside is None:
        return
    prefix = f"{side.structure.name}/"
    names = {
        outside.tensors.text("name", int(tensor))[len(prefix) :]
        for tensor in np.flatnonzero(outside.tensors["origin"] == 5)
        if outside.tensors.text("name", int(tensor)).startswith(prefix)
    }
    for module, calls in side.structure.calls_of_module.items():
        if side.structure.module_paths[module] in names:
            yield from calls
