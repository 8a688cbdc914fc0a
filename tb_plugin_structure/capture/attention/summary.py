"""Statistics, overview planes and the full matrix of one example, from blocks of float32 rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch

from tb_plugin_structure.capture.attention.kept import KeptHead
from tb_plugin_structure.capture.attention.sources import Source
from tb_plugin_structure.records.table import Array

OVERVIEW_CELLS = 64
"""An overview plane has at most this many rows and columns."""

_BLOCK_CELLS = 1 << 22  # 16 MiB of float32 at a time


@dataclass
class RowValues:
    """Values of each row of each head.

    Attributes:
        values: Name -> [heads, rows].
        counted: [heads, rows]: rows that means are taken over.
        masked: [heads, rows]: rows in which every key is masked.
        positions: [rows]: query positions.
    """

    values: dict[str, Array]
    counted: Array
    masked: Array
    positions: Array


@dataclass
class Summary:
    """What is kept of one attention of one example; arrays have a row per recorded head.

    Attributes:
        heads: Head numbers.
        statistics: Column of ``records.schema.ATTENTION_STATISTICS`` -> [heads], all but the layer and the scales.
        maximum, mass: Overview planes, [heads, rows, columns], float32.
        matrix: [matrix heads, queries, keys], float16, or None when none was asked for.
        matrix_heads: Head numbers of `matrix`.
        rows: Query rows that were computed; None for all.
        padding: Key positions that no row sees.
        non_finite_rows: Rows, over all heads, that hold NaN or infinity.
        kept: Further heads in full resolution, beyond those of `matrix`.
        per_row: What the statistics are means of.
        pattern: "causal", "sliding window w", … when the visible keys have this form; "" when they have none.
    """

    heads: list[int]
    statistics: dict[str, Array]
    maximum: Array
    mass: Array
    matrix: Array | None
    rows: list[int] | None
    padding: Array
    non_finite_rows: int
    pattern: str = ""
    matrix_heads: list[int] = field(default_factory=list)
    kept: list[KeptHead] = field(default_factory=list, repr=False)
    per_row: RowValues | None = field(default=None, repr=False)
    probabilities: Array | None = field(default=None, repr=False)


def summarize(
    source: Source,
    example: int,
    heads: list[int],
    rows: list[int] | None,
    *,
    full_heads: list[int],
    self_attention: bool,
    float32: bool = False,
) -> Summary:
    """Go through the rows once.

    Args:
        source: Where the probabilities come from.
        example: Position in the batch.
        heads: Heads to look at.
        rows: Query rows to look at; None for all.
        full_heads: Heads whose full matrix is kept in half precision (needs all rows).
        self_attention: Queries and keys are the same positions: padded queries are left out of means, and with
            fewer queries than keys (a cache) the last query stands at the last key.
        float32: Also keep the float32 probabilities, [heads, queries, keys].
    """
    queries, keys = source.queries, source.keys
    positions = np.arange(queries) if rows is None else np.asarray(rows, np.int64)
    cell_rows, cell_columns = min(OVERVIEW_CELLS, queries), min(OVERVIEW_CELLS, keys)
    offset = keys - queries if self_attention and keys > queries else 0
    own = positions + offset
    if self_attention or keys == queries:
        key_positions = torch.arange(keys, dtype=torch.float32, device=source.device)
    else:
        key_positions = (torch.arange(keys, dtype=torch.float32, device=source.device) + 0.5) * queries / max(keys, 1)
        key_positions -= 0.5
    pool_columns = _segments(keys, cell_columns).to(source.device)
    row_cells = np.searchsorted(_bounds(queries, cell_rows), positions, side="right") - 1

    maximum = np.zeros((len(heads), cell_rows, cell_columns), np.float32)
    mass = np.zeros_like(maximum)
    full_heads = [head for head in heads if head in full_heads] if rows is None else []
    kept = np.zeros((len(full_heads), queries, keys), np.float16) if full_heads else None
    full = np.zeros((len(heads), len(positions), keys), np.float32) if float32 else None
    names = ("entropy", "visible", "distance", "sink", "diagonal", "previous", "top1", "sum")
    per_row = {name: np.zeros((len(heads), len(positions)), np.float32) for name in names}
    ever_visible = np.zeros(keys, bool)
    pattern = _Pattern(keys)

    head_block = max(1, min(len(heads), _BLOCK_CELLS // max(1, keys * 16)))
    for head_begin in range(0, len(heads), head_block):
        block_heads = heads[head_begin : head_begin + head_block]
        head_slice = slice(head_begin, head_begin + len(block_heads))
        for begin, end in _row_blocks(row_cells, max(1, _BLOCK_CELLS // max(1, keys * len(block_heads)))):
            chosen = torch.as_tensor(positions[begin:end], device=source.device)
            block = source.rows(example, block_heads, chosen)
            p, visible = block.probabilities, block.visible
            largest, total = _pool_keys(p, pool_columns)
            own_positions = torch.as_tensor(own[begin:end], device=source.device)
            values = _row_values(p, visible, own_positions, key_positions)
            values["top1"], values["sum"] = _reduced(largest, total)
            if not bool(torch.isfinite(values["sum"]).all()):
                largest, total = _pool_keys(torch.nan_to_num(p, nan=0.0, posinf=0.0, neginf=0.0), pool_columns)
            for name, value in values.items():
                per_row[name][head_slice, begin:end] = value.cpu().numpy()
            if visible is None:
                ever_visible[:] = True
            else:
                ever_visible |= visible.flatten(0, -2).any(0).cpu().numpy()
            if head_begin == 0:
                pattern.add(None if visible is None else visible[0], own[begin:end])
            if kept is not None:
                for position, head in enumerate(block_heads):
                    if head in full_heads:
                        kept[full_heads.index(head), begin:end] = p[position].to(torch.float16).cpu().numpy()
            if full is not None:
                full[head_slice, begin:end] = p.cpu().numpy()
            cells = slice(int(row_cells[begin]), int(row_cells[end - 1]) + 1)
            block_maximum, block_mass = _pool_rows(largest, total, row_cells[begin:end])
            np.maximum(maximum[head_slice, cells], block_maximum, out=maximum[head_slice, cells])
            mass[head_slice, cells] += block_mass

    masked = per_row["visible"] == 0
    row_in_cell = (row_cells[:, None] == np.arange(cell_rows)[None, :]).astype(np.float32)
    mass /= np.maximum((~masked).astype(np.float32) @ row_in_cell, 1)[:, :, None]

    padding = np.flatnonzero(~ever_visible) if len(positions) else np.zeros(0, np.int64)
    counted = ~masked & np.isfinite(per_row["sum"])
    if self_attention and queries == keys:
        counted &= ever_visible[positions][None, :]
    row_values = RowValues(per_row, counted, masked, positions)
    statistics = mean_statistics(row_values, square=queries == keys)
    return Summary(
        heads=heads,
        statistics=statistics,
        maximum=maximum,
        mass=mass,
        matrix=kept,
        rows=rows,
        padding=padding,
        non_finite_rows=int((~np.isfinite(per_row["sum"])).sum()),
        pattern=pattern.words(rows is None),
        matrix_heads=full_heads,
        per_row=row_values if kept is not None else None,  # for joining decoding steps; small next to the matrix
        probabilities=full,
    )


def _bounds(length: int, cells: int) -> Array:
    """First position of each overview cell: cell c covers [c·length // cells, (c + 1)·length // cells)."""
    return np.arange(cells, dtype=np.int64) * length // max(cells, 1)


@lru_cache(maxsize=64)
def _segments(length: int, cells: int) -> torch.Tensor:
    """[cells, widest cell]: positions of each cell, filled up with `length` (which stands for a cell of zeros)."""
    if cells == 0:
        return torch.zeros(0, 0, dtype=torch.int64)
    begin = _bounds(length, cells)
    end = np.append(begin[1:], length)
    table = begin[:, None] + np.arange(int((end - begin).max()))[None, :]
    return torch.from_numpy(np.where(table < end[:, None], table, length))


def _row_blocks(row_cells: Array, most_rows: int) -> list[tuple[int, int]]:
    """Ranges of rows, at most `most_rows` each."""
    return [(begin, min(begin + most_rows, len(row_cells))) for begin in range(0, len(row_cells), most_rows)]


def _pool_keys(p: torch.Tensor, columns: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Largest value and sum over the keys of each overview column, [heads, rows, columns]."""
    heads, rows, keys = p.shape
    cells, widest = columns.shape
    if widest <= 1 or not p.numel():
        return p, p
    if keys == cells * widest:
        flat = p.reshape(heads * rows, 1, keys)
        largest = torch.nn.functional.max_pool1d(flat, widest)
        total = torch.nn.functional.avg_pool1d(flat, widest) * widest
        return largest.view(heads, rows, cells), total.view(heads, rows, cells)
    extended = torch.cat([p, p.new_zeros(heads, rows, 1)], -1)
    gathered = extended[..., columns]  # [heads, rows, cells, widest]
    return gathered.amax(-1), gathered.sum(-1)


def _pool_rows(largest: torch.Tensor, total: torch.Tensor, row_cells: Array) -> tuple[Array, Array]:
    """Largest value, and sum over rows, of the overview rows that these query rows reach."""
    heads, rows, width = largest.shape
    cells = int(row_cells[-1] - row_cells[0]) + 1
    if cells == rows:
        return largest.cpu().numpy(), total.cpu().numpy()
    index = torch.as_tensor(row_cells - row_cells[0], device=largest.device)
    empty = largest.new_zeros(heads, cells, width)
    summed = torch.index_add(empty, 1, index, total)
    highest = empty.scatter_reduce(1, index[None, :, None].expand(largest.shape), largest, "amax", include_self=True)
    return highest.cpu().numpy(), summed.cpu().numpy()


def _reduced(largest: torch.Tensor, total: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Row maximum and row sum, [heads, rows]."""
    if not largest.shape[-1]:
        zero = largest.new_zeros(largest.shape[:2])
        return zero, zero
    return largest.amax(-1), total.sum(-1)


def _row_values(
    p: torch.Tensor,
    visible: torch.Tensor | None,
    own: torch.Tensor,
    key_positions: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """Per row of each head: entropy (nats), visible keys, distance (positions), masses of single keys."""
    heads, rows, keys = p.shape
    if keys == 0:
        return dict.fromkeys(
            ("entropy", "visible", "distance", "sink", "diagonal", "previous"), p.new_zeros(heads, rows)
        )
    count = p.new_full((heads, rows), float(keys))
    if visible is not None:
        count = visible.sum(-1).to(p.dtype).expand(heads, rows)
    # |position of query - position of key|; with as many queries as keys `own` is the row itself.
    distance = (own.to(p.dtype)[:, None] - key_positions[None, :]).abs()
    diagonal = own.clamp(0, keys - 1)[None, :, None].expand(heads, -1, 1)
    previous = (own - 1).clamp(0, keys - 1)[None, :, None].expand(heads, -1, 1)
    return {
        # p log p, 0 at p = 0; a third faster than torch.special.entr
        "entropy": p.clamp_min(1e-38).log_().mul_(p).sum(-1).neg_(),
        "visible": count,
        "distance": (p * distance).sum(-1),
        "sink": p[..., 0],
        "diagonal": p.gather(-1, diagonal).squeeze(-1),
        "previous": p.gather(-1, previous).squeeze(-1),
    }


def mean_statistics(rows: RowValues, *, square: bool) -> dict[str, Array]:
    """Means over counted rows, in float64; NaN where no row counts.

    Args:
        rows: Values of each row.
        square: Queries and keys are the same positions, so that an own and a previous position exist.
    """
    per_row, counted, masked, positions = rows.values, rows.counted, rows.masked, rows.positions

    def mean(values: Array, where: Array) -> Array:
        number = where.sum(1)
        total = np.where(where, values, 0.0).sum(1, dtype=np.float64)
        result: Array = np.where(number > 0, total / np.maximum(number, 1), math.nan)
        return result

    def largest(values: Array, where: Array) -> Array:
        if not values.shape[1]:
            return np.full(len(values), math.nan)
        found = np.where(where, values, -math.inf).max(1)
        result: Array = np.where(np.isfinite(found), found, math.nan)
        return result

    # A row with one visible key has no choice: its entropy says nothing.
    choice = counted & (per_row["visible"] > 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        normalized = per_row["entropy"] / np.log(per_row["visible"])
    none = np.full(len(counted), math.nan)
    return {
        "entropy": mean(per_row["entropy"], counted),
        "normalized_entropy": mean(normalized, choice),
        "distance": mean(per_row["distance"], counted),
        "sink_mass": mean(per_row["sink"], counted),
        "diagonal_mass": mean(per_row["diagonal"], counted) if square else none,
        "previous_mass": mean(per_row["previous"], counted & (positions > 0)[None, :]) if square else none,
        "maximum": largest(per_row["top1"], counted),
        "top1_mass": mean(per_row["top1"], counted),
        "masked_rows": masked.sum(1).astype(np.uint32),
        "row_sum_error": largest(np.abs(per_row["sum"] - 1.0), counted),
    }


class _Pattern:
    """The form of the visible keys of the first head: how many before and after its own position a row sees."""

    def __init__(self, keys: int) -> None:
        self._keys = keys
        self._known = True
        self._masked = False
        self._left: int | None = 0
        self._right: int | None = 0
        self._last_key = -1

    def add(self, visible: torch.Tensor | None, own: Array) -> None:
        if not self._known:
            return
        if visible is None or bool(visible.all()):
            return
        self._masked = True
        table = visible.cpu().numpy()
        seen = table.any(1)
        first = table.argmax(1)
        last = self._keys - 1 - table[:, ::-1].argmax(1)
        if not (table.sum(1)[seen] == (last - first + 1)[seen]).all():
            self._known = False  # gaps: not a band
            return
        own, first, last = own[seen], first[seen], last[seen]
        if not len(own):
            return
        self._last_key = max(self._last_key, int(last.max()))
        inner = first > 0
        lefts = np.unique((own - first)[inner])
        inner = last < self._last_key
        rights = np.unique((last - own)[inner])
        if len(lefts) > 1 or len(rights) > 1:
            self._known = False
            return
        self._left = self._join(self._left, lefts)
        self._right = self._join(self._right, rights)
        self._known = self._left is not None and self._right is not None

    @staticmethod
    def _join(before: int | None, found: Array) -> int | None:
        """Sides are counted from 1 so that 0 means "no limit seen"."""
        if not len(found):
            return before
        side = int(found[0]) + 1
        return side if before in (0, side) else None

    def words(self, all_rows: bool) -> str:
        if not self._masked or not self._known or not all_rows:
            return ""
        if self._left and self._right == 1:
            return f"sliding window of {self._left}, causal"
        if self._right == 1:
            return "causal"
        if self._left and self._right:
            return f"sliding window of {self._left - 1} before and {self._right - 1} after"
        if not self._left and not self._right:
            return "key padding"
        return ""
