"""The Jensen-Shannon divergence of two heads, from the finest resolution that both were stored in."""

from __future__ import annotations

import numpy as np

from tb_plugin_structure.analysis.attention.distances import jensen_shannon
from tb_plugin_structure.analysis.attention.pooling import pool
from tb_plugin_structure.records.attention_details import StoredHead
from tb_plugin_structure.records.table import Array

MOST_ROWS = 64
"""Rows that are read of long sequences: enough for a mean that is stable to two digits."""

_WHOLE_VALUES = 1 << 17


def stored_divergence(teacher: StoredHead, student: StoredHead) -> tuple[float, str] | None:
    """The divergence in bits, and what it was computed from; None when the heads have no rows in common.

    Rows of padding (queries at positions that no row sees as a key) are left out.
    """
    if (teacher.queries, teacher.keys) != (student.queries, student.keys) or not teacher.queries:
        return None
    rows = np.arange(teacher.queries)
    for head in (teacher, student):
        if head.rows_stored is not None:
            rows = np.intersect1d(rows, head.rows_stored)
    if not len(rows):
        return None
    number = len(rows)
    if number > MOST_ROWS and number * teacher.keys > _WHOLE_VALUES:
        rows = rows[np.linspace(0, number - 1, MOST_ROWS).round().astype(np.int64)]  # the last row sees every key
    p, q = (_rows(head, rows) for head in (teacher, student))
    if teacher.queries == teacher.keys and number == teacher.queries:
        padding = np.flatnonzero(~((p > 0).any(0) & (q > 0).any(0)))
        keep = ~np.isin(rows, padding)
        p, q = p[keep], q[keep]
    words = "every position" if len(rows) == teacher.queries else f"{len(rows)} of {teacher.queries:,} queries"
    return jensen_shannon(p, q), words


def _rows(head: StoredHead, rows: Array) -> Array:
    if len(rows) == head.queries:
        return head.window(slice(0, head.queries), slice(0, head.keys))
    return np.concatenate([head.window(slice(row, row + 1), slice(0, head.keys)) for row in rows.tolist()])


def plane_divergence(teacher: Array, student: Array, is_exact: bool) -> tuple[float, str]:
    """Likewise from two overview planes of mass, [rows, columns]; `is_exact`: a cell is one query and one key."""
    rows, columns = min(len(teacher), len(student)), min(teacher.shape[1], student.shape[1])
    p, q = (pool(plane[None], rows, columns)[0] for plane in (teacher, student))
    return jensen_shannon(p, q), "8-bit overview" if is_exact else f"{rows} x {columns} blocks"
