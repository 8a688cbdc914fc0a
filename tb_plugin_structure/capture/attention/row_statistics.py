"""Statistics of a head: values of each row in float32, and their means."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from tb_plugin_structure.records.table import Array

NAMES = ("entropy", "visible", "distance", "sink", "diagonal", "previous", "top1", "sum")
"""Values of a row: entropy (nats), visible keys, distance (positions), masses of single keys, largest value, sum."""

_MOST_KEPT_DISTANCES = 1 << 18


@dataclass
class RowValues:
    """Values of each row of each head.

    Attributes:
        values: [:data:`NAMES`, heads, rows].
        counted: [heads, rows]: rows that means are taken over.
        masked: [heads, rows]: rows in which every key is masked.
        positions: [rows]: query positions.
    """

    values: Array
    counted: Array
    masked: Array
    positions: Array

    def of(self, name: str) -> Array:
        """[heads, rows] of one of :data:`NAMES`."""
        found: Array = self.values[NAMES.index(name)]
        return found

    @property
    def not_finite(self) -> Array:
        """[heads, rows]: rows that hold NaN or infinity."""
        found: Array = ~np.isfinite(self.of("sum"))
        return found


class Places:
    """Where the chosen queries stand among the keys.

    Attributes:
        positions: [rows]: query positions.
        own: [rows]: the key position at which each query stands.
        rows: [rows]: `positions` as a tensor.
    """

    def __init__(
        self, queries: int, keys: int, rows: tuple[int, ...] | None, self_attention: bool, device: torch.device
    ) -> None:
        self.positions = np.arange(queries) if rows is None else np.asarray(rows, np.int64)
        self.own = self.positions + (keys - queries if self_attention and keys > queries else 0)
        self.rows = torch.as_tensor(self.positions, device=device)
        own = torch.as_tensor(self.own, device=device)
        self._own = own.float()[:, None]
        self._keys = torch.arange(keys, dtype=torch.float32, device=device)
        if not self_attention and keys != queries:
            self._keys = (self._keys + 0.5) * queries / max(keys, 1) - 0.5
        # The own key and the one before it.
        self._near = torch.stack([own, own - 1], -1).clamp(0, max(keys - 1, 0))
        self._distances = self._distance(slice(None)) if len(own) * keys <= _MOST_KEPT_DISTANCES else None

    def _distance(self, block: slice) -> torch.Tensor:
        return (self._own[block] - self._keys).abs_()

    def distance(self, block: slice) -> torch.Tensor:
        """[rows, keys]: |position of the query - position of the key|."""
        return self._distance(block) if self._distances is None else self._distances[block]

    def near(self, block: slice) -> torch.Tensor:
        """[rows, 2]: the query's own key and the one before it."""
        return self._near[block]


@lru_cache(maxsize=8)
def places(queries: int, keys: int, rows: tuple[int, ...] | None, self_attention: bool, device: torch.device) -> Places:
    """Equal for all layers of a model, as a rule."""
    return Places(queries, keys, rows, self_attention, device)


def row_values(
    p: torch.Tensor,
    visible: torch.Tensor | None,
    where: Places,
    block: slice,
    pooled: tuple[torch.Tensor, torch.Tensor],
) -> torch.Tensor:
    """[:data:`NAMES`, heads, rows] of probabilities [heads, rows, keys].

    Args:
        p: Probabilities of some rows.
        visible: Keys that are not masked; None when none is.
        where: Where the chosen rows stand.
        block: Which of them these rows are.
        pooled: Largest value and sum of ranges of keys, which the row's own are quicker to find from.
    """
    heads, rows, keys = p.shape
    result = p.new_zeros(len(NAMES), heads, rows)
    entropy, count, distance, sink, diagonal, previous, top, total = result.unbind()
    if not keys:
        return result
    products = p.clamp_min(1e-38).log_().mul_(p)  # p log p, 0 at p = 0; a third faster than torch.special.entr
    torch.sum(products, -1, out=entropy)
    entropy.neg_()
    torch.mul(p, where.distance(block), out=products)
    torch.sum(products, -1, out=distance)
    if visible is None:
        count.fill_(keys)
    else:
        count.copy_(visible.sum(-1))
    near = p.gather(-1, where.near(block).expand(heads, rows, 2))
    sink.copy_(p[..., 0])
    diagonal.copy_(near[..., 0])
    previous.copy_(near[..., 1])
    torch.amax(pooled[0], -1, out=top)
    torch.sum(pooled[1], -1, out=total)
    return result


def mean_statistics(rows: RowValues, *, square: bool) -> dict[str, Array]:
    """Means over counted rows, in float64; NaN where no row counts.

    Args:
        rows: Values of each row.
        square: Queries and keys are the same positions, so that an own and a previous position exist.
    """
    counted, visible = rows.counted, rows.of("visible")
    number = counted.sum(1)
    means = np.where(counted, rows.values, 0.0).sum(2, dtype=np.float64)
    means = np.where(number > 0, means / np.maximum(number, 1), math.nan)
    # A row with one visible key has no choice: its entropy says nothing.
    choice = counted & (visible > 1)
    normalized = np.where(choice, rows.of("entropy"), 0.0) / np.log(np.where(choice, visible, math.e))
    none = np.full(len(counted), math.nan)
    mean = dict(zip(NAMES, means, strict=True))
    return {
        "entropy": mean["entropy"],
        "normalized_entropy": _mean(normalized, choice),
        "distance": mean["distance"],
        "sink_mass": mean["sink"],
        "diagonal_mass": mean["diagonal"] if square else none,
        "previous_mass": _mean(rows.of("previous"), counted & (rows.positions > 0)) if square else none,
        "maximum": _largest(rows.of("top1"), counted),
        "top1_mass": mean["top1"],
        "masked_rows": rows.masked.sum(1).astype(np.uint32),
        "row_sum_error": _largest(np.abs(rows.of("sum") - 1.0), counted),
        "non_finite_rows": rows.not_finite.sum(1).astype(np.uint32),
    }


def _mean(values: Array, where: Array) -> Array:
    number = where.sum(1)
    total = np.where(where, values, 0.0).sum(1, dtype=np.float64)
    found: Array = np.where(number > 0, total / np.maximum(number, 1), math.nan)
    return found


def _largest(values: Array, where: Array) -> Array:
    found = np.where(where, values, -math.inf).max(1, initial=-math.inf)
    result: Array = np.where(np.isfinite(found), found, math.nan)
    return result
