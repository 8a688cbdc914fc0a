"""What a module call costs, and what a stage does; NaN where it was not recorded or has no meaning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tb_plugin_structure.analysis.audit.side import Side

_NAN = float("nan")


class Cost(NamedTuple):
    """Of a call or a stage. ``records.schema.AUDIT_ROWS`` says what each is; times are medians of warm passes."""

    parameters: float = _NAN
    macs: float = _NAN
    activation_bytes: float = _NAN
    duration_ns: float = _NAN
    peak_bytes: float = _NAN
    saved_bytes: float = _NAN


NO_COST = Cost()


class CostOfBoth:
    """What the teacher's side of something costs, and the student's; the usual quantities by name."""

    __slots__ = ()

    teacher_cost: Cost
    student_cost: Cost

    @property
    def teacher_parameters(self) -> float:
        return self.teacher_cost.parameters

    @property
    def student_parameters(self) -> float:
        return self.student_cost.parameters

    @property
    def teacher_macs(self) -> float:
        return self.teacher_cost.macs

    @property
    def student_macs(self) -> float:
        return self.student_cost.macs

    @property
    def teacher_activation_bytes(self) -> float:
        return self.teacher_cost.activation_bytes

    @property
    def student_activation_bytes(self) -> float:
        return self.student_cost.activation_bytes


def call_cost(side: Side, call: int) -> Cost:
    """The cost of a call and all below it; NO_COST when there is no call."""
    if call < 0:
        return NO_COST
    cost = Cost(
        float(side.parameter_count(side.module_of(call))),
        side.call_macs(call),
        side.call_activation_bytes(call),
        side.duration_ns(call),
        side.peak_bytes(call),
        side.call_saved_bytes(call),
    )
    cost = Cost._make([_NAN if value != value else value for value in cost])  # one NaN: equal costs compare as equal
    shared: Cost = side.costs.setdefault(cost, cost)
    return shared


def total_cost(side: Side, calls: set[int]) -> Cost:
    """Of several calls together: what lies within another is not counted again, and parameters once."""
    if not calls:
        return NO_COST
    outermost = list(_outermost(sorted(calls), side.call_ends))
    if len(outermost) == 1:
        return call_cost(side, outermost[0])
    parameters: set[int] = set()
    for call in outermost:
        parameters.update(side.own_parameters(side.module_of(call)))
    costs = np.array([call_cost(side, call) for call in outermost])
    known = ~np.isnan(costs)
    sums = np.where(known.any(axis=0), np.where(known, costs, 0.0).sum(axis=0), _NAN)
    peaks = costs[:, Cost._fields.index("peak_bytes")]
    elements = float(sum(int(side.structure.parameter_elements[row]) for row in parameters))
    peak = float(np.nanmax(peaks)) if not np.isnan(peaks).all() else _NAN
    return Cost(*map(float, sums))._replace(parameters=elements, peak_bytes=peak)


def _outermost(calls: Sequence[int], ends: Sequence[int]) -> Iterator[int]:
    end = -1
    for call in calls:
        if call >= end:
            yield call
            end = ends[call]
