"""The audit's rows as columns, as they travel and as files hold them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tb_plugin_structure.analysis.audit.costs import Cost
from tb_plugin_structure.analysis.audit.feature import Feature
from tb_plugin_structure.analysis.audit.rows import Row
from tb_plugin_structure.records.schema import AUDIT_ROWS


def row_columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """The columns that ``records.schema.AUDIT_ROWS`` declares, one value a row. Equal texts and lists of neighbouring
    layers are one object."""
    chains = _Once(lambda adapter: (adapter.line(), adapter.code(), float(adapter.parameters)))
    adapters = [chains.of(row.comparison.adapter) for row in rows]
    columns: dict[str, list[Any]] = {
        "pair": [row.pair.position for row in rows],
        "teacher": [row.pair.teacher for row in rows],
        "student": [row.pair.student for row in rows],
        "level": [row.level for row in rows],
        "stage": [row.stage for row in rows],
        "kind": [row.pair.kind for row in rows],
        "confidence": [row.pair.confidence for row in rows],
        "verdict": [row.verdict for row in rows],
        "classes": [row.comparison.classes for row in rows],
        "adapter": [line for line, _, _ in adapters],
        "adapter_code": [code for _, code, _ in adapters],
        "adapter_parameters": [parameters for _, _, parameters in adapters],
        "cause": [row.cause for row in rows],
        "matched": [row.matched for row in rows],
    }
    for role, features, costs in (
        ("teacher", [row.teacher for row in rows], [row.teacher_cost for row in rows]),
        ("student", [row.student for row in rows], [row.student_cost for row in rows]),
    ):
        columns |= {f"{role}_{name}": values for name, values in _feature_columns(features).items()}
        columns |= {f"{role}_{name}": [cost[place] for cost in costs] for place, name in enumerate(Cost._fields)}
    return {field.name: columns[field.name] for field in AUDIT_ROWS}


def _feature_columns(features: Sequence[Feature | None]) -> dict[str, list[Any]]:
    def of_all(read: Callable[[Feature], Any], empty: Any) -> list[Any]:
        return [empty if feature is None else read(feature) for feature in features]

    labels = _Once(_Label)
    label = of_all(lambda feature: labels.of(feature.dimensions), _NO_LABEL)
    return {
        "path": of_all(lambda feature: feature.path, ""),
        "class": of_all(lambda feature: feature.class_name, ""),
        "shape": [one.shape for one in label],
        "element": of_all(lambda feature: feature.element, ""),
        "dimensions": [one.names for one in label],
        "dtype": of_all(lambda feature: feature.dtype, ""),
        "device": of_all(lambda feature: feature.device, ""),
        "call": of_all(call_text, ""),
        "layout": [one.layout for one in label],
        "sizes": [one.sizes for one in label],
        "flags": of_all(_flags, ()),
        "symbols": of_all(lambda feature: feature.symbols, ()),
    }


class _Label:
    """What the columns say of the dimensions of a feature."""

    def __init__(self, dimensions: Any) -> None:
        feature = Feature("", "", -1, dimensions=dimensions)
        self.shape, self.names, self.layout = feature.shape, feature.names, feature.layout
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
