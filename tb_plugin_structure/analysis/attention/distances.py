"""Distances between attention maps, and what one map says by itself. NaN rows and empty rows are left out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tb_plugin_structure.records.table import Array


def hellinger(teacher: Array, student: Array) -> Array:
    """Hellinger distances of all pairs of heads: sqrt(1 - mean over rows of Σ sqrt(p q)), 0 equal, 1 disjoint.

    Rows are normalised first; a row counts for a pair when both heads have mass in it.

    Args:
        teacher: [teacher heads, queries, keys].
        student: [student heads, queries, keys], the same positions.

    Returns:
        [teacher heads, student heads]; NaN where no row counts.
    """
    if teacher.shape[1:] != student.shape[1:]:
        raise ValueError(
            f"teacher maps are {teacher.shape[1]} x {teacher.shape[2]}, student maps {student.shape[1]} x "
            f"{student.shape[2]}; pool them to one size first (pooling.pool)"
        )
    return hellinger_of_roots(normalized_roots(teacher), normalized_roots(student))


Roots = tuple[Array, Array]


def hellinger_of_roots(teacher: Roots, student: Roots) -> Array:
    """As :func:`hellinger`, from what :func:`normalized_roots` gave."""
    (t_roots, t_valid), (s_roots, s_valid) = teacher, student
    rows = t_valid @ s_valid.T
    with np.errstate(invalid="ignore", divide="ignore"):
        distance: Array = np.sqrt(np.clip(1.0 - (t_roots @ s_roots.T) / rows, 0.0, 1.0))
    distance[rows == 0] = math.nan
    return distance


def normalized_roots(maps: Array) -> Roots:
    """Square roots of the normalised rows, [heads, queries · keys], and [heads, queries] 1 where a row has mass."""
    maps = np.asarray(maps, np.float32)
    finite: Array = np.all(np.isfinite(maps), axis=-1)
    clean = np.where(finite[..., None], maps, 0.0).clip(0)
    sums = clean.sum(-1)
    valid = sums > 1e-6
    roots = np.sqrt(clean / np.where(valid, sums, 1.0)[..., None]) * valid[..., None]
    return roots.reshape(len(maps), -1), valid.astype(np.float32)


def jensen_shannon(teacher: Array, student: Array) -> float:
    """Mean over rows of the Jensen-Shannon divergence in bits: ½ KL(P‖M) + ½ KL(Q‖M), M = ½ (P + Q); 0 to 1.

    Args:
        teacher: [queries, keys]. Rows are normalised; rows without mass in either map, and rows with NaN, are left out.
        student: [queries, keys], the same positions.

    Returns:
        NaN when no row is left.
    """
    if teacher.shape != student.shape:
        raise ValueError(f"maps differ in size: {list(teacher.shape)} and {list(student.shape)}")
    p, q = np.asarray(teacher, np.float64), np.asarray(student, np.float64)
    with np.errstate(invalid="ignore"):
        p_sum, q_sum = p.sum(-1), q.sum(-1)
        rows = np.isfinite(p_sum) & np.isfinite(q_sum) & (p_sum > 1e-6) & (q_sum > 1e-6)
    if not rows.any():
        return math.nan
    p, q = p[rows] / p_sum[rows, None], q[rows] / q_sum[rows, None]
    mean = (p + q) / 2

    def divergence(values: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(values > 0, values * np.log2(values / mean), 0.0)
        result: Array = terms.sum(-1)
        return result

    return float(np.clip((divergence(p) + divergence(q)) / 2, 0.0, 1.0).mean())


def rollout(layers: Sequence[Array], residual: float = 0.5) -> Array:
    """Attention rollout (Abnar and Zuidema, "Quantifying attention flow in transformers", ACL 2020).

    The product over layers of residual · I + (1 - residual) · mean over heads; rows sum to 1 when the maps' rows do.

    Args:
        layers: First layer first, each [heads, positions, positions].
        residual: Share of the residual connection.
    """
    result: Array | None = None
    for maps in layers:
        if maps.ndim != 3 or maps.shape[1] != maps.shape[2]:
            raise ValueError(f"rollout needs square maps [heads, positions, positions], got {list(maps.shape)}")
        mixed = residual * np.eye(maps.shape[-1]) + (1.0 - residual) * np.asarray(maps, np.float64).mean(0)
        result = mixed if result is None else mixed @ result
    if result is None:
        raise ValueError("rollout needs at least one layer")
    return result
