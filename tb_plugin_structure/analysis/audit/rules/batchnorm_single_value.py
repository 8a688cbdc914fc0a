"""Batch norm in training mode with one value per channel."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.side import Side

_KERNELS = {"native_batch_norm": 5, "_native_batch_norm_legit": 5, "cudnn_batch_norm": 5, "_batch_norm_with_update": -1}
"""Kernel -> position of its `training` argument; -1 for kernels that only train."""


@rule(
    "batchnorm-single-value",
    severity="error",
    explanation=(
        "With one value per channel the batch's mean is the value itself: the output is constant, and PyTorch refuses "
        "it with 'Expected more than 1 value per channel when training'."
    ),
    fix="Use a larger batch (drop_last=True for the last one), or eval() for the layer; GroupNorm needs no batch.",
)
def batchnorm_single_value(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        yield from _single(side)


def _single(side: Side) -> Iterator[Finding]:
    header = side.structure.header
    if header.HasField("error") and "more than 1 value per channel" in header.error.message:
        path = header.error.module_path
        yield side.found(f"{path or 'the model'} failed: one value per channel in training mode", path)
    for kernel, name in enumerate(side.names.kernel_names):
        position = _KERNELS.get(name)
        if position is None or (position >= 0 and side.names.arguments(kernel).get(position, "training") is not True):
            continue
        shape = tuple(side.names.shapes[side.names.inputs[kernel][0]]) if side.names.inputs[kernel] else ()
        if len(shape) > 1 and prod(shape) == shape[1]:
            path = side.path_of_kernel(kernel)
            yield side.found(f"{path or 'the model'} normalises {shape} over one value per channel", path)
