"""The audit's rows as columns, as they travel and as files hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from tb_plugin_structure.analysis.audit.costs import Cost
from tb_plugin_structure.analysis.audit.feature import Feature
from tb_plugin_structure.analysis.audit.rows import Row
from tb_plugin_structure.records.schema import AUDIT_ROWS


class RowColumns(Mapping[str, list[Any]]):
    """The columns that ``records.schema.AUDIT_ROWS`` declares, one value a row; each is made when it is asked for, so
    that a large audit has one at a time. Equal texts and lists of neighbouring layers are one object."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        chains = _Once(lambda adapter: (adapter.line(), adapter.code(), float(adapter.parameters)))
        adapters = [chains.of(row.comparison.adapter) for row in rows]
        label = _Once(_Label)
        self._makers: dict[str, Maker] = {
            "pair": _of_rows(lambda row: row.pair.position),
            "teacher": _of_rows(lambda row: row.pair.teacher),
            "student": _of_rows(lambda row: row.pair.student),
            "level": _of_rows(lambda row: row.level),
            "stage": _of_rows(lambda row: row.stage),
            "kind": _of_rows(lambda row: row.pair.kind),
            "confidence": _of_rows(lambda row: row.pair.confidence),
            "verdict": _of_rows(lambda row: row.verdict),
            "classes": _of_rows(lambda row: row.comparison.classes),
            "adapter": lambda _: [line for line, _, _ in adapters],
            "adapter_code": lambda _: [code for _, code, _ in adapters],
            "adapter_parameters": lambda _: [parameters for _, _, parameters in adapters],
            "cause": _of_rows(lambda row: row.cause),
            "matched": _of_rows(lambda row: row.matched),
        }
        of_feature: dict[str, tuple[Callable[[Feature], Any], Any]] = {
            "path": (lambda feature: feature.path, ""),
            "class": (lambda feature: feature.class_name, ""),
            "element": (lambda feature: feature.element, ""),
            "dtype": (lambda feature: feature.dtype, ""),
            "device": (lambda feature: feature.device, ""),
            "call": (call_text, ""),
            "flags": (_flags, ()),
            "symbols": (lambda feature: feature.symbols, ()),
        }
        for role in ("teacher", "student"):
            features = map(attrgetter(role), rows)
            labels = [_NO_LABEL if feature is None else label.of(feature.dimensions) for feature in features]
            for name in ("shape", "dimensions", "layout", "sizes"):
                self._makers[f"{role}_{name}"] = _of_labels(labels, name)
            for name, (read, empty) in of_feature.items():
                self._makers[f"{role}_{name}"] = _of_features(role, read, empty)
            for place, name in enumerate(Cost._fields):
                self._makers[f"{role}_{name}"] = _of_costs(role, place)

    def __getitem__(self, column: str) -> list[Any]:
        return self._makers[column](self._rows)

    def __contains__(self, column: object) -> bool:
        return column in self._makers  # Mapping's own would make the column to find out

    def __iter__(self) -> Iterator[str]:
        return (field.name for field in AUDIT_ROWS)

    def __len__(self) -> int:
        return len(AUDIT_ROWS)


Maker = Callable[[Sequence[Row]], list[Any]]


def _of_rows(read: Callable[[Row], Any]) -> Maker:
    return lambda rows: list(map(read, rows))


def _of_features(role: str, read: Callable[[Feature], Any], empty: Any) -> Maker:
    feature_of = attrgetter(role)
    return lambda rows: [empty if feature is None else read(feature) for feature in map(feature_of, rows)]


def _of_labels(labels: Sequence[_Label], name: str) -> Maker:
    return lambda _: list(map(attrgetter(name), labels))


def _of_costs(role: str, place: int) -> Maker:
    cost_of = attrgetter(f"{role}_cost")
    return lambda rows: [cost[place] for cost in map(cost_of, rows)]


class _Label:
    """What the columns say of the dimensions of a feature."""

    def __init__(self, dimensions: Any) -> None:
        feature = Feature("", "", -1, dimensions=dimensions)
        self.shape, self.dimensions, self.layout = feature.shape, feature.names, feature.layout
        self.sizes = tuple(dimension.text() for dimension in dimensions)


_NO_LABEL = _Label(())


class _Once:
    """Applies a function once to each object, told apart by identity: thousands of rows share a few."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make
        self._made: dict[int, tuple[object, Any]] = {}

    def of(self, value: object) -> Any:
        found = self._made.get(id(value))
        if found is None:
            found = self._made[id(value)] = (value, self._make(value))  # held, so that no other object gets its id
        return found[1]


def call_text(feature: Any) -> str:
    """ "2 of 3" for the second of three calls of a module; "" for a single one."""
    return f"{feature.ordinal + 1} of {feature.calls}" if feature is not None and feature.calls > 1 else ""


def _flags(feature: Feature) -> tuple[str, ...]:
    return (*feature.flags, f"after {feature.after_activation}") if feature.after_activation else feature.flags
