"""Statistics, overview planes and the full matrix of one example, from blocks of float32 rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from tb_plugin_structure.capture.attention.kept import KeptHead
from tb_plugin_structure.capture.attention.mask_pattern import MaskPattern
from tb_plugin_structure.capture.attention.overview_planes import (
    OVERVIEW_CELLS,
    add_rows,
    cells_of_rows,
    is_one_a_cell,
    pool_keys,
    row_blocks,
    row_states,
)
from tb_plugin_structure.capture.attention.row_statistics import NAMES, RowValues, mean_statistics, places, row_values
from tb_plugin_structure.capture.attention.sources import Source
from tb_plugin_structure.records.table import Array

_BLOCK_CELLS = 1 << 19  # 2 MiB of float32 at a time: what is read a dozen times stays in the processor's cache


@dataclass
class Summary:
    """What is kept of one attention of one example; arrays have a row per recorded head.

    Attributes:
        heads: Head numbers.
        statistics: Column of ``records.schema.ATTENTION_STATISTICS`` -> [heads], all but the layer and the scales.
        maximum, mass: Overview planes, [heads, rows, columns], float32.
        row_states: [heads, rows] of the planes, one of ``records.row_states``.
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
    row_states: Array
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
    where = places(queries, keys, None if rows is None else tuple(rows), self_attention, source.device)
    positions = where.positions
    cell_rows, cell_columns = min(OVERVIEW_CELLS, queries), min(OVERVIEW_CELLS, keys)
    if 0 < len(positions) < cell_rows and is_one_a_cell(positions, queries, len(positions)):
        cell_rows = len(positions)  # fewer, evenly spaced rows: no cell is empty
    row_cells = cells_of_rows(positions, queries, cell_rows)

    maximum = np.zeros((len(heads), cell_rows, cell_columns), np.float32)
    mass = np.zeros_like(maximum)
    full_heads = [head for head in heads if head in full_heads] if rows is None else []
    kept = np.zeros((len(full_heads), queries, keys), np.float16) if full_heads else None
    full = np.zeros((len(heads), len(positions), keys), np.float32) if float32 else None
    values = np.zeros((len(NAMES), len(heads), len(positions)), np.float32)
    ever_visible = np.zeros(keys, bool)
    pattern = MaskPattern(keys)

    head_block = max(1, min(len(heads), _BLOCK_CELLS // max(1, keys * 16)))
    for head_begin in range(0, len(heads), head_block):
        block_heads = heads[head_begin : head_begin + head_block]
        head_slice = slice(head_begin, head_begin + len(block_heads))
        for begin, end in row_blocks(row_cells, max(1, _BLOCK_CELLS // max(1, keys * len(block_heads)))):
            block = source.rows(example, block_heads, where.rows[begin:end])
            p, visible = block.probabilities, block.visible
            pooled = pool_keys(p, cell_columns)
            block_values = row_values(p, visible, where, slice(begin, end), pooled).cpu().numpy()
            values[:, head_slice, begin:end] = block_values
            if not np.isfinite(block_values[-1]).all():
                pooled = pool_keys(torch.nan_to_num(p, nan=0.0, posinf=0.0, neginf=0.0), cell_columns)
            if visible is None:
                ever_visible[:] = True
            else:
                ever_visible |= visible.flatten(0, -2).any(0).cpu().numpy()
            if head_begin == 0 and rows is None:
                pattern.add(None if visible is None else visible[0], where.own[begin:end])
            if kept is not None:
                for position, head in enumerate(block_heads):
                    if head in full_heads:
                        kept[full_heads.index(head), begin:end] = p[position].to(torch.float16).cpu().numpy()
            if full is not None:
                full[head_slice, begin:end] = p.cpu().numpy()
            add_rows(maximum[head_slice], mass[head_slice], *pooled, row_cells[begin:end])

    masked = values[NAMES.index("visible")] == 0
    is_finite = np.isfinite(values[NAMES.index("sum")])
    row_in_cell = (row_cells[:, None] == np.arange(cell_rows)[None, :]).astype(np.float32)
    mass /= np.maximum((~masked).astype(np.float32) @ row_in_cell, 1)[:, :, None]

    padding = np.flatnonzero(~ever_visible) if len(positions) else np.zeros(0, np.int64)
    counted = ~masked & is_finite
    if self_attention and queries == keys:
        counted &= ever_visible[positions][None, :]
    of_rows = RowValues(values, counted, masked, positions)
    return Summary(
        heads=heads,
        statistics=mean_statistics(of_rows, square=queries == keys),
        maximum=maximum,
        mass=mass,
        row_states=row_states(masked, ~is_finite, row_cells, cell_rows),
        matrix=kept,
        rows=rows,
        padding=padding,
        non_finite_rows=int((~is_finite).sum()),
        pattern=pattern.words(rows is None),
        matrix_heads=full_heads,
        per_row=of_rows if kept is not None else None,  # for joining decoding steps; small next to the matrix
        probabilities=full,
    )
