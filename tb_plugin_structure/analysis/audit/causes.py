"""What brought a mismatch about, as far as the records show it: what sets a width, a stride, a special token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.feature import Feature
from tb_plugin_structure.analysis.audit.side import Side

_WIDTHS = (dim.CHANNELS, dim.HIDDEN, dim.VOCABULARY, dim.CLASSES)


class Resampling(NamedTuple):
    """A leaf call whose output has another height and width than its input."""

    call: int
    source: tuple[int, int]
    target: tuple[int, int]


class Causes:
    """Explains mismatches between features of two sides."""

    def __init__(self, teacher: Side, student: Side) -> None:
        self.teacher, self.student = teacher, student
        self._resamplings: dict[str, list[Resampling]] = {}

    def explain(self, teacher: Feature, student: Feature, classes: Sequence[str]) -> str:
        """One sentence, or "" when the record does not show a cause."""
        said: list[str] = []
        if {"channels", "hidden", "classes", "vocabulary"} & set(classes):
            said.append(self._widths(teacher, student))
        if {"spatial", "spatial x2", "spatial /2", "off by one"} & set(classes):
            said.append(self._spatial(teacher, student))
        if "special tokens" in classes:
            said.append(_special_tokens(teacher, student))
        if "tokens" in classes:
            said.append(_token_lengths(teacher, student))
        if "heads" in classes:
            said.append(f"{teacher.size(dim.HEADS)} heads in the teacher, {student.size(dim.HEADS)} in the student")
        if "layout" in classes and teacher.layout and student.layout:
            said.append(f"{teacher.layout} in the teacher, {student.layout} in the student")
        return "; ".join(text for text in said if text)

    # ---- widths

    def _widths(self, teacher: Feature, student: Feature) -> str:
        parts = []
        for side, feature in ((self.teacher, teacher), (self.student, student)):
            width = next((feature.size(name) for name in _WIDTHS if feature.size(name)), 0)
            setter = self._sets_width(side, feature, width) if width else ""
            parts.append(f"{width:,} in the {side.role}" + (f" from {setter}" if setter else ""))
        return ", ".join(parts)

    @staticmethod
    def _sets_width(side: Side, feature: Feature, width: int) -> str:
        """Path of the last module within a call that has a weight of `width` rows and ran before the feature was
        there."""
        structure = side.structure
        producer = int(structure.tensors["producer"][feature.tensor])
        made_by = int(structure.kernels["operator"][producer]) if producer >= 0 else structure.operators.rows
        for row in range(side.call_ends[feature.call] - 1, feature.call, -1):
            if int(structure.module_calls["operator_begin"][row]) > made_by:
                continue
            module = int(structure.module_calls["module"][row])
            for parameter in structure.modules.values("parameters", module).tolist():
                shape = structure.parameters.values("shape", parameter).tolist()
                if len(shape) > 1 and width in (shape[0], shape[-1] if shape[0] != width else width):
                    return structure.module_paths[module]
        return ""

    # ---- height and width

    def _spatial(self, teacher: Feature, student: Feature) -> str:
        ours, theirs = self._until(self.student, student), self._until(self.teacher, teacher)
        for mine, other in zip(ours, theirs, strict=False):
            if mine.source != other.source:
                break
            if mine.target != other.target:
                difference = max(abs(a - b) for a, b in zip(mine.target, other.target, strict=True))
                kind = "rounds differently" if difference == 1 else "has another stride"
                return (
                    f"{self._describe(self.student, mine)} {kind} than the teacher's "
                    f"{self._describe(self.teacher, other)}"
                )
        if len(ours) != len(theirs):
            side, longer, shorter = (
                (self.student, ours, theirs) if len(ours) > len(theirs) else (self.teacher, theirs, ours)
            )
            extra = longer[len(shorter)]
            return f"the {side.role} also reduces in {self._describe(side, extra)}"
        return ""

    def _until(self, side: Side, feature: Feature) -> list[Resampling]:
        """Changes of resolution up to a feature, parallel branches once."""
        found: list[Resampling] = []
        for change in self._all(side):
            if change.call >= side.call_ends[feature.call]:
                break
            if not any((change.source, change.target) == (seen.source, seen.target) for seen in found):
                found.append(change)
        return found

    def _all(self, side: Side) -> list[Resampling]:
        if side.role not in self._resamplings:
            self._resamplings[side.role] = list(self._find(side))
        return self._resamplings[side.role]

    @staticmethod
    def _find(side: Side) -> list[Resampling]:
        structure = side.structure
        found = []
        for call, children in enumerate(structure.call_children):
            inputs = structure.module_calls.values("inputs", call).tolist()
            outputs = structure.module_calls.values("outputs", call).tolist()
            if children or not inputs or not outputs:
                continue
            source, target = (_height_width(side, tensors[0]) for tensors in (inputs, outputs))
            if source and target and source != target and target != (1, 1):
                found.append(Resampling(call, source, target))
        return found

    @staticmethod
    def _describe(side: Side, change: Resampling) -> str:
        structure = side.structure
        attributes = structure.attributes(int(structure.module_calls["module"][change.call]))
        shown = [
            f"{name} {attributes[name]}"
            for name in ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
            if name in attributes and attributes[name] not in ("False", "1", "(1, 1)", "0", "(0, 0)")
        ]
        sizes = f"{change.source[0]}x{change.source[1]} to {change.target[0]}x{change.target[1]}"
        return f"{structure.call_path(change.call)} ({sizes}{'; ' if shown else ''}{', '.join(shown)})"


def _height_width(side: Side, tensor: int) -> tuple[int, int] | None:
    label = {dimension.name: dimension.size for dimension in side.names.of(tensor)}
    return (label[dim.HEIGHT], label[dim.WIDTH]) if dim.HEIGHT in label and dim.WIDTH in label else None


def _special_tokens(teacher: Feature, student: Feature) -> str:
    said = []
    for role, feature in (("teacher", teacher), ("student", student)):
        axis = feature.axis(dim.TOKENS)
        if axis >= 0:
            tokens = feature.dimensions[axis]
            origin = f" ({tokens.origin})" if tokens.origin else ""
            said.append(f"{tokens.special + tokens.trailing} special in the {role}{origin}")
    return ", ".join(said)


def _token_lengths(teacher: Feature, student: Feature) -> str:
    def text(feature: Feature) -> str:
        for dimension in feature.dimensions:
            if dimension.name == dim.TOKENS:
                return dimension.text().removeprefix("tokens ")
        return "no tokens"

    return f"tokens: {text(teacher)} in the teacher, {text(student)} in the student"
