"""Query and key instead of the matrix they give: linear in the number of positions, when the mask has a closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from tb_plugin_structure.capture.attention.sources import (
    MASK_BELOW,
    NOTHING_BELOW,
    QueryKeySource,
)
from tb_plugin_structure.records.table import Array

_BLOCK_CELLS = 1 << 22


@dataclass
class Visible:
    """Row i sees key j when begin[i] <= j < end[i] and seen[j]; all arrays, on the CPU."""

    begin: Array
    end: Array
    seen: Array


@dataclass
class QueryKey:
    """One head of one example, ready to be stored; see ``QueryKeyForm`` in attention.proto.

    Attributes:
        query, key: [positions, width] in 16 bits.
        dtype: "float16" or "bfloat16".
        key_head: Number of the key head, which other query heads may share.
        log_sum_exp: [queries], of the stored values.
        visible: None when every row sees every key.
    """

    query: Array
    key: Array
    dtype: str
    key_head: int
    log_sum_exp: Array
    scale: float
    softcap: float
    slope: float
    offset: int
    visible: Visible | None


def query_key(source: QueryKeySource, example: int, head: int) -> QueryKey | None:
    """One head of a source; None when its scores have no closed form (a bias, a score function, a mask with gaps)."""
    arguments = source.arguments
    if arguments.score_change is not None and not arguments.only_hides:
        return None
    visible: Visible | None = None
    masked = arguments.mask is not None or arguments.score_change is not None
    if masked or source.positions_visible(torch.zeros(1, dtype=torch.int64, device=source.device)) is not None:
        visible = _visible(source, example, head)
        if visible is None:
            return None
    group = max(1, source.heads // max(1, source.key_heads))
    query, dtype = _sixteen_bits(source.query[example, head])
    key, key_dtype = _sixteen_bits(source.key[example if source.key.shape[0] > 1 else 0, head // group])
    if dtype != key_dtype:
        return None
    slope = 0.0
    if arguments.alibi_slopes is not None:
        slopes = arguments.alibi_slopes.detach()
        slope = float((slopes[example] if slopes.dim() == 2 else slopes)[head])
    sink = None if arguments.sinks is None else float(arguments.sinks.detach()[head])
    found = QueryKey(
        _raw(query),
        _raw(key),
        dtype,
        head // group,
        np.zeros(source.queries, np.float32),
        source.scale,
        float(arguments.softcap or 0.0),
        slope,
        source.keys - source.queries,
        visible,
    )
    found.log_sum_exp = _log_sum_exp(found, query.float(), key.float(), sink)
    return found


def _sixteen_bits(values: torch.Tensor) -> tuple[torch.Tensor, str]:
    if values.dtype == torch.bfloat16:
        return values.contiguous(), "bfloat16"  # exact as it is
    return values.to(torch.float16).contiguous(), "float16"


def _raw(values: torch.Tensor) -> Array:
    result: Array = values.view(torch.int16).cpu().numpy()
    return result


def _visible(source: QueryKeySource, example: int, head: int) -> Visible | None:
    """The keys each row sees as intervals; None when they are none, or a mask also changes scores."""
    queries, keys = source.queries, source.keys
    begin, end = np.zeros(queries, np.int32), np.zeros(queries, np.int32)
    count = np.zeros(queries, np.int64)
    seen = torch.zeros(keys, dtype=torch.bool, device=source.device)
    arguments = source.arguments
    block = max(1, _BLOCK_CELLS // max(1, keys))
    for first in range(0, queries, block):
        rows = torch.arange(first, min(queries, first + block), device=source.device)
        visible = torch.ones(1, len(rows), keys, dtype=torch.bool, device=source.device)
        positions = source.positions_visible(rows)
        if positions is not None:
            visible = visible & positions
        if arguments.mask is not None:
            mask = source.mask_rows(example, [head], rows)
            if mask.dtype == torch.bool:
                visible = visible & mask
            else:
                allowed = ~(mask <= MASK_BELOW)
                if bool((allowed & (mask != 0)).any()):
                    return None  # a bias
                visible = visible & allowed
        if arguments.score_change is not None:
            change = arguments.score_change(
                visible.new_zeros(visible.shape, dtype=torch.float32), example, [head], rows
            )
            visible = visible & ~(change <= NOTHING_BELOW)
        table = visible[0]
        rows_here = slice(first, first + len(rows))
        number = table.sum(-1)
        count[rows_here] = number.cpu().numpy()
        begin[rows_here] = table.to(torch.uint8).argmax(-1).cpu().numpy()
        last = keys - table.flip(-1).to(torch.uint8).argmax(-1)
        end[rows_here] = torch.where(number > 0, last, 0).cpu().numpy()
        seen |= table.any(0)
    seen_keys = seen.cpu().numpy()
    begin = np.minimum(begin, end)
    before = np.concatenate([[0], np.cumsum(seen_keys)])
    # What a row sees is part of what any row sees: equal numbers in an interval are equal sets.
    if not np.array_equal(count, before[end] - before[begin]):
        return None
    return Visible(begin, end, seen_keys)


def _log_sum_exp(form: QueryKey, query: torch.Tensor, key: torch.Tensor, sink: float | None) -> Array:
    """[queries] in float32, of the values as they are stored; +infinity where every key is masked."""
    queries, keys = len(query), len(key)
    result = np.zeros(queries, np.float32)
    columns = torch.arange(keys, device=query.device)
    block = max(1, _BLOCK_CELLS // max(1, keys))
    seen = None if form.visible is None else torch.as_tensor(form.visible.seen, device=query.device)
    for first in range(0, queries, block):
        rows = torch.arange(first, min(queries, first + block), device=query.device)
        scores = (query[rows] @ key.t()) * form.scale
        if form.softcap:
            scores = torch.tanh(scores / form.softcap) * form.softcap
        if form.slope:
            scores = scores - form.slope * (rows[:, None] + form.offset - columns[None, :]).abs().float()
        if form.visible is not None and seen is not None:
            begin, end = (
                torch.as_tensor(side[first : first + len(rows)], device=query.device)[:, None]
                for side in (form.visible.begin, form.visible.end)
            )
            scores = scores.masked_fill(~((columns >= begin) & (columns < end) & seen), -math.inf)
        if sink is not None:
            scores = torch.cat([scores, scores.new_full((len(rows), 1), sink)], -1)
        sums = torch.logsumexp(scores, -1) if scores.shape[-1] else scores.new_full((len(rows),), -math.inf)
        result[first : first + len(rows)] = sums.masked_fill(sums == -math.inf, math.inf).cpu().numpy()
    return result
