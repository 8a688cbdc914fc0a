"""Which values of the teacher and of the student a recorded loss really compared.

A distillation configuration says what was meant; the record of what ran between the models says what was done. A value
of the student may pass an adapter, a softmax or a mean before it meets the teacher's: every value of the outside record
carries the features that it was made from, and a kernel that reads one made from the teacher's features alone and one
made from the student's alone is where they are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tb_plugin_structure.analysis.external_values import made_by_models, model_row
from tb_plugin_structure.records.structure import Structure

MAXIMUM_FEATURES = 16
"""More features than this in one value are no pair any more (a concatenation of all of them, a running sum)."""


@dataclass(frozen=True)
class Feature:
    """A value that a model made and the loss used.

    Attributes:
        path: Path of the module in whose call it was made; '' for the model's own forward.
        operator: Name of the operator that made it, '' when the model's record does not hold it.
        shape: Its shape.
        rows: (row of ``module_calls``, row of ``operators``) in the model's record; -1 where unknown.
    """

    path: str
    operator: str
    shape: tuple[int, ...]
    rows: tuple[int, int] = (-1, -1)

    def __str__(self) -> str:
        where = self.path or "the model"
        is_whole_call = self.path and self.rows[0] >= 0
        made = f"{self.operator} in {where}" if self.operator and not is_whole_call else where
        return f"{made} {list(self.shape)}"


@dataclass(frozen=True)
class ComparedFeatures:
    """One place at which teacher and student meet.

    Attributes:
        operator: Name of the operator that compares, e.g. 'mse_loss'.
        source: Its 'file:line', '' when the record has none.
        teacher, student: The features that the two compared values were made from.
        teacher_shape, student_shape: Shapes of the values that met.
    """

    operator: str
    source: str
    teacher: tuple[Feature, ...]
    student: tuple[Feature, ...]
    teacher_shape: tuple[int, ...]
    student_shape: tuple[int, ...]

    def __str__(self) -> str:
        sides = [", ".join(map(str, features)) for features in (self.teacher, self.student)]
        where = f" ({self.source})" if self.source else ""
        return f"{self.operator}{where}: teacher {sides[0]} with student {sides[1]}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""

        def side(features: tuple[Feature, ...], shape: tuple[int, ...]) -> dict[str, Any]:
            listed = [
                {"path": each.path, "operator": each.operator, "shape": list(each.shape), "rows": list(each.rows)}
                for each in features
            ]
            return {"features": listed, "shape": list(shape)}

        return {
            "operator": self.operator,
            "source": self.source,
            "teacher": side(self.teacher, self.teacher_shape),
            "student": side(self.student, self.student_shape),
        }


def compared_features(outside: Structure, *, teacher: Structure, student: Structure) -> list[ComparedFeatures]:
    """The pairs of features that the operators between two models compared, in the order in which they ran.

    Args:
        outside: What ran between the models of a recorded step.
        teacher: The teacher's record of that step (or an equal one of an earlier step).
        student: The student's record.
    """
    return list(_Meetings(outside, {"teacher": teacher, "student": student}).found())


class _Meetings:
    def __init__(self, outside: Structure, models: dict[str, Structure]) -> None:
        self.outside = outside
        self.models = models
        self.made_from: dict[int, dict[str, tuple[int, ...]]] = {
            tensor: {role: (tensor,)} for tensor, role in made_by_models(outside, models).items()
        }
        """Value -> role -> external values that it was made from."""

    def found(self) -> Iterator[ComparedFeatures]:
        kernels = self.outside.kernels
        seen: set[tuple[int, tuple[int, ...], tuple[int, ...]]] = set()
        for kernel in range(kernels.rows):
            reads = [int(row) for row in (*kernels.values("inputs", kernel), *kernels.values("also_reads", kernel))]
            of_one = {
                role: next((row for row in reads if set(self.made_from.get(row, ())) == {role}), -1)
                for role in self.models
            }
            # Two numbers that meet are two losses that are added, not features.
            met = min(of_one.values()) >= 0 and any(self.outside.shape(row) for row in of_one.values())
            if met:
                sides = {role: self.made_from[row][role] for role, row in of_one.items()}
                operator = int(kernels["operator"][kernel])
                # One operator compares a pair once, however many kernels it runs (kl_div: three of them).
                key = (operator, sides["teacher"], sides["student"])
                if key not in seen and max(map(len, sides.values())) <= MAXIMUM_FEATURES:
                    seen.add(key)
                    yield self._comparison(operator, sides, of_one)
            merged: dict[str, tuple[int, ...]] = {}
            for row in reads:
                for role, origins in self.made_from.get(row, {}).items():
                    merged[role] = tuple(dict.fromkeys((*merged.get(role, ()), *origins)))
            if merged:
                for row in kernels.values("outputs", kernel).tolist():
                    self.made_from.setdefault(int(row), merged)

    def _comparison(self, operator: int, sides: dict[str, tuple[int, ...]], rows: dict[str, int]) -> ComparedFeatures:
        outside = self.outside
        return ComparedFeatures(
            outside.operators.text("name", operator),
            outside.operators.text("source", operator),
            tuple(self._feature("teacher", row) for row in sides["teacher"]),
            tuple(self._feature("student", row) for row in sides["student"]),
            outside.shape(rows["teacher"]),
            outside.shape(rows["student"]),
        )

    def _feature(self, role: str, tensor: int) -> Feature:
        outside, model = self.outside, self.models[role]
        path, shape = outside.tensors.text("name", tensor).partition("/")[2], outside.shape(tensor)
        row = model_row(outside, tensor, model)
        kernel = int(model.tensors["producer"][row]) if row >= 0 else -1
        if kernel < 0:
            return Feature(path, "", shape)
        operator = int(model.kernels["operator"][kernel])
        name = model.operators.text("name", operator)
        call = self._returned_by(model, row, operator)
        if call >= 0:
            return Feature(model.call_path(call), name, shape, (call, operator))
        return Feature(path, name, shape, (-1, operator))

    def _returned_by(self, model: Structure, tensor: int, operator: int) -> int:
        """The innermost call that made and returned a value; -1 when it was made in the middle of one. (A module may
        hand on what it was given, as the pooling of a feature pyramid does with the levels before its own.)"""
        calls = model.module_calls
        at = np.flatnonzero(calls["outputs"] == tensor)
        returning = np.searchsorted(calls.offsets("outputs"), at, side="right") - 1
        made = (calls["operator_begin"][returning] <= operator) & (operator < calls["operator_end"][returning])
        return int(returning[made][-1]) if made.any() else -1
