"""Which kernels of a pass matter: those whose values reach an output, or what the loss of the step used."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tb_plugin_structure.analysis.audit.findings import Context
from tb_plugin_structure.analysis.audit.side import Side


def live_kernels(side: Side, context: Context) -> bytearray:
    """Kernels from which a value reaches an output, or a module output that the loss of the step used; 1 a kernel."""
    if side.role not in context.live:
        context.live[side.role] = _live_kernels(side, context)
    return context.live[side.role]


def _live_kernels(side: Side, context: Context) -> bytearray:
    structure = side.structure
    needed = bytearray(structure.tensors.rows)
    for call in (0, *_used_outside(side, context)):
        for tensor in structure.module_calls.values("outputs", call).tolist():
            needed[tensor] = 1
    live = bytearray(structure.kernels.rows)
    inputs, outputs = side.names.inputs, side.names.outputs
    reads = side.names.also_reads
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
