"""``api/measurements`` and ``api/measurements/values``: what was measured of a model, and its values at a step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tensorboard import errors
from werkzeug import wrappers

from tb_plugin_structure.dashboards.http import DAY, Query, json_text, respond, respond_json
from tb_plugin_structure.dashboards.store import RecordStore, StoredRecord
from tb_plugin_structure.records import names
from tb_plugin_structure.records.blobs import RecordError, check_version
from tb_plugin_structure.records.measurement import Measurement
from tb_plugin_structure.records.quantities import SCALES, SUMS
from tb_plugin_structure.v1 import measurement_pb2

_SHOWN = 20


Described = tuple[measurement_pb2.MeasurementHeader, list[measurement_pb2.Quantity]]
"""The header of a record, and what its columns hold."""


def tags_of(tags: Iterable[str], model: str, variant: str) -> list[str]:
    """Of the tags of a run those with measurements of a model: of a variant, else of the model without one."""
    of_model = [tag for tag in tags if names.split_tag(tag)[1:2] == (model,)]
    of_variant = [tag for tag in of_model if names.variant_of(tag) == variant]
    return of_variant or [tag for tag in of_model if not names.variant_of(tag)]


def described(header_blob: bytes, read: Callable[[], Sequence[bytes]]) -> Described:
    """`read` gives all blobs: older records do not say in their header what their columns hold.

    Raises:
        Exception: When the record is damaged, or for newer readers.
    """
    header = measurement_pb2.MeasurementHeader.FromString(header_blob)
    check_version("measurement", header.minimum_reader_version)
    return header, list(header.quantities) or Measurement.decode(read()).quantities()


def listing(found: Iterable[tuple[dict[str, Any], Described]]) -> dict[str, list[dict[str, Any]]]:
    """The answer of ``api/measurements`` about records with the addresses in front."""
    records: list[dict[str, Any]] = []
    quantities: dict[str, dict[str, Any]] = {}
    without_modules: dict[str, list[int]] = {}
    for address, (header, about) in found:
        for quantity in about:
            entry = quantities.setdefault(quantity.name, _meaning(quantity) | {"records": []})
            _widen(entry, quantity)
            place = entry["records"] if quantity.modules else without_modules.setdefault(quantity.name, [])
            place.append(len(records))
        records.append({**address, "structure_hash": header.structure_hash})
    for name, positions in without_modules.items():
        if not quantities[name]["modules"]:
            quantities[name]["records"] = positions
    return {"records": records, "quantities": list(quantities.values())}


def _records(store: RecordStore, query: Query) -> list[StoredRecord]:
    """The measurements of the model asked for, by step; at one step those of a recorded step come first. Of the variant
    asked for, or of the model without a variant where that has none."""
    run, model, variant = query.text("run"), query.text("model"), query.text("variant", "")
    series = store.series(query.context, query.experiment, names.MEASUREMENT_PLUGIN)
    chosen = tags_of((tag for in_run, tag in series if in_run == run), model, variant)
    if not chosen:
        measured = {(in_run, names.split_tag(tag)[1]) for in_run, tag in series if len(names.split_tag(tag)) > 1}
        there = sorted({name for in_run, name in measured if in_run == run})
        known = f"; measured there: {', '.join(map(repr, there[:_SHOWN]))}" if there else ""
        raise errors.NotFoundError(f"nothing was measured of the model {model[:80]!r} in run {run[:80]!r}{known}")
    found = store.records(query.context, query.experiment, names.MEASUREMENT_PLUGIN, {(run, tag) for tag in chosen})
    found.sort(key=lambda record: (record.step, record.tag, record.wall_time))
    store.read_ahead(query.experiment, found)
    return found


def _described(store: RecordStore, query: Query) -> Iterator[tuple[StoredRecord, Described]]:
    """Each record that can be read."""
    for record in _records(store, query):
        try:
            about = described(store.header(query.experiment, record), record.blobs)
        except Exception:  # api/records lists it among the problems
            continue
        yield record, about


def listing_handler(store: RecordStore) -> Callable[[Query], wrappers.Response]:
    def address(query: Query, record: StoredRecord) -> dict[str, Any]:
        stands = {"tag": record.tag, "step": record.step, "wall_time": record.wall_time}
        return stands | {"hash": store.hash(query.experiment, record)}

    def handle(query: Query) -> wrappers.Response:
        found = ((address(query, record), about) for record, about in _described(store, query))
        return respond_json(query, listing(found))

    return handle


def values_handler(store: RecordStore) -> Callable[[Query], wrappers.Response]:
    def handle(query: Query) -> wrappers.Response:
        name, step = query.text("quantity"), query.integer("step")
        holding: list[tuple[StoredRecord, measurement_pb2.Quantity]] = []
        known: dict[str, None] = {}
        for record, (_, quantities) in _described(store, query):
            known |= dict.fromkeys(quantity.name for quantity in quantities)
            holding += [(record, quantity) for quantity in quantities if quantity.name == name]
        if any(quantity.modules for _, quantity in holding):
            holding = [held for held in holding if held[1].modules]
        if not holding:
            raise errors.NotFoundError(f"no {name[:80]!r} was measured; there is {', '.join(list(known)[:_SHOWN])}")
        # Of two as near the earlier step; of two series at that step the later one, which says more.
        least = min(abs(record.step - step) for record, _ in holding)
        chosen = next(record.step for record, _ in holding if abs(record.step - step) == least)
        record, quantity = [held for held in holding if held[0].step == chosen][-1]
        measurement = Measurement.decode(record.blobs())
        if name not in measurement.table:
            raise RecordError(f"the record's header speaks of {name[:80]!r}, its table does not")
        modules, parameters = (
            {path: _plain(value) for path, value in measurement.quantity(name, subject).items()} for subject in (0, 1)
        )
        body = {
            "quantity": _meaning(quantity),
            "asked_step": step,
            "step": record.step,
            "tag": record.tag,
            "modules": modules,
            "parameters": parameters,
        }
        return respond(query, json_text(body), "application/json", expires=DAY if query.text("hash", "") else 0)

    return handle


def _meaning(quantity: measurement_pb2.Quantity) -> dict[str, Any]:
    return {
        "name": quantity.name,
        "label": quantity.label or quantity.name,
        "unit": quantity.unit,
        "scale": _name(SCALES, quantity.scale - 1, "linear"),
        "sum": _name(SUMS, quantity.sum, ""),
        "categories": list(quantity.categories),
        "meaning": quantity.meaning,
        "minimum": None,
        "maximum": None,
        "least_positive": None,
        "modules": 0,
    }


def _name(known: tuple[str, ...], position: int, default: str) -> str:
    return known[position] if 0 <= position < len(known) else default


def _widen(entry: dict[str, Any], quantity: measurement_pb2.Quantity) -> None:
    """Ranges over all steps: a colour means the same at each of them."""
    if not quantity.modules:
        return
    entry["modules"] = max(entry["modules"], quantity.modules)
    for key, choose in (("minimum", min), ("maximum", max)):
        value = getattr(quantity, key)
        entry[key] = value if entry[key] is None else choose(entry[key], value)
    if quantity.least_positive > 0:
        known = entry["least_positive"]
        entry["least_positive"] = quantity.least_positive if known is None else min(known, quantity.least_positive)


def _plain(value: float) -> float | str:
    """JSON has no infinity."""
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")
