"""What two passes of one model did differently: train against eval, one branch or one rank against another.

Alignment searches for counterparts between models that differ. Here both records are of one model, and everything has
an identity of its own: a module call is its path and ordinal under the call around it, an operator its name and ordinal
within its call. What has no equal identity in the other record ran in one of them only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tb_plugin_structure.records.structure import Structure

ONLY_IN_FIRST, ONLY_IN_SECOND, CHANGED = "only in the first", "only in the second", "changed"
MAXIMUM_LISTED = 2_000
_SHOWN = 6
_KIND_NAMES = {ONLY_IN_FIRST: "first", ONLY_IN_SECOND: "second", CHANGED: "changed"}
_SUBJECTS = ("module", "call", "operator")


@dataclass(frozen=True)
class Difference:
    """One thing that differs.

    Attributes:
        kind: ONLY_IN_FIRST, ONLY_IN_SECOND or CHANGED.
        subject: "call", "operator" or "module".
        path: Module path, with '[k]' for the k-th further call under one parent; '' for the model.
        text: What it is, e.g. "dropout" or "training True -> False".
        within: Calls and operators inside a call that ran in one pass only.
        rows: Where it stands in the first and the second record: the row of the module call or, for an operator, of
            the operator; -1 where it did not run.
    """

    kind: str
    subject: str
    path: str
    text: str
    within: tuple[int, int] = (0, 0)
    rows: tuple[int, int] = (-1, -1)


@dataclass(frozen=True)
class VariantComparison:
    """Result of :func:`compare_variants`; `first` and `second` are names for people.

    `same_model` is what :func:`are_variants` says: without it the differences are those of two models, and there may be
    little that both have.
    """

    first: str
    second: str
    differences: tuple[Difference, ...]
    same_model: bool = True

    def summary(self) -> str:
        """One sentence."""
        if not self.differences:
            return f"{self.first} and {self.second} ran the same calls and operators."
        parts = []
        for kind, where in ((ONLY_IN_FIRST, self.first), (ONLY_IN_SECOND, self.second)):
            counts = Counter(each.subject for each in self.differences if each.kind == kind)
            if counts:
                listed = " and ".join(_count(counts[subject], subject) for subject in _SUBJECTS if counts[subject])
                parts.append(f"{listed} only in {where}")
        changed = sum(each.kind == CHANGED for each in self.differences)
        if changed:
            parts.append(f"{changed} differ" if parts else f"{_count(changed, 'thing')} differ")
        return f"{self.first} and {self.second}: {', '.join(parts)}."

    def rows(self) -> list[tuple[str, str, str, str]]:
        """(where, what, path, text) of each difference, in execution order; the model's own path is '(model)'."""
        where = {ONLY_IN_FIRST: f"only in {self.first}", ONLY_IN_SECOND: f"only in {self.second}", CHANGED: CHANGED}
        return [
            (where[each.kind], each.subject, each.path or "(model)", each.text + _within_text(each.within))
            for each in self.differences
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold, at most ``MAXIMUM_LISTED`` differences; ``left_out`` counts the others."""
        return {
            "same_model": self.same_model,
            "first": self.first,
            "second": self.second,
            "summary": self.summary(),
            "differences": [
                {
                    "kind": _KIND_NAMES[each.kind],
                    "subject": each.subject,
                    "path": each.path,
                    "text": each.text + _within_text(each.within),
                    "rows": list(each.rows),
                }
                for each in self.differences[:MAXIMUM_LISTED]
            ],
            "left_out": max(0, len(self.differences) - MAXIMUM_LISTED),
        }

    def to_text(self) -> str:
        """The summary and a line for each difference. Equal records give equal text."""
        lines = [f"{where}: {what} {path}: {text}" for where, what, path, text in self.rows()]
        return "\n".join([self.summary(), *lines]) + "\n"


def are_variants(first: Structure, second: Structure) -> bool:
    """Whether two records are of one model: the same name and class, and mostly the same modules."""
    if (first.header.model, first.header.model_class) != (second.header.model, second.header.model_class):
        return False
    mine, theirs = set(first.module_paths), set(second.module_paths)
    return 2 * len(mine & theirs) > max(len(mine), len(theirs))


def compare_variants(first: Structure, second: Structure) -> VariantComparison:
    """Which calls and operators exist in which of two records of one model, and what differs in those of both.

    Compared are what calls return (shapes, dtypes), kernels and arguments of operators, and the modules themselves
    (class, attributes, parameter shapes, training mode). Nothing is compared twice: what lies within a call that ran in
    one pass only is counted there.
    """
    identify = _Identities()
    mine, theirs = _Side(first, identify), _Side(second, identify)
    found: list[Difference] = [
        *_module_differences(first, second),
        *_one_sided(mine, theirs, ONLY_IN_FIRST),
        *_one_sided(theirs, mine, ONLY_IN_SECOND),
        *_changes(mine, theirs),
    ]
    names = _labels(first, second)
    return VariantComparison(*names, tuple(found), are_variants(first, second))


class _Identities:
    """Numbers for identities; both records ask the same instance, so equal identities have equal numbers."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}

    def __call__(self, *identity: object) -> int:
        return self._numbers.setdefault(identity, len(self._numbers))


class _Side:
    """Identities of the calls and operators of one record."""

    def __init__(self, structure: Structure, identify: _Identities) -> None:
        self.structure = structure
        calls, operators = structure.module_calls, structure.operators
        self.parents = calls["parent"].tolist()
        self.calls: list[int] = []
        self.labels: list[str] = []
        roots = 0
        for call, (parent, ordinal) in enumerate(zip(self.parents, calls["ordinal"].tolist(), strict=True)):
            path = structure.call_path(call)
            if parent < 0:
                ordinal, roots = roots, roots + 1
            self.calls.append(identify("call", self.calls[parent] if parent >= 0 else -1, path, ordinal))
            self.labels.append(f"{path}[{ordinal}]" if ordinal else path)
        self.row_of_call = {identity: row for row, identity in enumerate(self.calls)}
        names = operators.column_texts("name")
        self.owners = operators["call"].tolist()
        seen: Counter[tuple[int, str]] = Counter()
        self.operators: list[int] = []
        for call, name in zip(self.owners, names, strict=True):
            self.operators.append(identify("operator", self.calls[call], name, seen[call, name]))
            seen[call, name] += 1
        self.row_of_operator = {identity: row for row, identity in enumerate(self.operators)}


def _one_sided(mine: _Side, theirs: _Side, kind: str) -> Iterator[Difference]:
    """What ran on one side only: the outermost calls, and operators in calls that both sides have."""
    structure = mine.structure
    alone = [identity not in theirs.row_of_call for identity in mine.calls]
    inner_calls: Counter[int] = Counter()
    top: list[int] = []
    for call, parent in enumerate(mine.parents):
        outer = parent >= 0 and alone[parent]
        top.append(top[parent] if outer else call)
        if alone[call] and outer:
            inner_calls[top[call]] += 1
    begins, ends = structure.module_calls["operator_begin"].tolist(), structure.module_calls["operator_end"].tolist()
    for call, is_alone in enumerate(alone):
        if is_alone and top[call] == call:
            within = (inner_calls[call], ends[call] - begins[call])
            rows = _one_row(kind, call)
            yield Difference(kind, "call", mine.labels[call], structure.call_class(call), within, rows)
    for row, identity in enumerate(mine.operators):
        call = mine.owners[row]
        if not alone[call] and identity not in theirs.row_of_operator:
            name = structure.operators.text("name", row)
            yield Difference(kind, "operator", mine.labels[call], name, rows=_one_row(kind, row))


def _one_row(kind: str, row: int) -> tuple[int, int]:
    return (row, -1) if kind == ONLY_IN_FIRST else (-1, row)


def _changes(mine: _Side, theirs: _Side) -> Iterator[Difference]:
    """What both sides ran, differently."""
    for row, identity in enumerate(mine.calls):
        other = theirs.row_of_call.get(identity)
        if other is not None:
            text = _changed(_results(mine.structure, row), _results(theirs.structure, other))
            if text:
                yield Difference(CHANGED, "call", mine.labels[row], text, rows=(row, other))
    for row, identity in enumerate(mine.operators):
        other = theirs.row_of_operator.get(identity)
        if other is not None:
            text = _operator_change(mine.structure, row, theirs.structure, other)
            if text:
                name = mine.structure.operators.text("name", row)
                path = mine.labels[mine.owners[row]]
                yield Difference(CHANGED, "operator", path, f"{name}: {text}", rows=(row, other))


def _results(structure: Structure, call: int) -> dict[str, str]:
    names = structure.module_calls.texts("output_names", call)
    rows = structure.module_calls.values("outputs", call).tolist()
    return {name or "output": _outline(structure, row) for name, row in zip(names, rows, strict=True)}


def _outline(structure: Structure, tensor: int) -> str:
    return f"{structure.tensors.text('dtype', tensor)}{list(structure.shape(tensor))}"


def _operator_change(first: Structure, row: int, second: Structure, other: int) -> str:
    """Kernels and arguments; what an operator returns is compared at the calls around it."""
    kernels = [_kernels(first, row), _kernels(second, other)]
    arguments = [_arguments(first, row), _arguments(second, other)]
    text = _changed(*arguments)
    if kernels[0] != kernels[1]:
        names = [" ".join(each) for each in kernels]
        text = ", ".join(filter(None, [f"kernels {names[0]} -> {names[1]}", text]))
    return text


def _kernels(structure: Structure, operator: int) -> list[str]:
    begin, end = int(structure.operators["kernel_begin"][operator]), int(structure.operators["kernel_end"][operator])
    return [structure.kernels.text("name", kernel) for kernel in range(begin, end)]


def _arguments(structure: Structure, operator: int) -> dict[str, str]:
    names = structure.operators.texts("attribute_names", operator)
    return dict(zip(names, structure.operators.texts("attribute_values", operator), strict=True))


def _module_differences(first: Structure, second: Structure) -> Iterator[Difference]:
    """Modules that one record lacks or that are set up differently; the training mode once where all changed alike."""
    rows = [{path: row for row, path in enumerate(each.module_paths)} for each in (first, second)]
    for kind, structure, own, others in (
        (ONLY_IN_FIRST, first, rows[0], rows[1]),
        (ONLY_IN_SECOND, second, rows[1], rows[0]),
    ):
        for path, row in own.items():
            outer = path.rpartition(".")[0]
            if path in others or (outer and outer not in others):
                continue
            where = _one_row(kind, _first_call(structure, row))
            yield Difference(kind, "module", path, structure.module_classes[row], rows=where)
    common = [path for path in rows[0] if path in rows[1]]
    modes = [
        (bool(first.modules["training"][rows[0][path]]), bool(second.modules["training"][rows[1][path]]))
        for path in common
    ]
    if len(set(modes)) == 1 and modes[0][0] != modes[0][1]:
        calls = _first_call(first, 0), _first_call(second, 0)
        yield Difference(CHANGED, "module", "", f"training {modes[0][0]} -> {modes[0][1]}, all modules", rows=calls)
        modes = [(False, False)] * len(common)
    for path, (before, after) in zip(common, modes, strict=True):
        mine, theirs = _settings(first, rows[0][path]), _settings(second, rows[1][path])
        text = _changed(mine | {"training": str(before)}, theirs | {"training": str(after)})
        if text:
            calls = _first_call(first, rows[0][path]), _first_call(second, rows[1][path])
            yield Difference(CHANGED, "module", path, text, rows=calls)


def _first_call(structure: Structure, module: int) -> int:
    return next(iter(structure.calls_of_module.get(module, [])), -1)


def _settings(structure: Structure, module: int) -> dict[str, str]:
    """Class, attributes, and the shapes of the parameters and buffers that a module owns."""
    found = {"class": structure.module_classes[module]} | structure.attributes(module)
    parameters = structure.parameters
    for row in structure.modules.values("parameters", module).tolist():
        name = parameters.text("path", row).rpartition(".")[2]
        found[name] = f"{parameters.text('dtype', row)}{parameters.values('shape', row).tolist()}"
    return found


def _changed(first: dict[str, str], second: dict[str, str]) -> str:
    """'training True -> False, p 0.1 -> 0.0' of entries that differ."""
    names = list(dict.fromkeys([*first, *second]))
    changed = [name for name in names if first.get(name) != second.get(name)]
    texts = [f"{name} {first.get(name, 'none')} -> {second.get(name, 'none')}" for name in changed]
    return ", ".join(texts[:_SHOWN]) + (f", and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else "")


def _labels(first: Structure, second: Structure) -> tuple[str, str]:
    """Names that tell the two apart: the variant, else the mode, else first and second."""
    variants = first.header.variant or "main", second.header.variant or "main"
    if variants[0] != variants[1]:
        return variants
    modes = ["train" if each.header.provenance.training else "eval" for each in (first, second)]
    return (modes[0], modes[1]) if modes[0] != modes[1] else ("the first", "the second")


def _within_text(within: tuple[int, int]) -> str:
    calls, operators = within
    inside = ([_count(calls, "call")] if calls else []) + ([_count(operators, "operator")] if operators else [])
    return f" (with {' and '.join(inside)} in it)" if inside else ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
