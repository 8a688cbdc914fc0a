"""``api/records``: everything that can be shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from werkzeug import wrappers

from tb_plugin_structure.dashboards.http import Query, respond_json
from tb_plugin_structure.dashboards.store import Address, Describe, RecordStore, StoredRecord
from tb_plugin_structure.records import names
from tb_plugin_structure.records.attention import decode_overview_header
from tb_plugin_structure.records.blobs import RecordError, check_version
from tb_plugin_structure.records.plan import decode_plan, plan_pins
from tb_plugin_structure.records.structure import decode_header
from tb_plugin_structure.v1 import measurement_pb2, structure_pb2


def totals_dict(totals: structure_pb2.Totals) -> dict[str, float]:
    return {field.name: getattr(totals, field.name) for field in totals.DESCRIPTOR.fields}


def _structure_step(header_blob: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    header = decode_header([header_blob])
    error = f"{header.error.type}: {header.error.message}" if header.HasField("error") else None
    return (
        {"model": header.model, "variant": header.variant},
        {
            "structure_hash": header.structure_hash,
            "model_class": header.model_class,
            "training": header.provenance.training,
            "error": error,
            "totals": totals_dict(header.totals),
        },
    )


def _attention_step(header_blob: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    header = decode_overview_header([header_blob])
    captured = [layer for layer in header.layers if not layer.not_captured]
    return (
        {"model": header.model, "example": header.example},
        {"layers": len(captured), "heads": sum(layer.heads for layer in captured)},
    )


def _measurement_step(header_blob: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    header = measurement_pb2.MeasurementHeader.FromString(header_blob)
    check_version("measurement", header.minimum_reader_version)
    return {"model": header.model}, {"structure_hash": header.structure_hash}


def _plan_step(header_blob: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    plan = decode_plan([header_blob])
    intent = {"policy": plan.policy, "policies": dict(plan.stack_policies), "pins": plan_pins(plan)}
    return {"teacher": plan.teacher, "student": plan.student}, intent


_KINDS: tuple[tuple[str, str, Describe], ...] = (
    ("structures", names.STRUCTURE_PLUGIN, _structure_step),
    ("attention", names.ATTENTION_OVERVIEW_PLUGIN, _attention_step),
    ("measurements", names.MEASUREMENT_PLUGIN, _measurement_step),
    ("plans", names.PLAN_PLUGIN, _plan_step),
)


def list_records(store: RecordStore, context: Any, experiment: str) -> dict[str, list[dict[str, Any]]]:
    """The listing; a record that cannot be read is a problem of its own and hides no other."""
    listing: dict[str, list[dict[str, Any]]] = {key: [] for key, _, _ in _KINDS}
    problems = listing["problems"] = []
    for key, plugin, describe in _KINDS:
        series: dict[tuple[str, str], dict[str, Any]] = {}
        for record, described in store.described(experiment, store.records(context, experiment, plugin), describe):
            try:
                shared, step = described()
            except Exception as error:
                problems.append(_problem(record, error))
                continue
            entry = series.get((record.run, record.tag))
            if entry is None:
                entry = series[record.run, record.tag] = {"run": record.run, "tag": record.tag, **shared, "steps": []}
                if key == "structures":
                    entry["kind"] = "outside" if record.tag.startswith("outside/") else "structure"
            entry["steps"].append(step)
        listing[key] = [series[name] for name in sorted(series)]
    listing["structures"] += _added_graphs(store, context, experiment)
    listing["structures"].sort(key=lambda entry: (entry["run"], entry["tag"]))
    return listing


def _added_graphs(store: RecordStore, context: Any, experiment: str) -> list[dict[str, Any]]:
    """Graphs that add_graph wrote. Those of other frameworks are left to TensorBoard's own tab."""
    entries = []
    for record in store.records(context, experiment, names.ADD_GRAPH_PLUGIN):
        if record.tag != names.ADD_GRAPH_TAG:
            continue
        try:
            structure, digest = store.structure(context, experiment, Address(record.run, record.tag, record.step))
        except RecordError:
            continue
        shared, step = _structure_step(structure.encode()[0])
        step = {"step": record.step, "wall_time": record.wall_time, "hash": digest, **step}
        entries.append({"run": record.run, "tag": record.tag, **shared, "kind": "graph", "steps": [step]})
    return entries


def _problem(record: StoredRecord, error: Exception) -> dict[str, Any]:
    message = str(error) if isinstance(error, RecordError) else f"the record is damaged: {error}"
    return {"run": record.run, "tag": record.tag, "step": record.step, "message": message[:500]}


def handler(store: RecordStore) -> Callable[[Query], wrappers.Response]:
    def handle(query: Query) -> wrappers.Response:
        return respond_json(query, list_records(store, query.context, query.experiment))

    return handle
