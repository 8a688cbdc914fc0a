"""Where a gradient is cut: the kernel that takes values with a gradient and gives values without one."""

from __future__ import annotations

from collections.abc import Iterable

from tb_plugin_structure.analysis.audit.side import Side
from tb_plugin_structure.analysis.audit.wording import operator_text

_UNUSED = "no operator reads it"
_NO_LOSS = "what is computed from it reaches no loss"
_BY_ITSELF = frozenset(
    {"detach", "argmax", "argmin", "argsort", "sign", "round", "floor", "ceil", "multinomial", "bernoulli"}
)
_DIFFERENTIABLE = ("float", "bfloat", "complex")
_BESIDE = frozenset(
    {"eq", "ne", "gt", "ge", "lt", "le", "isnan", "isinf", "zeros_like", "ones_like", "empty_like", "full_like"}
)
"""Comparisons and the like: they never carry a gradient, and stand beside the path that would."""


def cuts(side: Side, parameters: Iterable[str]) -> dict[str, str]:
    """Parameter path -> why no gradient reaches it, for people: "cut by detach in encoder (model.py:12)"."""
    structure = side.structure
    is_read = _read_or_returned(side)
    fate = _fates(side, is_read)
    tensors: dict[int, list[int]] = {}
    for tensor, row in enumerate(structure.tensors["parameter"].tolist()):
        if row >= 0:
            tensors.setdefault(row, []).append(tensor)
    rows = {path: row for row, path in enumerate(structure.parameters.column_texts("path"))}
    found = {}
    for path in parameters:
        ends = [fate[tensor] for tensor in tensors.get(rows.get(path, -1), ()) if tensor in fate]
        kernel = next((end for end in ends if end >= 0), -1)
        found[path] = _describe(side, kernel, is_read) if kernel >= 0 else _NO_LOSS if ends else _UNUSED
    return found


def _fates(side: Side, is_read: bytearray) -> dict[int, int]:
    """Tensor -> the kernel that cuts the gradient on the way from it to the loss; -1 where none does."""
    carries = side.structure.tensors["requires_grad"].tolist()
    reads = side.names.also_reads
    fate: dict[int, int] = {}
    beside: dict[int, int] = {}
    for kernel in range(len(side.names.outputs) - 1, -1, -1):
        outputs = side.names.outputs[kernel]
        onward = [tensor for tensor in outputs if carries[tensor]]
        if onward:
            end = max(fate.get(tensor, -1) for tensor in onward)
        elif not any(is_read[tensor] for tensor in outputs):
            end = -1  # whether a value requires a gradient is seen when it is read: this one never was
        elif side.names.kernel_names[kernel] not in _BESIDE:
            end = kernel
        else:
            for tensor in side.names.inputs[kernel]:
                beside[tensor] = kernel
            continue
        for tensor in (*side.names.inputs[kernel], *reads[kernel]):
            if carries[tensor] and (end >= 0 or tensor not in fate):
                fate[tensor] = end
    # What only a comparison reads, as the scores of a mask, has no other way.
    return {**{tensor: kernel for tensor, kernel in beside.items() if carries[tensor]}, **fate}


def _read_or_returned(side: Side) -> bytearray:
    """1 for each tensor that a kernel reads or a module returns."""
    is_read = bytearray(side.structure.tensors.rows)
    for lists in (side.names.inputs, side.names.also_reads, side.structure.module_calls.column_lists("outputs")):
        for tensors in lists:
            for tensor in tensors:
                is_read[tensor] = 1
    return is_read


def _describe(side: Side, kernel: int, is_read: bytearray) -> str:
    structure = side.structure
    name = side.names.kernel_names[kernel]
    used = [tensor for tensor in side.names.outputs[kernel] if is_read[tensor]]
    dtype = structure.tensors.text("dtype", used[0])
    operator = operator_text(structure.operators.text("name", int(structure.kernels["operator"][kernel]))) or name
    if name == "_to_copy" and not dtype.startswith(_DIFFERENTIABLE):
        what = f"a cast to {dtype}"
    elif name in _BY_ITSELF:
        what = name
    elif not any(structure.tensors.text("dtype", tensor).startswith(_DIFFERENTIABLE) for tensor in used):
        what = f"{operator}, of which only {dtype} is used,"
    else:
        what = f"no_grad around {operator}"
    path = side.path_of_kernel(kernel)
    return f"cut by {what} in {path or 'the model'}{side.source_of_kernel(kernel)}"
