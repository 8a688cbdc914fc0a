"""Joins the calls of a decoding loop: with a cache, each step attends with one row more than the last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from tb_plugin_structure.capture.attention.maps import AttentionMap
from tb_plugin_structure.capture.attention.row_statistics import RowValues, mean_statistics
from tb_plugin_structure.capture.attention.sources import MatrixSource
from tb_plugin_structure.capture.attention.summary import Summary, summarize


def stitched(maps: Sequence[AttentionMap]) -> list[AttentionMap]:
    """The maps, with each run of steps over a growing cache replaced by one map of all positions.

    Rows are placed by absolute position; keys that a step did not have yet are 0. Only steps whose full matrices were
    kept are joined.
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
        result.append(_joined(run) if len(run) > 1 else run[0])
    return result


def _continues(before: AttentionMap, after: AttentionMap) -> bool:
    return (
        before.relation == after.relation == "self"
        and before.heads == after.heads
        and after.query_length < after.key_length == before.key_length + after.query_length
        and before.summaries.keys() == after.summaries.keys()
        and all(_is_whole(made, summary) for made in (before, after) for summary in made.summaries.values())
    )


def _is_whole(made: AttentionMap, summary: Summary) -> bool:
    return summary.matrix is not None and summary.matrix_heads == summary.heads and summary.per_row is not None


def _joined(run: Sequence[AttentionMap]) -> AttentionMap:
    first, last = run[0], run[-1]
    queries = sum(made.query_length for made in run)
    return replace(
        first,
        query_length=queries,
        key_length=last.key_length,
        mask="causal" if queries == last.key_length else last.mask,
        exactness=f"{first.exactness}; {len(run)} calls of a decoding loop, joined by position",
        summaries={
            example: _joined_summary([made.summaries[example] for made in run], queries, last.key_length)
            for example in first.summaries
        },
    )


def _joined_summary(parts: Sequence[Summary], queries: int, keys: int) -> Summary:
    heads = parts[0].heads
    matrix = np.zeros((len(heads), queries, keys), np.float16)
    begin = 0
    for part in parts:
        assert part.matrix is not None
        rows, columns = part.matrix.shape[1:]
        matrix[:, begin : begin + rows, :columns] = part.matrix
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
    return replace(
        parts[0],
        statistics=mean_statistics(per_row, square=queries == keys),  # from the float32 rows, not from the half matrix
        maximum=planes.maximum,
        mass=planes.mass,
        matrix=matrix,
        padding=parts[-1].padding,
        non_finite_rows=sum(part.non_finite_rows for part in parts),
        per_row=per_row,
    )
