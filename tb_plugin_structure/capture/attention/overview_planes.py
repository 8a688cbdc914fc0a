"""Overview planes: the largest probability and the mass of each of at most 64 x 64 cells."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch

from tb_plugin_structure.records.row_states import MASKED, NOT_FINITE, NOT_RECORDED
from tb_plugin_structure.records.table import Array

OVERVIEW_CELLS = 64
"""An overview plane has at most this many rows and columns."""

_WIDE_CELL = 32
"""From this width a plain reduction over the keys of a cell is faster than a pooling kernel."""

_NARROW_CELL = 8
"""Below this width reductions over the keys of a cell use no vector instructions."""


def cells_of_rows(positions: Array, length: int, cells: int) -> Array:
    """The overview row of each query position."""
    found: Array = np.searchsorted(_bounds(length, cells), positions, side="right") - 1
    return found


def is_one_a_cell(positions: Array, length: int, cells: int) -> bool:
    """Whether each of `cells` cells has exactly one of the query positions."""
    return np.array_equal(cells_of_rows(positions, length, cells), np.arange(cells))


def _bounds(length: int, cells: int) -> Array:
    """First position of each overview cell: cell c covers [c·length // cells, (c + 1)·length // cells)."""
    return np.arange(cells, dtype=np.int64) * length // max(cells, 1)


@lru_cache(maxsize=64)
def _segments(length: int, cells: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions of each cell, [cells · widest], and [cells] 1 where a cell is as wide as the widest; the others, which
    are narrower by one, name their last position twice."""
    begin = _bounds(length, cells)
    end = np.append(begin[1:], length)
    widest = int((end - begin).max())
    table = np.minimum(begin[:, None] + np.arange(widest)[None, :], end[:, None] - 1)
    return torch.from_numpy(table.ravel()).to(device), torch.from_numpy((end - begin == widest).astype(np.float32)).to(
        device
    )


def row_states(masked: Array, not_finite: Array, row_cells: Array, cells: int) -> Array:
    """[heads, cells]: what ``records.row_states`` says about each overview row.

    Args:
        masked: [heads, rows]: rows in which every key is masked.
        not_finite: [heads, rows]: rows that hold NaN or infinity.
        row_cells: [rows]: the cell of each row.
        cells: Number of cells.
    """
    number = np.bincount(row_cells, minlength=cells)
    states = np.zeros((len(masked), cells), np.uint8)
    states[:, number == 0] = NOT_RECORDED
    if masked.any() or not_finite.any():
        row_in_cell = row_cells[:, None] == np.arange(cells)[None, :]
        states[(number > 0) & (masked.astype(np.int64) @ row_in_cell == number)] = MASKED
        states[not_finite.astype(np.int64) @ row_in_cell > 0] = NOT_FINITE
    return states


def row_blocks(row_cells: Array, most_rows: int) -> list[tuple[int, int]]:
    """Ranges of rows, at most `most_rows` each; where overview cells have equally many rows, whole cells."""
    rows = len(row_cells)
    in_a_cell = int((row_cells == row_cells[0]).sum()) if rows else 1
    if in_a_cell <= most_rows:
        most_rows -= most_rows % in_a_cell
    return [(begin, min(begin + most_rows, rows)) for begin in range(0, rows, most_rows)]


def pool_keys(p: torch.Tensor, cells: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Largest value and sum over the keys of each overview column, [heads, rows, columns]."""
    heads, rows, keys = p.shape
    if keys == cells or not p.numel():
        return p, p
    width = keys // cells
    if keys == cells * width:
        parts = p.reshape(heads, rows, cells, width)
        if width >= _WIDE_CELL:
            return parts.amax(-1), parts.sum(-1)
        largest = torch.nn.functional.max_pool1d(p.reshape(heads * rows, 1, keys), width)
        return largest.view(heads, rows, cells), _sums(parts)
    positions, is_widest = _segments(keys, cells, p.device)
    gathered = p.index_select(-1, positions)
    largest = torch.nn.functional.max_pool1d(gathered.view(heads * rows, 1, -1), width + 1)
    parts = gathered.view(heads, rows, cells, width + 1)
    return largest.view(heads, rows, cells), _sums(parts[..., :width]).addcmul_(parts[..., width], is_widest)


def _sums(parts: torch.Tensor) -> torch.Tensor:
    """Over the last axis; where it is short, adding its columns takes a third of a reduction's time."""
    width = parts.shape[-1]
    if not 1 < width < _NARROW_CELL:
        return parts.sum(-1)
    total = parts[..., 0] + parts[..., 1]
    for column in range(2, width):
        total.add_(parts[..., column])
    return total


def add_rows(maximum: Array, mass: Array, largest: torch.Tensor, total: torch.Tensor, row_cells: Array) -> None:
    """Put query rows into planes [heads, cells, columns]: the larger maximum, the sum of masses.

    Args:
        maximum: Plane of largest probabilities, written in place.
        mass: Plane of sums, written in place.
        largest: Largest probability of each row, [heads, rows, columns].
        total: Sum of each row, [heads, rows, columns].
        row_cells: [rows]: the cell of each row, in ascending order.
    """
    heads, rows, width = largest.shape
    first, last = int(row_cells[0]), int(row_cells[-1])
    cells: Any = slice(first, last + 1)
    number = last - first + 1
    if bool((np.diff(row_cells) > 0).all()):  # each in a cell of its own
        cells = cells if number == rows else row_cells
    elif rows % number == 0 and np.array_equal(row_cells, np.repeat(np.arange(first, last + 1), rows // number)):
        shape = (heads, number, rows // number, width)
        largest, total = largest.reshape(shape).amax(2), total.reshape(shape).sum(2)
    else:
        index = torch.as_tensor(row_cells - first, device=largest.device)
        empty = largest.new_zeros(heads, number, width)
        largest = empty.scatter_reduce(1, index[None, :, None].expand(largest.shape), largest, "amax")
        total = torch.index_add(empty, 1, index, total)
    maximum[:, cells] = np.maximum(maximum[:, cells], largest.cpu().numpy())
    mass[:, cells] += total.cpu().numpy()
