"""Compares the attention of two models: every layer with every layer, head by head."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from tb_plugin_structure.analysis.attention.assignment import assign, assign_many
from tb_plugin_structure.analysis.attention.distances import Roots, hellinger_of_roots, normalized_roots
from tb_plugin_structure.analysis.attention.pooling import pool
from tb_plugin_structure.records.attention import AttentionOverview
from tb_plugin_structure.records.table import Array

FULL, POOLED = "8-bit overview, every position", "8-bit overview, pooled"
RECORDED = "float32 when recorded"


@dataclass
class LayerComparison:
    """Two layers, head by head.

    Attributes:
        teacher, student: Positions in the layers of the two records.
        heads: (teacher head, student head, distance) of the matching with the least total distance. Heads are
            positions within the layer's stored heads.
        unmatched_teacher, unmatched_student: Heads that are left over.
        distances: [teacher heads, student heads].
        resolution: What was compared: every position, or blocks of positions.
        excluded_mass: Share of attention that lies where the other model is masked, left out of the distance.
    """

    teacher: int
    student: int
    heads: list[tuple[int, int, float]]
    unmatched_teacher: list[int]
    unmatched_student: list[int]
    distances: Array
    resolution: str
    excluded_mass: float = 0.0

    @property
    def distance(self) -> float:
        """Mean over the matched heads; NaN when there is none."""
        return float(np.mean([distance for _, _, distance in self.heads])) if self.heads else math.nan


@dataclass
class AttentionComparison:
    """All layers of two models.

    Attributes:
        layer_distances: [teacher layers, student layers]; NaN where two layers cannot be compared.
        pairs: (teacher layer, student layer) -> their comparison.
        layer_pairs: Teacher and student layer, configured or found.
        notes: What a reader must know to read the numbers.
    """

    layer_distances: Array
    pairs: dict[tuple[int, int], LayerComparison]
    layer_pairs: list[tuple[int, int]]
    resolution: str
    notes: list[str] = field(default_factory=list)
    measure: str = "Hellinger"

    def to_dict(self) -> dict[str, Any]:
        """The JSON of ``api/attention/comparison``."""
        return {
            "measure": self.measure,
            "resolution": self.resolution,
            "layer_distances": [[_number(value) for value in row] for row in self.layer_distances.tolist()],
            "pairs": [
                {
                    "teacher": pair.teacher,
                    "student": pair.student,
                    "heads": [[teacher, student, _number(distance)] for teacher, student, distance in pair.heads],
                    "unmatched_teacher": pair.unmatched_teacher,
                    "unmatched_student": pair.unmatched_student,
                }
                for pair in self.pairs.values()
            ],
            "layer_pairs": [list(pair) for pair in self.layer_pairs],
            "notes": self.notes,
        }


def compare(
    teacher: AttentionOverview,
    student: AttentionOverview,
    layer_pairs: Sequence[tuple[int, int]] | None = None,
    *,
    same_step: bool = False,
) -> AttentionComparison:
    """Distances of all heads, matched heads and the layer map of two overviews.

    Where positions differ in number, both maps are pooled to the smaller number of cells; such values are lower than
    values of full maps and are never mixed with them in a ranking without being named in the notes.

    Args:
        teacher: Overview of the teacher, as stored.
        student: Overview of the student.
        layer_pairs: Configured (teacher layer, student layer) pairs; None to pair layers by least distance.
        same_step: Both were recorded in one step of one run: distances that were computed then, from the float32 maps,
            are used.
    """
    t_layers, s_layers = _Layers(teacher), _Layers(student)
    recorded = _recorded(teacher, student) if same_step else None
    distances = np.full((len(t_layers), len(s_layers)), math.nan)
    pairs: dict[tuple[int, int], LayerComparison] = {}
    for t in range(len(t_layers)):
        for s in range(len(s_layers)):
            pair = _compare_layers(t_layers, t, s_layers, s, recorded)
            if pair is not None:
                pairs[t, s] = pair
    _match_heads(list(pairs.values()), t_layers, s_layers)
    for (t, s), pair in pairs.items():
        distances[t, s] = pair.distance
    notes = _notes(t_layers, s_layers, pairs)
    if layer_pairs is None:
        chosen = assign(distances) if distances.size else []
        if chosen:
            notes.append("layers are paired by least distance, not by a configuration")
    else:
        outside = [pair for pair in layer_pairs if not (0 <= pair[0] < len(t_layers) and 0 <= pair[1] < len(s_layers))]
        if outside:
            raise ValueError(
                f"layer pair {outside[0]} lies outside {len(t_layers)} teacher and {len(s_layers)} student layers"
            )
        chosen = [(int(t), int(s)) for t, s in layer_pairs]
    return AttentionComparison(distances, pairs, chosen, _resolution(pairs), notes)


class _Layers:
    """Decoded maps of one overview."""

    def __init__(self, overview: AttentionOverview) -> None:
        self.overview = overview
        self.layers = list(overview.header.layers)
        self.maps = lru_cache(maxsize=None)(self._maps)
        self.pooled = lru_cache(maxsize=None)(self._pooled)
        self.roots = lru_cache(maxsize=None)(self._roots)
        self.support = lru_cache(maxsize=None)(self._support)

    def __len__(self) -> int:
        return len(self.layers)

    def usable(self, layer: int) -> bool:
        record = self.layers[layer]
        return not record.not_captured and record.heads > 0 and record.overview_rows > 0 and record.overview_columns > 0

    def _maps(self, layer: int) -> Array:
        """Mass planes [heads, rows, columns], with padded queries emptied."""
        record = self.layers[layer]
        maps = np.stack([self.overview.plane(layer, head, "mass") for head in range(record.heads)])
        if record.relation == "self" and record.query_length == record.key_length == maps.shape[1] == maps.shape[2]:
            maps[:, ~(maps > 0).any((0, 1)), :] = 0.0  # a key that nobody sees is padding, and so is its query
        result: Array = maps
        return result

    def _pooled(self, layer: int, rows: int, columns: int) -> Array:
        return pool(self.maps(layer), rows, columns)

    def _roots(self, layer: int, rows: int, columns: int) -> Roots:
        return normalized_roots(self.pooled(layer, rows, columns))

    def _support(self, layer: int, rows: int, columns: int) -> Array:
        """Cells in which some head attends: what is not masked."""
        seen: Array = np.any(self.pooled(layer, rows, columns) > 0, axis=0)
        return seen

    def is_full(self, layer: int) -> bool:
        record = self.layers[layer]
        return record.overview_rows == record.query_length and record.overview_columns == record.key_length


def _recorded(teacher: AttentionOverview, student: AttentionOverview) -> tuple[Array, str] | None:
    """Distances of all heads that were computed when both were recorded, [teacher heads, student heads]."""
    found = student.recorded_distances(teacher.header.model, teacher.statistics.rows)
    if found is not None:
        return found
    found = teacher.recorded_distances(student.header.model, student.statistics.rows)
    return None if found is None else (found[0].T, found[1])


def _match_heads(pairs: Sequence[LayerComparison], teachers: _Layers, students: _Layers) -> None:
    """The matching with the least total distance of every pair of layers, tables of one size at a time."""
    by_size: dict[tuple[int, ...], list[LayerComparison]] = {}
    for pair in pairs:
        by_size.setdefault(pair.distances.shape, []).append(pair)
    for members in by_size.values():
        matchings = assign_many(np.stack([pair.distances for pair in members]))
        for pair, matching in zip(members, matchings, strict=True):
            pair.heads = [(i, j, float(pair.distances[i, j])) for i, j in matching]
            t_heads, s_heads = teachers.layers[pair.teacher].heads, students.layers[pair.student].heads
            pair.unmatched_teacher = sorted(set(range(t_heads)) - {i for i, _ in matching})
            pair.unmatched_student = sorted(set(range(s_heads)) - {j for _, j in matching})


def _compare_layers(
    teachers: _Layers, t: int, students: _Layers, s: int, recorded: tuple[Array, str] | None
) -> LayerComparison | None:
    """Two layers, with no heads matched yet; None when they cannot be compared."""
    if not teachers.usable(t) or not students.usable(s):
        return None
    t_record, s_record = teachers.layers[t], students.layers[s]
    if t_record.relation != s_record.relation:
        return None
    if recorded is not None:
        known = recorded[0][
            t_record.first_head_row : t_record.first_head_row + t_record.heads,
            s_record.first_head_row : s_record.first_head_row + s_record.heads,
        ]
        if np.isfinite(known).any():
            return LayerComparison(t, s, [], [], [], known, f"{RECORDED}, {recorded[1]}")
    rows = min(t_record.overview_rows, s_record.overview_rows)
    columns = min(t_record.overview_columns, s_record.overview_columns)
    same = (t_record.query_length, t_record.key_length) == (s_record.query_length, s_record.key_length)
    full = same and teachers.is_full(t) and students.is_full(s)
    excluded = 0.0
    if _mask_form(t_record.mask) != _mask_form(s_record.mask):
        common = teachers.support(t, rows, columns) & students.support(s, rows, columns)
        t_maps, s_maps = teachers.pooled(t, rows, columns), students.pooled(s, rows, columns)
        excluded = max(_share(t_maps, ~common), _share(s_maps, ~common))
        distances = hellinger_of_roots(normalized_roots(t_maps * common), normalized_roots(s_maps * common))
    else:
        distances = hellinger_of_roots(teachers.roots(t, rows, columns), students.roots(s, rows, columns))
    resolution = FULL if full else f"{POOLED} to {rows} x {columns}"
    return LayerComparison(t, s, [], [], [], distances, resolution, excluded)


def _mask_form(words: str) -> tuple[bool, bool]:
    """Whether the order of positions hides keys: causal, windowed. Padding is dealt with by itself."""
    return "causal" in words, "window" in words


def _share(maps: Array, outside: Array) -> float:
    total = float(maps.sum())
    return float((maps * outside).sum()) / total if total > 0 else 0.0


def _resolution(pairs: dict[tuple[int, int], LayerComparison]) -> str:
    found = sorted({pair.resolution for pair in pairs.values()})
    if not found:
        return "none"
    return found[0] if len(found) == 1 else "mixed: " + ", ".join(found[:4]) + (" …" if len(found) > 4 else "")


def _notes(teachers: _Layers, students: _Layers, pairs: dict[tuple[int, int], LayerComparison]) -> list[str]:
    notes: list[str] = []
    for role, layers in (("teacher", teachers), ("student", students)):
        captured = [layer for layer in layers.layers if not layer.not_captured]
        missing = len(layers) - len(captured)
        if not captured:
            notes.append(f"no attention of the {role} was captured")
        elif missing:
            noun, verb, auxiliary = ("layer", "looks", "was") if missing == 1 else ("layers", "look", "were")
            notes.append(f"{missing} {noun} of the {role} that {verb} like attention {auxiliary} not captured")
    resolutions = {pair.resolution for pair in pairs.values()}
    if any(POOLED in resolution or "blocks" in resolution for resolution in resolutions):
        notes.append(
            "some maps are pooled to blocks of positions; pooled distances are lower than full ones, compare them "
            "only among themselves"
        )
    lengths = {
        (
            teachers.layers[pair.teacher].query_length,
            teachers.layers[pair.teacher].key_length,
            students.layers[pair.student].query_length,
            students.layers[pair.student].key_length,
        )
        for pair in pairs.values()
    }
    if any((a, b) != (c, d) for a, b, c, d in lengths):
        notes.append(
            "teacher and student have different numbers of positions: blocks are compared by relative position"
        )
    elif _tokens_differ(teachers.overview, students.overview):
        notes.append("the labels of the positions differ: equal positions are not equal tokens")
    excluded = max((pair.excluded_mass for pair in pairs.values()), default=0.0)
    if excluded > 0.01:
        notes.append(
            f"masks differ: up to {excluded:.0%} of the attention lies where the other model is masked and is left out"
        )
    usable = any(map(teachers.usable, range(len(teachers)))) and any(map(students.usable, range(len(students))))
    if usable and not pairs:
        notes.append("nothing can be compared: the two models share no kind of attention (self, cross, channel)")
    elif usable and len(pairs) < len(teachers) * len(students):
        notes.append("layers of different kinds (self, cross, channel) are not compared with one another")
    return notes


def _tokens_differ(teacher: AttentionOverview, student: AttentionOverview) -> bool:
    """Whether both have labels and no axis of equal length has equal ones."""
    t_axes = {len(axis.tokens): list(axis.tokens) for axis in teacher.header.axes if axis.tokens}
    s_axes = {len(axis.tokens): list(axis.tokens) for axis in student.header.axes if axis.tokens}
    common = t_axes.keys() & s_axes.keys()
    return bool(common) and any(t_axes[length] != s_axes[length] for length in common)


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return round(value, 6) if math.isfinite(value) else None
