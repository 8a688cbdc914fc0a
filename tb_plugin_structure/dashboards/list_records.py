"""``api/records``: everything that can be shown."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from werkzeug import wrappers

from tb_plugin_structure.dashboards.http import Query, json_text, respond
from tb_plugin_structure.dashboards.store import Describe, RecordStore, StoredRecord
from tb_plugin_structure.records import names
from tb_plugin_structure.records.attention import decode_overview_header
from tb_plugin_structure.records.blobs import RecordError, check_version, compress
from tb_plugin_structure.records.plan import decode_plan, plan_pins, plan_policies
from tb_plugin_structure.records.structure import decode_header
from tb_plugin_structure.v1 import measurement_pb2, structure_pb2


def totals_dict(totals: structure_pb2.Totals) -> dict[str, float]:
    return {field.name: getattr(totals, field.name) for field in totals.DESCRIPTOR.fields}


def _structure_step(header_blob: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    return _described_structure(decode_header([header_blob]))


def _described_structure(header: structure_pb2.StructureHeader) -> tuple[dict[str, Any], dict[str, Any]]:
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
    intent = {"policy": plan.policy, "policies": plan_policies(plan), "pins": plan_pins(plan)}
    return {"teacher": plan.teacher, "student": plan.student}, intent


_KINDS: tuple[tuple[str, str, Describe], ...] = (
    ("structures", names.STRUCTURE_PLUGIN, _structure_step),
    ("attention", names.ATTENTION_OVERVIEW_PLUGIN, _attention_step),
    ("measurements", names.MEASUREMENT_PLUGIN, _measurement_step),
    ("plans", names.PLAN_PLUGIN, _plan_step),
)


_Series = dict[str, dict[tuple[str, str], Hashable]]
"""Data plugin -> (run, tag) -> what changes when records are added there."""


def _series(store: RecordStore, context: Any, experiment: str) -> _Series:
    plugins = [*(plugin for _, plugin, _ in _KINDS), names.ADD_GRAPH_PLUGIN]
    return {plugin: store.series(context, experiment, plugin) for plugin in plugins}


def list_records(
    store: RecordStore, context: Any, experiment: str, series: _Series
) -> tuple[dict[str, list[dict[str, Any]]], bool]:
    """The listing, and whether it may be kept until something is added; a record that cannot be read is a problem of
    its own and hides no other."""
    listing: dict[str, list[dict[str, Any]]] = {key: [] for key, _, _ in _KINDS}
    problems = listing["problems"] = []
    all_lasting = True
    for key, plugin, describe in _KINDS:
        made, lasting = _listed(
            store, context, experiment, plugin, series[plugin], _entries(store, experiment, key, describe)
        )
        all_lasting = all_lasting and lasting
        for entry, wrong in made:
            listing[key] += entry
            problems += wrong
    plugin = names.ADD_GRAPH_PLUGIN
    graphs, _ = _listed(store, context, experiment, plugin, series[plugin], _graph_entries(store, experiment))
    for entry, _ in graphs:
        listing["structures"] += entry
    listing["structures"].sort(key=lambda entry: (entry["run"], entry["tag"]))
    return listing, all_lasting


Listed = tuple[list[dict[str, Any]], list[dict[str, Any]]]
"""The entry of one run and tag (none when it has no record that can be read), and its problems."""


def _listed(
    store: RecordStore,
    context: Any,
    experiment: str,
    plugin: str,
    there: dict[tuple[str, str], Hashable],
    make: Callable[[list[StoredRecord]], tuple[Listed, bool]],
) -> tuple[list[Listed], bool]:
    """One item for each run and tag, sorted, and whether all may be kept. What has not grown since it was last listed
    is not read again.

    `make`: records of one run and tag -> (item, whether it may be kept).
    """
    found: dict[tuple[str, str], Listed] = {}
    all_lasting = True
    for series, state in there.items():
        kept = store.listed.peek((experiment, plugin, *series, state))
        if kept is not None:
            found[series] = kept
    missing = there.keys() - found.keys()
    if missing:
        records: dict[tuple[str, str], list[StoredRecord]] = {}
        for record in store.records(context, experiment, plugin, missing):
            records.setdefault((record.run, record.tag), []).append(record)
        all_lasting = records.keys() == missing  # else TensorBoard is just loading the rest
        for some in _portions(list(records.values())):
            store.read_ahead(experiment, [record for group in some for record in group])
            for group in some:
                series = (group[0].run, group[0].tag)
                found[series], lasting = make(group)
                all_lasting = all_lasting and lasting
                if lasting:
                    store.listed.put((experiment, plugin, *series, there[series]), found[series], 2_000 * len(group))
    return [found[series] for series in sorted(found)], all_lasting


def _portions(groups: list[list[StoredRecord]], size: int = 500) -> Iterator[list[list[StoredRecord]]]:
    """Groups of about `size` records together, so that what is read ahead is still in memory when it is used."""
    portion: list[list[StoredRecord]] = []
    for group in groups:
        portion.append(group)
        if sum(map(len, portion)) >= size:
            yield portion
            portion = []
    if portion:
        yield portion


def _entries(
    store: RecordStore, experiment: str, key: str, describe: Describe
) -> Callable[[list[StoredRecord]], tuple[Listed, bool]]:
    def make(records: list[StoredRecord]) -> tuple[Listed, bool]:
        entry: dict[str, Any] = {}
        problems: list[dict[str, Any]] = []
        lasting = True
        for record in records:
            try:
                shared, step = store.described(experiment, record, describe)
            except Exception as error:
                lasting = lasting and isinstance(error, RecordError)
                problems.append(_problem(record, error))
                continue
            if not entry:
                entry = {"run": record.run, "tag": record.tag, **shared, "steps": []}
                if key == "structures":
                    entry["kind"] = "outside" if record.tag.startswith("outside/") else "structure"
            entry["steps"].append(step)
        return ([entry] if entry else [], problems), lasting

    return make


def _graph_entries(store: RecordStore, experiment: str) -> Callable[[list[StoredRecord]], tuple[Listed, bool]]:
    """Graphs that add_graph wrote. Those of other frameworks are left to TensorBoard's own tab."""

    def make(records: list[StoredRecord]) -> tuple[Listed, bool]:
        entries = []
        for record in records:
            if record.tag != names.ADD_GRAPH_TAG:
                continue
            try:
                structure, digest = store.added_graph(experiment, record)
            except RecordError:
                continue
            shared, step = _described_structure(structure.header)  # encoding it is for whoever opens it
            step = {"step": record.step, "wall_time": record.wall_time, "hash": digest, **step}
            entries.append({"run": record.run, "tag": record.tag, **shared, "kind": "graph", "steps": [step]})
        return (entries, []), True

    return make


def _problem(record: StoredRecord, error: Exception) -> dict[str, Any]:
    message = str(error) if isinstance(error, RecordError) else f"the record is damaged: {error}"
    return {"run": record.run, "tag": record.tag, "step": record.step, "message": message[:500]}


def handler(store: RecordStore) -> Callable[[Query], wrappers.Response]:
    """The listing as compressed JSON. Until TensorBoard has read something new the last answer is sent again: of
    hundreds of runs, what costs is not reading them but writing the JSON."""

    def handle(query: Query) -> wrappers.Response:
        series = _series(store, query.context, query.experiment)
        key = ("list", query.experiment)
        kept = store.answers.peek(key)
        if kept is not None and kept[0] == series:
            return respond(query, kept[1], "application/json", content_encoding="gzip")
        listing, lasting = list_records(store, query.context, query.experiment, series)
        body = compress(json_text(listing).encode())
        if lasting:
            store.answers.put(key, (series, body), len(body) + 300 * sum(map(len, series.values())))
        return respond(query, body, "application/json", content_encoding="gzip")

    return handle
