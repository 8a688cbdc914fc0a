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
from tb_plugin_structure.capture.attention.row_statistics import RowValues, mean_statistics
from tb_plugin_structure.capture.attention.sources import MatrixSource
from tb_plugin_structure.capture.attention.summary import Summary, summarize


def stitched(maps: Sequence[AttentionMap], options: AttentionOptions) -> list[AttentionMap]:
    """The maps, with each run of steps over a cache replaced by one map of all positions.

    Rows are placed by absolute position; keys that a step did not have yet are 0. The cache may grow, or have its full
    size from the beginning, with the positions to come masked. Only steps whose full matrices were kept are joined; of
    what they give, watched heads alone are kept in full resolution when it is longer than ``detail_limit``.
    """
    result: list[AttentionMap] = []
    runs: dict[tuple[str, int], list[AttentionMap]] = {}
    order: list[list[AttentionMap]] = []
    for made in maps:
        site = (made.module_path, made.ordinal)
        run = runs.get(site)
        if run is not None and _continues(run[-1], made):
            run.append(made)
        else:
            runs[site] = [made]
            order.append(runs[site])
    for run in order:
        result.append(_joined(run, options) if len(run) > 1 else run[0])
    return result


def _continues(before: AttentionMap, after: AttentionMap) -> bool:
    return (
        before.relation == after.relation == "self"
        and before.heads == after.heads
        and after.query_length < after.key_length
        and after.key_length in (before.key_length, before.key_length + after.query_length)
        and before.summaries.keys() == after.summaries.keys()
        and all(_is_whole(made, summary) for made in (before, after) for summary in made.summaries.values())
        and _end(after) == _end(before) + after.query_length
    )


def _is_whole(made: AttentionMap, summary: Summary) -> bool:
    return summary.matrix is not None and summary.matrix_heads == summary.heads and summary.per_row is not None


def _end(made: AttentionMap) -> int:
    """The position behind the last key that any row sees."""
    summary = next(iter(made.summaries.values()))
    seen = np.ones(made.key_length, bool)
    seen[summary.padding] = False
    return int(np.flatnonzero(seen).max(initial=-1)) + 1


def _joined(run: Sequence[AttentionMap], options: AttentionOptions) -> AttentionMap:
    first, last = run[0], run[-1]
    queries, keys = sum(made.query_length for made in run), _end(last)
    watched = None
    if max(queries, keys) > options.detail_limit:
        watched = options.watched_heads(first.module_path, next(iter(first.summaries.values())).heads)
    return replace(
        first,
        query_length=queries,
        key_length=keys,
        mask="causal" if queries == keys else last.mask,
        exactness=f"{first.exactness}; {len(run)} calls of a decoding loop, joined by position",
        summaries={
            example: _joined_summary([made.summaries[example] for made in run], queries, keys, watched)
            for example in first.summaries
        },
    )


def _joined_summary(parts: Sequence[Summary], queries: int, keys: int, watched: list[int] | None) -> Summary:
    """One summary of all steps; `watched` names the heads to keep in full resolution, None all of them."""
    heads = parts[0].heads
    matrix = np.zeros((len(heads), queries, keys), np.float16)
    begin = 0
    for part in parts:
        assert part.matrix is not None
        rows, columns = part.matrix.shape[1:]
        matrix[:, begin : begin + rows, :columns] = part.matrix[:, :, :keys]
        begin += rows
    rows_of = [part.per_row for part in parts if part.per_row is not None]
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
        padding=padding[padding < keys],
        non_finite_rows=sum(part.non_finite_rows for part in parts),
        per_row=per_row,
    )
