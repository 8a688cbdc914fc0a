"""Bringing maps of different lengths to a common size: by blocks of positions, or by overlap of characters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tb_plugin_structure.records.table import Array


def pool(maps: Array, rows: int, columns: int) -> Array:
    """Average over blocks of queries and sum over blocks of keys: rows keep their sum.

    Blocks that do not divide evenly share a position by the fraction that lies in each.

    Args:
        maps: [heads, queries, keys].
        rows: Number of rows to bring them to, at most the number of queries.
        columns: Number of columns to bring them to, at most the number of keys.
    """
    queries, keys = maps.shape[-2:]
    if rows > queries or columns > keys or rows < 1 or columns < 1:
        raise ValueError(f"cannot pool {queries} x {keys} maps to {rows} x {columns}")
    if (rows, columns) == (queries, keys):
        return maps
    averaged = block_overlap(queries, rows)
    averaged /= averaged.sum(1, keepdims=True)
    summed = block_overlap(keys, columns)
    pooled: Array = np.matmul(np.matmul(averaged.astype(maps.dtype), maps), summed.T.astype(maps.dtype))
    return pooled


def block_overlap(length: int, blocks: int) -> Array:
    """[blocks, length]: which share of each position lies in each of `blocks` equal blocks; columns sum to 1."""
    edges = np.linspace(0, length, blocks + 1)
    begin = np.maximum(edges[:-1, None], np.arange(length)[None, :])
    end = np.minimum(edges[1:, None], np.arange(1, length + 1)[None, :])
    overlap: Array = np.clip(end - begin, 0.0, 1.0)
    return overlap


Span = tuple[int, int]


def span_overlap(spans: Sequence[Span], others: Sequence[Span]) -> Array:
    """[spans, others]: which share of each span (first character, one past the last) lies in each other span.

    Rows sum to 1 where a span overlaps anything; a span without characters (a special token) has a row of zeros.
    """
    first, last = (np.array([span[side] for span in spans], np.float64).reshape(-1, 1) for side in (0, 1))
    begin, end = (np.array([span[side] for span in others], np.float64).reshape(1, -1) for side in (0, 1))
    overlap = np.clip(np.minimum(last, end) - np.maximum(first, begin), 0.0, None)
    total = overlap.sum(1, keepdims=True)
    shares: Array = np.divide(overlap, total, out=np.zeros_like(overlap), where=total > 0)
    return shares


def onto_tokens(maps: Array, spans: Sequence[Span], target: Sequence[Span]) -> Array:
    """Maps over tokens with the character ranges `spans`, brought onto tokens with the ranges `target`.

    P' = A_query P A_key: queries are averaged, keys split by overlap; rows still sum to 1 where the target's tokens
    are covered.

    Args:
        maps: [heads, len(spans), len(spans)].
        spans: First character and one past the last, of each token of the maps.
        target: Likewise, of the tokens to bring them onto.
    """
    result: Array = span_overlap(target, spans) @ np.asarray(maps, np.float64) @ span_overlap(spans, target)
    return result
