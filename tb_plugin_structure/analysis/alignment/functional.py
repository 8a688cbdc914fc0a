"""Activations and the like that are a module in one model and a call of a function in the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tb_plugin_structure.analysis.alignment.merged import Row
from tb_plugin_structure.analysis.alignment.numbering import first_rows, first_values
from tb_plugin_structure.records.structure import Structure


class _Place(NamedTuple):
    """Where an operator runs: its name and arguments, and the name and the module call of the operator that it reads
    from; calls are the student's."""

    name: str
    arguments: tuple[tuple[str, str], ...]
    read: str
    call: int


def rows_of_functions(rows: Sequence[Row], teacher: Structure, student: Structure) -> dict[int, str]:
    """Rows of modules that only one model has, because the other calls a function in their place, with what the student
    gives it otherwise: "dim -1 → 1", "" for nothing.

    Such a module holds no parameter, runs a single operator, and reads what a paired call made; the other model runs
    the same operator on what the counterpart of that call made, not in a module of its own. Operators of one place
    stand for one another in the order in which they ran, those with the same arguments first.
    """
    candidates = {
        False: [number for number, row in enumerate(rows) if row.student < 0 and not row.children],
        True: [number for number, row in enumerate(rows) if row.teacher < 0 and not row.children],
    }
    if not candidates[False] and not candidates[True]:
        return {}
    student_of = {row.teacher: row.student for row in reversed(rows) if row.teacher >= 0 and row.student >= 0}
    same = {row.student: row.student for row in rows if row.teacher >= 0 and row.student >= 0}
    sides = {False: (_Operators(teacher), student_of), True: (_Operators(student), same)}
    found: dict[int, str] = {}
    for in_student, numbers in candidates.items():
        side, call_of = sides[in_student]
        other, other_call_of = sides[not in_student]
        wanted: defaultdict[_Place, list[int]] = defaultdict(list)
        for number in numbers:
            call = rows[number].student if in_student else rows[number].teacher
            place = side.place(side.only[call], call_of)
            if place is not None:
                wanted[place].append(number)
        if not wanted:
            continue
        names = {place.name for place in wanted}
        offered: defaultdict[_Place, int] = defaultdict(int)
        for operator in other.in_composites(names):
            place = other.place(operator, other_call_of)
            if place is not None:
                offered[place] += 1
        left: defaultdict[tuple[str, str, int], list[tuple[tuple[str, str], ...]]] = defaultdict(list)
        for place, count in offered.items():
            taken = wanted.get(place, [])[:count]
            found.update(dict.fromkeys(taken, ""))
            left[place.name, place.read, place.call] += [place.arguments] * (count - len(taken))
        for place, listed in wanted.items():
            for number in listed:
                given = left[place.name, place.read, place.call]
                if number not in found and given:
                    both = (given.pop(0), place.arguments)
                    found[number] = _changed(*(both if in_student else both[::-1]))
    return dict(sorted(found.items()))


def _changed(teacher: tuple[tuple[str, str], ...], student: tuple[tuple[str, str], ...]) -> str:
    """What is not stated is as the function has it by default."""
    before, after = dict(teacher), dict(student)
    return ", ".join(
        f"{name} {before.get(name, 'default')} → {after.get(name, 'default')}"
        for name in dict.fromkeys([*before, *after])
        if before.get(name) != after.get(name)
    )


class _Operators:
    """The operators of one model, and what they read."""

    def __init__(self, structure: Structure) -> None:
        operators, calls = structure.operators, structure.module_calls
        self.structure = structure
        self.parents: list[int] = calls["parent"].tolist()
        # In place or not, a function is the same.
        inverse = np.unique(operators["name"], return_inverse=True)[1].ravel()
        stripped = [operators.text("name", row).rstrip("_") for row in first_rows(inverse).tolist()]
        self.names = list(map(stripped.__getitem__, inverse.tolist()))
        of_operator = operators["call"].astype(np.int64)
        self.calls: list[int] = of_operator.tolist()
        read = first_values(operators["inputs"].astype(np.int64), operators.offsets("inputs"))
        kernel = np.append(structure.tensors["producer"].astype(np.int64), -1)[read]
        self.makers: list[int] = np.append(structure.kernels["operator"].astype(np.int64), -1)[kernel].tolist()
        """The operator that made what each reads first; -1 for none."""
        only = np.full(calls.rows, -1, np.int64)
        only[of_operator] = np.arange(operators.rows)
        holds = np.diff(structure.modules.offsets("parameters"))[calls["module"]]
        only[(np.bincount(of_operator, minlength=calls.rows) != 1) | (holds > 0)] = -1
        self._named, self._stated = operators.lists("attribute_names"), operators.lists("attribute_values")
        self._arguments: dict[tuple[tuple[int, ...], ...], tuple[tuple[str, str], ...]] = {}
        self.only: list[int] = only.tolist()
        """The operator of each call of a module without parameters that runs no other; -1 for none."""

    def in_composites(self, names: set[str]) -> list[int]:
        """Operators of these names that ran in modules that call others."""
        children = self.structure.call_children
        return [
            row
            for row, (name, call) in enumerate(zip(self.names, self.calls, strict=True))
            if name in names and children[call]
        ]

    def place(self, operator: int, call_of: dict[int, int]) -> _Place | None:
        """Where an operator runs; None when what it reads comes from no paired call."""
        maker = self.makers[operator] if operator >= 0 else -1
        at = self.calls[maker] if maker >= 0 else -1
        while at >= 0 and at not in call_of:
            at = self.parents[at]  # what holds it is grouped otherwise in the other model
        call = call_of.get(at, -1)
        if call < 0:
            return None
        return _Place(self.names[operator], self._arguments_of(operator), self.names[maker], call)

    def _arguments_of(self, operator: int) -> tuple[tuple[str, str], ...]:
        """Names and values of an operator's arguments; few sets occur, each many times."""
        key = tuple(self._named[operator]), tuple(self._stated[operator])
        known = self._arguments.get(key)
        if known is None:
            operators = self.structure.operators
            named, values = operators.texts("attribute_names", operator), operators.texts("attribute_values", operator)
            known = tuple(sorted(pair for pair in zip(named, values, strict=True) if pair[0] != "inplace"))
            self._arguments[key] = known
        return known
