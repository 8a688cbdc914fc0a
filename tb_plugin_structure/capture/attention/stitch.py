"""Joins the calls of a decoding loop: with a cache, each step attends with one row more than the last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from tb_plugin_structure.capture.attention.kept import KeptHead, keep_head
from tb_plugin_structure.capture.attention.maps import AttentionMap
from tb_plugin_structure.capture.attention.options import AttentionOptions
from tb_plugin_structure.capture.attention.overview_planes import cells_of_rows, row_states
from tb_plugin_structure.capture.attention.row_statistics import NAMES, RowValues, mean_statistics
from tb_plugin_structure.capture.attention.sources import MatrixSource
from tb_plugin_structure.capture.attention.summary import Summary, summarize

_MOST_ROLLED_VALUES = 1 << 26
"""A map of steps over a rolling window has keys that most of its rows never saw: 128 MiB in half precision."""


class _Run:
    """Calls of one module over one cache.

    Attributes:
        maps: The calls.
        begins: For each call, the position of its first key.
        is_full: Whether a further call would have made the joined map too large.
    """

    def __init__(self, first: AttentionMap) -> None:
        self.maps = [first]
        self.begins = [0]
        self.is_full = False

    def take(self, after: AttentionMap) -> bool:
        """Whether `after` continues the run; it is part of it then."""
        before = self.maps[-1]
        if not _are_alike(before, after):
            return False
        begin = self.begins[-1]
        grows = after.key_length in (before.key_length, before.key_length + after.query_length)
        if not (grows and _end(after) == _end(before) + after.query_length):
            if not self._rolls(before, after):
                return False
            begin += before.key_length + after.query_length - after.key_length
        self.maps.append(after)
        self.begins.append(begin)
        return True

    def _rolls(self, before: AttentionMap, after: AttentionMap) -> bool:
        """Whether the cache is full and its oldest keys made room for the new ones.

        Only behind a call that was seen to be causal: a module may as well ask the same keys again and again.
        """
        if not (_end(before) == before.key_length and _end(after) == after.key_length):
            return False
        if after.key_length == before.key_length:
            rolls = len(self.maps) > 1 or "causal" in before.mask
        else:
            is_windowed_prompt = len(self.maps) == 1 and before.query_length == before.key_length
            rolls = is_windowed_prompt and "sliding window" in before.mask and after.key_length < before.key_length
        queries = sum(made.query_length for made in self.maps) + after.query_length
        keys = self.begins[-1] + before.key_length + after.query_length
        self.is_full = rolls and after.heads * queries * keys > _MOST_ROLLED_VALUES
        return rolls and not self.is_full


def stitched(maps: Sequence[AttentionMap], options: AttentionOptions) -> list[AttentionMap]:
    """The maps, with each run of steps over a cache replaced by one map of all positions.

    Rows are placed by absolute position; keys that a step did not have are 0. The cache may grow, have its full size
    from the beginning, with the positions to come masked, or hold the last positions alone. Only steps whose full
    matrices were kept are joined; of what they give, watched heads alone are kept in full resolution when it is longer
    than ``detail_limit``.
    """
    runs: dict[tuple[str, int], _Run] = {}
    order: list[_Run] = []
    for made in maps:
        site = (made.module_path, made.ordinal)
        run = runs.get(site)
        if run is None or not run.take(made):
            runs[site] = _Run(made)
            order.append(runs[site])
    return [_joined(run, options) if len(run.maps) > 1 else run.maps[0] for run in order]


def _are_alike(before: AttentionMap, after: AttentionMap) -> bool:
    return (
        before.relation == after.relation == "self"
        and before.heads == after.heads
        and after.query_length < after.key_length
        and before.summaries.keys() == after.summaries.keys()
        and all(_is_whole(made, summary) for made in (before, after) for summary in made.summaries.values())
    )


def _is_whole(made: AttentionMap, summary: Summary) -> bool:
    return summary.matrix is not None and summary.matrix_heads == summary.heads and summary.per_row is not None


def _end(made: AttentionMap) -> int:
    """The position behind the last key that any row sees."""
    summary = next(iter(made.summaries.values()))
    seen = np.ones(made.key_length, bool)
    seen[summary.padding] = False
    return int(np.flatnonzero(seen).max(initial=-1)) + 1


def _joined(run: _Run, options: AttentionOptions) -> AttentionMap:
    first, last = run.maps[0], run.maps[-1]
    queries, keys = sum(made.query_length for made in run.maps), run.begins[-1] + _end(last)
    mask = "causal" if queries == keys else last.mask
    over = ""
    if run.begins[-1]:
        mask = f"sliding window of {last.key_length}, causal"
        over = f" over a cache of the last {last.key_length:,} positions"
    if run.is_full:
        over += f", as far as {_MOST_ROLLED_VALUES:,} probabilities reach (later calls are recorded each for itself)"
    watched = None
    if max(queries, keys) > options.detail_limit:
        watched = options.watched_heads(first.module_path, next(iter(first.summaries.values())).heads)
    return replace(
        first,
        query_length=queries,
        key_length=keys,
        mask=mask,
        exactness=f"{first.exactness}; {len(run.maps)} calls of a decoding loop{over}, joined by position",
        summaries={
            example: _joined_summary([made.summaries[example] for made in run.maps], run.begins, queries, keys, watched)
            for example in first.summaries
        },
    )


def _joined_summary(
    parts: Sequence[Summary], begins: Sequence[int], queries: int, keys: int, watched: list[int] | None
) -> Summary:
    """One summary of all steps; `watched` names the heads to keep in full resolution, None all of them."""
    heads = parts[0].heads
    matrix = np.zeros((len(heads), queries, keys), np.float16)
    begin = 0
    for part, first_key in zip(parts, begins, strict=True):
        assert part.matrix is not None
        rows, columns = part.matrix.shape[1:]
        matrix[:, begin : begin + rows, first_key : first_key + columns] = part.matrix[:, :, : keys - first_key]
        begin += rows
    rows_of = [
        _behind_the_first_key(part.per_row) if first_key else part.per_row
        for part, first_key in zip(parts, begins, strict=True)
        if part.per_row is not None
    ]
    per_row = RowValues(
        np.concatenate([rows.values for rows in rows_of], 2),
        np.concatenate([rows.counted for rows in rows_of], 1),
        np.concatenate([rows.masked for rows in rows_of], 1),
        np.arange(queries),
    )
    source = MatrixSource(torch.from_numpy(matrix).unsqueeze(0))
    planes = summarize(source, 0, list(range(len(heads))), None, full_heads=[], self_attention=True)
    cells = planes.maximum.shape[1]
    kept: list[KeptHead] = []
    for head in watched or []:
        found = keep_head(source, 0, heads.index(head))
        if found is not None:
            kept.append(replace(found, head=head))
    padding = parts[-1].padding
    return replace(
        parts[0],
        statistics=mean_statistics(per_row, square=queries == keys),  # from the float32 rows, not from the half matrix
        maximum=planes.maximum,
        mass=planes.mass,
        row_states=row_states(
            per_row.masked, per_row.not_finite, cells_of_rows(per_row.positions, queries, cells), cells
        ),
        matrix=matrix if watched is None else None,
        matrix_heads=heads if watched is None else [],
        kept=kept,
        padding=padding[padding < keys] if not begins[-1] else padding[:0],
        non_finite_rows=sum(part.non_finite_rows for part in parts),
        per_row=per_row,
    )


def _behind_the_first_key(rows: RowValues) -> RowValues:
    """Rows of a window that has left the first key of the sequence behind: none of their mass is on it."""
    values = rows.values.copy()
    values[NAMES.index("sink")] = 0.0
    return replace(rows, values=values)
