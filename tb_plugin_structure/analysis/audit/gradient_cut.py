"""Where a gradient is cut: the kernel that takes values with a gradient and gives values without one."""

from __future__ import annotations

from collections.abc import Iterable

from tb_plugin_structure.analysis.audit.side import Side

_UNUSED = "no operator reads it"
_NO_LOSS = "what is computed from it reaches no loss"
_BY_ITSELF = frozenset(
    {"detach", "argmax", "argmin", "argsort", "sign", "round", "floor", "ceil", "multinomial", "bernoulli"}
)
_BESIDE = frozenset(
    {"eq", "ne", "gt", "ge", "lt", "le", "isnan", "isinf", "zeros_like", "ones_like", "empty_like", "full_like"}
)
"""Comparisons and the like: they never carry a gradient, and stand beside the path that would."""


def cuts(side: Side, parameters: Iterable[str]) -> dict[str, str]:
    """Parameter path -> why no gradient reaches it, for people: "cut by detach in encoder (model.py:12)"."""
    structure = side.structure
    fate = _fates(side)
    tensors: dict[int, list[int]] = {}
    for tensor, row in enumerate(structure.tensors["parameter"].tolist()):
        if row >= 0:
            tensors.setdefault(row, []).append(tensor)
    rows = {path: row for row, path in enumerate(structure.parameters.column_texts("path"))}
    found = {}
    for path in parameters:
        ends = [fate[tensor] for tensor in tensors.get(rows.get(path, -1), ()) if tensor in fate]
        kernel = next((end for end in ends if end >= 0), -1)
        found[path] = _describe(side, kernel) if kernel >= 0 else _NO_LOSS if ends else _UNUSED
    return found


def _fates(side: Side) -> dict[int, int]:
    """Tensor -> the kernel that cuts the gradient on the way from it to the loss; -1 where none does."""
    carries = side.structure.tensors["requires_grad"].tolist()
    reads = side.names.also_reads
    fate: dict[int, int] = {}
    for kernel in range(len(side.names.outputs) - 1, -1, -1):
        onward = [tensor for tensor in side.names.outputs[kernel] if carries[tensor]]
        if onward:
            end = max(fate.get(tensor, -1) for tensor in onward)
        elif side.names.outputs[kernel] and side.names.kernel_names[kernel] not in _BESIDE:
            end = kernel
        else:
            continue
        for tensor in (*side.names.inputs[kernel], *reads[kernel]):
            if carries[tensor] and (end >= 0 or tensor not in fate):
                fate[tensor] = end
    return fate


def _describe(side: Side, kernel: int) -> str:
    structure = side.structure
    name = side.names.kernel_names[kernel]
    dtype = structure.tensors.text("dtype", side.names.outputs[kernel][0])
    if name == "_to_copy" and not dtype.startswith(("float", "bfloat", "complex")):
        what = f"a cast to {dtype}"
    elif name in _BY_ITSELF:
        what = name
    else:
        operator = structure.operators.text("name", int(structure.kernels["operator"][kernel]))
        what = f"no_grad around {operator or name}"
    path = side.path_of_kernel(kernel)
    return f"cut by {what} in {path or 'the model'}{side.source_of_kernel(kernel)}"
