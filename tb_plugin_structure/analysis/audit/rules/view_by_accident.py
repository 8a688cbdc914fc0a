"""A view exchanges dimensions: the sizes agree, the values do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import permutations
from math import prod

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.feature import Dimension
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.views import view

VIEWS = ("view", "_unsafe_view", "reshape", "_reshape_alias")
_FEATURES = (dim.CHANNELS, dim.HIDDEN, dim.HEADS, dim.HEAD_DIM)


@rule(
    "view-by-accident",
    severity="warning",
    explanation=(
        "view() keeps the order of elements. Where it exchanges two dimensions it tears every feature apart and joins "
        "pieces of different ones; no error is raised, because the number of elements agrees."
    ),
    fix="Use permute or transpose before the view: flatten(2).transpose(1, 2) for a map, not view(B, H * W, C).",
)
def view_by_accident(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        seen: set[str] = set()
        for kernel, name in enumerate(side.names.kernel_names):
            if name not in VIEWS or not side.names.inputs[kernel]:
                continue
            source, outputs = side.names.inputs[kernel][0], side.names.outputs[kernel]
            target = side.names.shapes[outputs[0]] if outputs else []
            label = side.names.of(source)
            if skews(label, target) or not (exchanges(label, target) or mixes(label, target)):
                continue
            path = side.path_of_kernel(kernel)
            if path not in seen:
                seen.add(path)
                where = f"{path or 'the model'}{side.source_of_kernel(kernel)}"
                names = ", ".join(dimension.text() for dimension in label)
                yield side.found(f"{where} views [{names}] as {list(target)}", path)


def exchanges(label: Sequence[Dimension], target: Sequence[int]) -> bool:
    """Whether a view exchanges a feature dimension, or the batch, with a position.

    >>> channels_first = (Dimension("batch", 2), Dimension("channels", 64), Dimension("tokens", 49))
    >>> exchanges(channels_first, (2, 49, 64)), exchanges(channels_first, (2, 64 * 49))
    (True, False)
    """
    if len(target) < 2 or any(dimension.name == dim.UNKNOWN for dimension in label):
        return False
    merged = _merge_space(label)
    source = [dimension.size for dimension in merged]
    if len(source) != len(target) or sorted(source) != sorted(target):
        return False
    moved = {d.name for d, size in zip(merged, target, strict=True) if d.size != size}
    return bool(moved & {*_FEATURES, dim.BATCH}) and bool(moved - {*_FEATURES, dim.BATCH})


def skews(label: Sequence[Dimension], target: Sequence[int]) -> bool:
    """Whether a view shifts each row of attention by one more place, as relative positions and sliding windows do: the
    last two dimensions, padded before, are read with their sizes exchanged, on purpose.

    >>> scores = (Dimension("batch", 2), Dimension("tokens", 5), Dimension("keys", 4))
    >>> skews(scores, (2, 4, 5))
    True
    """
    sizes = [dimension.size for dimension in label]
    return len(sizes) > 2 and label[-1].name == dim.KEYS and [*sizes[:-2], sizes[-1], sizes[-2]] == list(target)


def mixes(label: Sequence[Dimension], target: Sequence[int]) -> bool:
    """Whether a view tears dimensions apart that it would join cleanly after a permutation.

    >>> heads_first = (Dimension("batch", 2), Dimension("heads", 3), Dimension("tokens", 5), Dimension("head_dim", 4))
    >>> mixes(heads_first, (2, 5, 12)), mixes(heads_first, (2, 3, 20))
    (True, False)
    """
    return _mixes(tuple(label), tuple(target))


@lru_cache(maxsize=4096)
def _mixes(label: tuple[Dimension, ...], target: tuple[int, ...]) -> bool:
    if len(label) < 3 or len(label) > _LONGEST or any(dimension.name in _UNCLEAR for dimension in label):
        return False
    if prod(target) != prod(d.size for d in label) or view(label, target) is not None:
        return False
    for order in permutations(label[1:]):
        seen = view((label[0], *order), target)
        if seen is not None and dim.UNKNOWN not in {d.name for d in seen}:
            return True
    return False


_UNCLEAR = (dim.UNKNOWN, dim.SINGLE)
_LONGEST = 5


def _merge_space(label: Sequence[Dimension]) -> list[Dimension]:
    out: list[Dimension] = []
    for dimension in label:
        if dimension.name == dim.WIDTH and out and out[-1].name == dim.HEIGHT:
            out[-1] = Dimension(dim.TOKENS, out[-1].size * dimension.size)
        else:
            out.append(dimension)
    return out
