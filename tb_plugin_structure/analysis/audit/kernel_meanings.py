"""What a kernel's result means, from what its operands mean: one rule a kernel, by its base name.

A rule takes (names, kernel, rows of its tensor arguments, rows of its results) and returns the label of its first
result, or None when it cannot say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.feature import Dimension
from tb_plugin_structure.analysis.audit.views import view

if TYPE_CHECKING:
    from tb_plugin_structure.analysis.audit.naming import Names

Label = tuple[Dimension, ...]
Rule = Callable[["Names", int, list[int], list[int]], "Label | None"]

MAPS = {
    2: (dim.BATCH, dim.CHANNELS),
    3: (dim.BATCH, dim.CHANNELS, dim.LENGTH),
    4: (dim.BATCH, dim.CHANNELS, dim.HEIGHT, dim.WIDTH),
    5: (dim.BATCH, dim.CHANNELS, dim.DEPTH, dim.HEIGHT, dim.WIDTH),
}
LAST = {
    2: (dim.BATCH, dim.HIDDEN),
    3: (dim.BATCH, dim.TOKENS, dim.HIDDEN),
    4: (dim.BATCH, dim.HEIGHT, dim.WIDTH, dim.CHANNELS),
}
SEQUENCE_FIRST = (dim.TOKENS, dim.BATCH, dim.HIDDEN)
_HEADS = (dim.BATCH, dim.HEADS, dim.TOKENS, dim.HEAD_DIM)
_KEPT_BY_PROJECTION = frozenset({dim.HIDDEN, dim.CHANNELS, dim.TOKENS, dim.LENGTH, dim.HEAD_DIM})


def named(names: Sequence[str], shape: Sequence[int]) -> Label:
    return _named(tuple(names), tuple(shape))


@lru_cache(maxsize=4096)
def _named(names: tuple[str, ...], shape: tuple[int, ...]) -> Label:
    """Layers repeat a few shapes: equal labels are one object."""
    return tuple(Dimension(name, size) for name, size in zip(names, shape, strict=True))


def carry(names: Names, kernel: int, inputs: list[int], outputs: list[int]) -> Label | None:
    """Default: an elementwise kernel, or one that keeps the rank. Broadcasting takes each dimension from an operand
    that has it at full size; values win over parameters."""
    shape = names.shapes[outputs[0]]
    candidates = [t for t in inputs if t in names.labels and t not in names.parameters]
    same = [names.labels[tensor] for tensor in candidates if names.shapes[tensor] == shape]
    if same:
        return same[0] if len(same) == 1 else tuple(map(_clearest, zip(*same, strict=True)))
    out: list[Dimension | None] = [None] * len(shape)
    for tensor in candidates:
        label = names.labels[tensor]
        shift = len(shape) - len(label)
        if shift < 0:
            continue
        for axis, dimension in enumerate(label):
            if out[axis + shift] is None and dimension.size == shape[axis + shift]:
                out[axis + shift] = dimension
    if candidates and len(inputs) == 1 and len(names.labels[candidates[0]]) == len(shape):
        label = names.labels[candidates[0]]
        return tuple(d.resized(size) for d, size in zip(label, shape, strict=True))
    if not any(out):
        return None
    return tuple(d or Dimension(dim.UNKNOWN, size) for d, size in zip(out, shape, strict=True))


def _clearest(dimensions: tuple[Dimension, ...]) -> Dimension:
    """The first operand's dimension, unless only another operand says what it means."""
    known = (d for d in dimensions if d.name not in (dim.UNKNOWN, dim.SINGLE))
    return next(known, dimensions[0])


def _map(names: Names, kernel: int, inputs: list[int], outputs: list[int]) -> Label | None:
    """Convolution, pooling, batch norm: channels second, then space."""
    label = names.known(inputs[0], MAPS)
    shape = names.shapes[outputs[0]]
    if label is None or len(label) != len(shape):
        return None
    if len(label) >= 3 and label[1].name != dim.CHANNELS and dim.UNKNOWN in {d.name for d in label}:
        label = named(MAPS[len(label)], names.shapes[inputs[0]])
    return tuple(d.resized(size) for d, size in zip(label, shape, strict=True))


def _convolution(names: Names, kernel: int, inputs: list[int], outputs: list[int]) -> Label | None:
    known = names.labels.get(inputs[0])
    if known is not None and len(known) in (4, 5) and not {d.name for d in known[2:]} <= {*dim.SPATIAL, dim.SINGLE}:
        # Features that were unflattened into a map: only the convolution says so.
        names.labels[inputs[0]] = (known[0], *named(MAPS[len(known)][1:], names.shapes[inputs[0]][1:]))
    label = _map(names, kernel, inputs, outputs)
    if label is None:
        return None
    if label[1].name == dim.HIDDEN:  # tokens transposed for a one-dimensional convolution
        return (label[0], Dimension(dim.HIDDEN, label[1].size), *label[2:])
    return (label[0], Dimension(dim.CHANNELS, label[1].size), *label[2:])


def _last(names: Names, kernel: int, inputs: list[int], outputs: list[int]) -> Label | None:
    """Layer norm: the last dimension is the feature."""
    label = names.known(inputs[0], LAST)
    return label if label is not None and names.shapes[outputs[0]] == names.shapes[inputs[0]] else None


def _projected(last: Dimension, size: int) -> Dimension:
    if last.size == size and last.name in _KEPT_BY_PROJECTION:
        return Dimension(last.name, size, last.special, last.grid, trailing=last.trailing)
    return Dimension(last.name if last.name in _KEPT_BY_PROJECTION else dim.HIDDEN, size)


def _product(names: Names, kernel: int, inputs: list[int], outputs: list[int]) -> Label | None:
    """Matrix products: rows of the left operand, columns of the right one."""
    operands = inputs[-2:]
    if len(operands) < 2:
        return None
    shape = names.shapes[outputs[0]]
    left, right = operands
    a = names.known(left, {2: LAST[2]} if len(shape) == 2 else None)
    b = names.labels.get(right)
    if a is None or len(a) != len(shape):
        return None
    if right in names.parameters or (len(shape) == 2 and (b is None or b[-1].name == dim.UNKNOWN)):
        return (*a[:-1], _projected(a[-1], shape[-1]))
    if b is None or len(b) < 2 or b[-1].name == dim.UNKNOWN:
        return (*a[:-1], Dimension(dim.UNKNOWN, shape[-1]))
    last = b[-1]
    if last.name == dim.TOKENS and any(d.name.endswith(dim.TOKENS) for d in a[:-1]):
        last = Dimension(dim.KEYS, last.size, last.special, last.grid, trailing=last.trailing)
    return (*a[:-1], last)


def _linear(names: Names, kernel: int, inputs: list[int], outputs: list[int]) -> Label | None:
    label = names.known(inputs[0], LAST)
    if label is None or len(label) != len(names.shapes[outputs[0]]):
        return None
    return (*label[:-1], _projected(label[-1], names.shapes[outputs[0]][-1]))


def _embedding(names: Names, kernel: int, inputs: list[int], outputs: list[int]) -> Label | None:
    indices = inputs[-1]
    label = names.known(indices, {1: (dim.TOKENS,), 2: (dim.BATCH, dim.TOKENS)})
    if label is None:
        return None
    if label[0].name == dim.BATCH and label[0].size == 1 and 1 not in names.batch_sizes:
        label = (Dimension(dim.SINGLE, 1), *label[1:])  # a table of positions, the same for every example
    return (*label, Dimension(dim.HIDDEN, names.shapes[outputs[0]][-1]))


def _attention(names: Names, kernel: int, inputs: list[int], outputs: list[int]) -> Label | None:
    query, value = names.known(inputs[0], {4: _HEADS}), inputs[min(2, len(inputs) - 1)]
    if query is None or len(query) != len(names.shapes[outputs[0]]):
        return None
    return (*query[:-1], query[-1].resized(names.shapes[value][-1]))


def _view(names: Names, kernel: int, inputs: list[int], outputs: list[int]) -> Label | None:
    label = names.labels.get(inputs[0])
    return None if label is None else view(label, names.shapes[outputs[0]])


def _permute(names: Names, kernel: int, inputs: list[int], outputs: list[int]) -> Label | None:
    label = names.labels.get(inputs[0])
    if label is None:
        return _permute_back(names, kernel, inputs, outputs)
    order = _order(names, kernel, len(label))
    return tuple(label[axis] for axis in order) if order is not None and len(order) == len(label) else None


def _permute_back(names: Names, kernel: int, inputs: list[int], outputs: list[int]) -> Label | None:
    """A known result names an operand that nothing named before."""
    label = names.labels.get(outputs[0])
    if label is not None and inputs[0] not in names.parameters:
        order = _order(names, kernel, len(label))
        if order is not None and len(order) == len(label):
            source: list[Dimension | None] = [None] * len(label)
            for position, axis in enumerate(order):
                source[axis] = label[position]
            if all(source):
                names.labels[inputs[0]] = tuple(d for d in source if d is not None)
    return label


def _order(names: Names, kernel: int, rank: int) -> list[int] | None:
    base = names.kernel_names[kernel]
    if base == "t":
        return [1, 0] if rank == 2 else list(range(rank))
    arguments = names.arguments(kernel)
    if base == "permute":
        order = arguments.integers(1, "dims")
        return None if order is None else [axis % rank for axis in order] if rank else []
    first, second = arguments.integer(1, "dim0"), arguments.integer(2, "dim1")
    if first is None or second is None or not rank:
        return None
    out = list(range(rank))
    out[first % rank], out[second % rank] = out[second % rank], out[first % rank]
    return out


def _unsqueeze(names: Names, kernel: int, inputs: list[int], outputs: list[int]) -> Label | None:
    label, axis = names.labels.get(inputs[0]), names.arguments(kernel).integer(1, "dim")
    if label is None or axis is None:
        return None
    axis %= len(label) + 1
    return (*label[:axis], Dimension(dim.SINGLE, 1), *label[axis:])


def _squeeze(names: Names, kernel: int, inputs: list[int], outputs: list[int]) -> Label | None:
    label = names.labels.get(inputs[0])
    if label is None:
        return None
    axes = names.arguments(kernel).integers(1, "dim")
    rank = len(label)
    gone = {axis % rank for axis in axes} if axes is not None and rank else set(range(rank))
    return tuple(d for axis, d in enumerate(label) if axis not in gone or d.size != 1)


def _drop(names: Names, kernel: int, inputs: list[int], outputs: list[int]) -> Label | None:
    """Selecting an index, or unbinding: the dimension goes."""
    label = names.labels.get(inputs[0])
    if label is None:
        return None
    axis = names.arguments(kernel).integer(1, "dim") or 0
    axis %= len(label)
    return (*label[:axis], *label[axis + 1 :])


def _reduce(names: Names, kernel: int, inputs: list[int], outputs: list[int]) -> Label | None:
    """Sums, means, maxima over dimensions."""
    label = names.labels.get(inputs[0])
    shape = names.shapes[outputs[0]]
    if label is None or not label:
        return None
    axes = names.arguments(kernel).integers(1, "dim")
    gone = {axis % len(label) for axis in axes} if axes else set(range(len(label)))
    if len(shape) == len(label):
        return tuple(d.resized(size) for d, size in zip(label, shape, strict=True))
    return tuple(d for axis, d in enumerate(label) if axis not in gone)


def _slice(names: Names, kernel: int, inputs: list[int], outputs: list[int]) -> Label | None:
    label = names.labels.get(inputs[0])
    shape = names.shapes[outputs[0]]
    if label is None or len(label) != len(shape):
        return None
    arguments = names.arguments(kernel)
    axis = (arguments.integer(1, "dim") or 0) % len(label)
    start = arguments.integer(2, "start") or 0
    source, size = label[axis], shape[axis]
    start = start + source.size if start < 0 else start
    if source.size == size:
        return label
    special = max(0, min(source.special, start + size) - start)
    behind = source.size - source.trailing
    trailing = max(0, start + size - max(start, behind))
    whole = start <= source.special and start + size >= behind
    grid, origin = source.grid if whole else None, source.origin if special or trailing else ""
    piece = Dimension(source.name, size, special, grid, origin, trailing=trailing)
    return (*label[:axis], piece, *label[axis + 1 :])


def _cat(names: Names, kernel: int, inputs: list[int], outputs: list[int]) -> Label | None:
    """Concatenation. Parameters put in front of tokens or behind them are special tokens."""
    shape = names.shapes[outputs[0]]
    base = next(
        (t for t in inputs if t in names.labels and t not in names.parameters and len(names.labels[t]) == len(shape)),
        None,
    )
    if base is None:
        return None
    label = names.labels[base]
    changed = [axis for axis, size in enumerate(shape) if size != names.shapes[base][axis]]
    if not changed:
        return label
    axis = changed[0]
    if label[axis].name != dim.TOKENS:
        return (*label[:axis], label[axis].resized(shape[axis]), *label[axis + 1 :])
    special, trailing, origins, grid, in_front = 0, 0, [], None, True
    for tensor in inputs:
        size = names.shapes[tensor][axis] if len(names.shapes[tensor]) > axis else 0
        own = names.labels.get(tensor, label)[axis]
        parameter = names.parameter_of(tensor)
        if in_front and (parameter or own.special == size):
            special += size
            origins.append(parameter or own.origin)
        elif in_front:
            special += own.special
            trailing, grid, in_front = own.trailing, own.grid, False
            if own.special or own.trailing:
                origins.append(own.origin)
        elif parameter or (own.trailing == size and tensor in names.labels):
            trailing += size
            origins.append(parameter or own.origin)
        else:
            grid = None  # something else behind the grid
    origin = ", ".join(dict.fromkeys(name for name in origins if name))
    joined = Dimension(dim.TOKENS, shape[axis], special, grid, origin, trailing=trailing)
    return (*label[:axis], joined, *label[axis + 1 :])


def _stack(names: Names, kernel: int, inputs: list[int], outputs: list[int]) -> Label | None:
    label = next((names.labels[t] for t in inputs if t in names.labels), None)
    if label is None:
        return None
    axis = (names.arguments(kernel).integer(1, "dim") or 0) % (len(label) + 1)
    return (*label[:axis], Dimension(dim.UNKNOWN, len(inputs)), *label[axis:])


def _expand(names: Names, kernel: int, inputs: list[int], outputs: list[int]) -> Label | None:
    label = names.labels.get(inputs[0])
    shape = names.shapes[outputs[0]]
    if label is None:
        return None
    front = len(shape) - len(label)
    return (
        *(Dimension(dim.UNKNOWN, size) for size in shape[:front]),
        *(d.resized(size) for d, size in zip(label, shape[front:], strict=True)),
    )


def _index(names: Names, kernel: int, inputs: list[int], outputs: list[int]) -> Label | None:
    """Rows picked by a list of positions: which ones is decided by the data."""
    label = names.labels.get(inputs[0])
    if label is None or len(inputs) != 2:
        return None
    picked, shape = names.shapes[inputs[1]], names.shapes[outputs[0]]
    if len(picked) != 1 or len(shape) != len(label):
        return None
    axis = next((axis for axis, d in enumerate(label) if d.size != shape[axis]), 0)
    if [*names.shapes[inputs[0]][:axis], *shape[axis : axis + 1], *names.shapes[inputs[0]][axis + 1 :]] != shape:
        return None
    kept = label[axis].size == shape[axis] or label[axis].name == dim.TOKENS
    rows = label[axis].resized(shape[axis]) if kept else Dimension(dim.SELECTED, shape[axis])
    return (*label[:axis], rows, *label[axis + 1 :])


def _window(names: Names, kernel: int, inputs: list[int], outputs: list[int]) -> Label | None:
    """im2col gives [batch, channels * window, positions]."""
    label = names.known(inputs[0], MAPS)
    shape = names.shapes[outputs[0]]
    if label is None or len(shape) != 3:
        return None
    return (label[0], Dimension(dim.CHANNELS, shape[1]), Dimension(dim.TOKENS, shape[2]))


RULES: dict[str, Rule] = {
    **dict.fromkeys(("convolution", "_convolution", "mkldnn_convolution", "convolution_overrideable"), _convolution),
    **dict.fromkeys(
        (
            "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "cudnn_batch_norm",
            "_batch_norm_with_update", "_batch_norm_no_update", "miopen_batch_norm", "native_group_norm",
            "max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d", "adaptive_max_pool2d",
            "max_pool3d_with_indices", "avg_pool3d", "_adaptive_avg_pool3d", "upsample_bilinear2d",
            "upsample_nearest2d", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
            "upsample_nearest3d", "upsample_trilinear3d",
        ),
        _map,
    ),
    **dict.fromkeys(("native_layer_norm", "_fused_rms_norm", "rms_norm"), _last),
    **dict.fromkeys(("mm", "addmm", "bmm", "baddbmm", "matmul", "_scaled_mm"), _product),
    "linear": _linear,
    "embedding": _embedding,
    **dict.fromkeys(
        (
            "scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
            "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_attention_math",
            "_scaled_dot_product_attention_math_for_mps", "_scaled_dot_product_fused_attention_overrideable",
        ),
        _attention,
    ),
    **dict.fromkeys(("view", "_unsafe_view", "reshape", "_reshape_alias", "unflatten", "flatten"), _view),
    **dict.fromkeys(("permute", "transpose", "t", "swapaxes"), _permute),
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    **dict.fromkeys(("select", "unbind"), _drop),
    **dict.fromkeys(
        (
            "mean", "sum", "amax", "amin", "max", "min", "argmax", "var", "std", "logsumexp", "linalg_vector_norm",
            "any", "all",
        ),
        _reduce,
    ),
    "slice": _slice,
    "cat": _cat,
    "stack": _stack,
    "expand": _expand,
    "im2col": _window,
    "index": _index,
    "index_select": _index,
}  # fmt: skip
"""Kernel base name -> what its first output's dimensions are called."""
