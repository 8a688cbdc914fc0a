"""What becomes of the meaning of dimensions when a tensor is viewed under another shape.

A view keeps elements in order, so every new dimension is a product of consecutive old ones, or a factor of one:
``[batch, tokens, hidden 768]`` seen as ``[batch, tokens, 12, 64]`` splits *hidden* into heads and head_dim. A view that
fits no such reading mixes dimensions; :func:`view` then returns None.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.feature import Dimension

SEPARATOR = "·"
WINDOWS = "windows"
PATCH = "patch"
_PIECES_OF_FEATURES = frozenset({dim.HEADS, dim.HEAD_DIM, dim.HIDDEN, dim.CHANNELS, dim.GROUPS, PATCH})
"""What is one feature dimension when it is folded together: heads, groups of channels in any order, merged patches."""


def merge(factors: Sequence[Dimension]) -> Dimension:
    """One dimension that runs over several, the last of them fastest."""
    meaningful = [factor for factor in factors if factor.name != dim.SINGLE] or list(factors[:1])
    if len(meaningful) == 1:
        return meaningful[0]
    names = tuple(factor.name for factor in meaningful)
    size = prod(factor.size for factor in meaningful)
    parts = tuple(part for factor in meaningful for part in (factor.parts or (factor,)))
    if names == (dim.HEIGHT, dim.WIDTH):
        return Dimension(dim.TOKENS, size, grid=(meaningful[0].size, meaningful[1].size), parts=parts)
    if names == (dim.DEPTH, dim.HEIGHT, dim.WIDTH):
        return Dimension(dim.TOKENS, size, parts=parts)
    if names[0] == WINDOWS and names[1:] in ((dim.HEIGHT,), (dim.WIDTH,)):
        return Dimension(names[1], size)
    if set(names) <= _PIECES_OF_FEATURES:
        return Dimension(dim.CHANNELS if dim.CHANNELS in names else dim.HIDDEN, size, parts=parts)
    return Dimension(SEPARATOR.join(names), size, parts=parts)


def view(dimensions: Sequence[Dimension], shape: Sequence[int]) -> tuple[Dimension, ...] | None:
    """Meaning of `dimensions` seen under `shape`; None when the view mixes them."""
    return _view(tuple(dimensions), tuple(shape))


@lru_cache(maxsize=4096)
def _view(dimensions: tuple[Dimension, ...], sizes: tuple[int, ...]) -> tuple[Dimension, ...] | None:
    """Layers of one model repeat the same few views."""
    queue, shape = list(dimensions), list(sizes)
    space = [d.size for d in dimensions if d.name in dim.SPATIAL]
    # Channels of a map that stays a map fall into groups; where its positions are joined they are attention heads.
    in_map = len(space) > 1 and shape[-len(space) :] == space
    if any(size < 1 for size in (*shape, *(dimension.size for dimension in dimensions))):
        return None  # empty, or of a size that no number says
    out: list[Dimension] = []
    position = 0
    while position < len(shape):
        size = shape[position]
        if size == 1:
            while queue and queue[0].parts and queue[0].parts[0].size == 1:
                queue[:1] = queue[0].parts
            out.append(queue.pop(0) if queue and queue[0].size == 1 else Dimension(dim.SINGLE, 1))
            position += 1
            continue
        taken: list[Dimension] = []
        product = 1
        while product < size:
            if not queue or size % product:
                return None
            need, factor = size // product, queue.pop(0)
            if factor.parts and factor.parts[-1].size == 1 and shape[position + 1 : position + 2] == [1]:
                queue[:0] = factor.parts  # the part of size 1 is the next dimension of its own
                continue
            if factor.size == 1:
                taken.append(factor)
            elif need % factor.size == 0:
                taken.append(factor)
                product *= factor.size
            elif factor.parts:
                queue[:0] = factor.parts
            elif product == 1 and (run := _run(shape, position, factor.size)) > 1:
                pieces = _split(factor, shape[position : position + run], in_map)
                out.extend([merge([*taken, pieces[0]]), *pieces[1:]])
                position += run
                taken = []
                break
            elif factor.size % need == 0:
                outer, inner = _halves(factor, in_map)
                taken.append(Dimension(outer, need))
                queue.insert(0, Dimension(inner, factor.size // need))
                product = size
            else:
                return None
        if taken:
            out.append(merge(taken))
            position += 1
    return tuple(out) if all(factor.size == 1 for factor in queue) else None


def _halves(factor: Dimension, in_map: bool) -> tuple[str, str]:
    """Names of the two parts of a factor of which another dimension takes the outer one."""
    if in_map and factor.name == dim.CHANNELS:
        return dim.GROUPS, dim.CHANNELS
    if factor.name in (dim.HIDDEN, dim.CHANNELS, dim.HEAD_DIM):
        return dim.HEADS, dim.HEAD_DIM
    return dim.UNKNOWN, dim.UNKNOWN


def _run(shape: Sequence[int], position: int, size: int) -> int:
    """How many sizes from `position` on multiply to `size`; 0 when they do not."""
    product = 1
    for count, value in enumerate(shape[position:], 1):
        product *= value
        if product == size:
            return count
        if product > size or size % product:
            return 0
    return 0


def _split(factor: Dimension, sizes: Sequence[int], in_map: bool) -> list[Dimension]:
    meaningful = [size for size in sizes if size != 1]
    names = _split_names(factor, meaningful, in_map)
    out: list[Dimension] = []
    remaining = iter(zip(names, meaningful, strict=True))
    for size in sizes:
        if size == 1:
            out.append(Dimension(dim.SINGLE, 1))
        else:
            name, value = next(remaining)
            out.append(Dimension(name, value))
    return out


def _split_names(factor: Dimension, sizes: Sequence[int], in_map: bool) -> Sequence[str]:
    count, name = len(sizes), factor.name
    if in_map and name == dim.CHANNELS and count == 2:
        return (dim.GROUPS, dim.CHANNELS)
    if name in (dim.HIDDEN, dim.CHANNELS, dim.HEAD_DIM) and count == 2:
        return (dim.HEADS, dim.HEAD_DIM)
    if name in (dim.HIDDEN, dim.CHANNELS) and count == 3:
        return ("qkv", dim.HEADS, dim.HEAD_DIM)
    if name == dim.TOKENS and count == 2 and not factor.special:
        if factor.grid == tuple(sizes) or (factor.grid is None and sizes[0] == sizes[1]):
            return (dim.HEIGHT, dim.WIDTH)
        return (WINDOWS, dim.TOKENS)
    if name in (dim.HEIGHT, dim.WIDTH) and count == 2:
        # Patch merging takes pixels two by two; what is split into larger pieces are windows.
        return (name, PATCH) if sizes[1] == 2 else (WINDOWS, name)
    if name == dim.BATCH and count == 2:
        return (dim.BATCH, dim.TOKENS)
    return [dim.UNKNOWN] * count
