"""Equal weights as evidence: a student that was cut from its teacher carries samples of the teacher's tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tb_plugin_structure.analysis.alignment.tree import Tree
from tb_plugin_structure.records.table import Array

EQUAL_WEIGHTS = 0.6
"""Correlation of samples above which two tensors are taken to have one origin. Unrelated tensors of 64 samples
correlate by 0 +- 0.125; the margin leaves room for training after the copy."""

_LEAST_SAMPLES = 8


class Sketches:
    """Centred, normalised samples of each parameter, so that a dot product is Pearson's correlation.

    Centred because norms and biases sit near a constant: a plain cosine would call all of them equal.
    """

    def __init__(self, tree: Tree) -> None:
        table = tree.structure.parameters
        offsets = table.offsets("sketch").astype(np.int64)
        values = table["sketch"].astype(np.float64)
        self.shapes = tree.parameter_shapes
        self.length = np.diff(offsets)
        width = int(self.length.max()) if len(self.length) else 0
        self.samples = np.zeros((table.rows, width))
        for row in np.flatnonzero(self.length >= _LEAST_SAMPLES).tolist():
            piece = values[offsets[row] : offsets[row + 1]]
            if not np.isfinite(piece).all():
                continue
            piece = piece - piece.mean()
            norm = float(np.sqrt((piece * piece).sum()))
            if norm > 1e-12 * max(1.0, float(np.abs(values[offsets[row] : offsets[row + 1]]).max())):
                self.samples[row, : len(piece)] = piece / norm
        self.usable = (self.samples != 0).any(axis=1) if width else np.zeros(table.rows, bool)


def paired_correlations(
    teacher: Sketches, student: Sketches, teacher_rows: Sequence[Sequence[int]], student_rows: Sequence[Sequence[int]]
) -> Array:
    """For each pair of layers the mean correlation over parameters in the same place and of the same shape; NaN where
    none can be compared.

    Args:
        teacher: The teacher's samples.
        student: The student's samples.
        teacher_rows: Parameter rows of each layer.
        student_rows: Parameter rows of its counterpart.
    """
    pairs = [
        (layer, row_t, row_s)
        for layer, (rows_t, rows_s) in enumerate(zip(teacher_rows, student_rows, strict=True))
        for row_t, row_s in zip(rows_t, rows_s, strict=False)
        if teacher.shapes[row_t] == student.shapes[row_s]
    ]
    layers, of_t, of_s = np.array(pairs, np.int64).reshape(-1, 3).T
    known = teacher.usable[of_t] & student.usable[of_s] & (teacher.length[of_t] == student.length[of_s])
    layers, of_t, of_s = layers[known], of_t[known], of_s[known]
    width = min(teacher.samples.shape[1], student.samples.shape[1])
    values = (teacher.samples[of_t, :width] * student.samples[of_s, :width]).sum(axis=1)
    counts = np.bincount(layers, minlength=len(teacher_rows))
    sums = np.bincount(layers, values, len(teacher_rows))
    means: Array = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return means


def correlations(teacher: Sketches, student: Sketches, teacher_rows: Array, student_rows: Array) -> Array:
    """All correlations [len(teacher_rows), len(student_rows)]; NaN where shapes differ or nothing was sampled."""
    width = min(teacher.samples.shape[1], student.samples.shape[1])
    values: Array = teacher.samples[teacher_rows, :width] @ student.samples[student_rows, :width].T
    codes: dict[tuple[int, ...], int] = {}
    shape_t = np.array([codes.setdefault(teacher.shapes[row], len(codes)) for row in teacher_rows.tolist()])
    shape_s = np.array([codes.setdefault(student.shapes[row], len(codes)) for row in student_rows.tolist()])
    comparable = (shape_t[:, None] == shape_s[None, :]) & (
        teacher.usable[teacher_rows][:, None] & student.usable[student_rows][None, :]
    )
    return np.where(comparable, values, np.nan)
