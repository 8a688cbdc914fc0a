"""Everything that can be asked of a decoded record, so that a hostile one has nowhere left to surprise."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tb_plugin_structure.records.attention import AttentionOverview, decode_detail_header
from tb_plugin_structure.records.attention_details import guarantee_of, open_head
from tb_plugin_structure.records.blobs import RecordError
from tb_plugin_structure.records.measurement import Measurement
from tb_plugin_structure.records.plan import build_plan, decode_plan, plan_pins, plan_policies
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import attention_pb2, measurement_pb2, plan_pb2, structure_pb2
from tests.support.fuzzed_records import fuzzed, fuzzed_blobs
from tests.support.small_details import small_details
from tests.support.small_records import measured_structure, small_attention, small_structure

KINDS = ("structure", "measured structure", "attention", "attention details", "measurement", "plan")

GOOD: dict[str, tuple[Sequence[bytes], Any, Any]] = {
    "structure": (small_structure().encode(), structure_pb2.StructureHeader, Structure),
    "measured structure": (measured_structure().encode(), structure_pb2.StructureHeader, Structure),
    "attention": (small_attention("teacher")[0].encode(), attention_pb2.AttentionOverviewHeader, AttentionOverview),
    "measurement": (
        Measurement.build(
            "teacher", "0" * 32, ["", "first", "first.weight"], [0, 0, 1], {"gradient_norm": [0.5, 0.25, 0.125]}
        ).encode(),
        measurement_pb2.MeasurementHeader,
        Measurement,
    ),
}
"""Kind -> a good record's blobs, the type of its header, the class that decodes it."""

_OTHER = small_structure("student", hidden=2)
_DETAILS = small_details()
_PLAN = build_plan("teacher", "student", pins={"a": ["b", "c"], "d": None}, stack_policies={"blocks": [0, 2, -1]})
_OTHER_ATTENTION = small_attention("student")[0]


def judge(kind: str, seed: int, *, analyse: bool = False) -> str:
    """ "refused" or "usable"; any other exception than RecordError comes through, naming the seed."""
    try:
        if kind == "attention details":
            return exercise_details(fuzzed_blobs(_DETAILS, attention_pb2.AttentionDetailHeader, seed))
        if kind == "plan":
            return exercise_plan(fuzzed_blobs([_PLAN.SerializeToString()], plan_pb2.Plan, seed))
        good, header_type, record = GOOD[kind]
        stored = fuzzed(good, header_type, seed)
        try:
            decoded = record.decode(stored)
        except RecordError:
            return "refused"
        exercise(kind, decoded)
        if analyse:
            analyse_record(kind, decoded)
    except Exception as error:
        raise AssertionError(f"{kind} record of seed {seed}: {type(error).__name__}: {error}") from error
    return "usable"


def exercise_details(stored: Sequence[bytes]) -> str:
    """Every head of every form: its first and last rows, and a picture of it."""

    def read(index: int) -> bytes:
        if not 0 <= index < len(stored):
            raise RecordError(f"no blob {index}")  # as a store does
        return stored[index]

    try:
        header = decode_detail_header(stored)
    except RecordError:
        return "refused"
    outcomes: Counter[str] = Counter()
    for detail in header.details:
        guarantee_of(detail)
        for number in list(detail.heads)[:4]:
            try:
                head = open_head(detail, number, read)
                rows, columns = (slice(max(0, length - 3), length) for length in (head.queries, head.keys))
                if head.queries and head.keys:
                    assert head.window(rows, columns).shape == (rows.stop - rows.start, columns.stop - columns.start)
                    assert head.pooled(rows, columns, 2, 2).ndim == 2
                outcomes["usable"] += 1
            except RecordError:
                outcomes["refused"] += 1
    return "usable" if outcomes["usable"] > outcomes["refused"] else "refused"


def exercise_plan(stored: Sequence[bytes]) -> str:
    try:
        plan = decode_plan(stored)
    except RecordError:
        return "refused"
    json.dumps([plan_pins(plan), plan_policies(plan)])
    return "usable"


def exercise(kind: str, record: Any) -> None:
    if kind.endswith("structure"):
        _exercise_structure(record)
    elif kind == "attention":
        for position, layer in enumerate(record.header.layers):
            for head in range(0 if layer.not_captured else layer.heads):
                for plane in ("maximum", "mass"):
                    assert record.plane(position, head, plane).shape == (layer.overview_rows, layer.overview_columns)
    else:
        for name in set(record.table.columns) - {"path", "subject"}:
            assert isinstance(record.quantity(name), dict)
        assert all(quantity.name is not None for quantity in record.quantities())


def _exercise_structure(structure: Structure) -> None:
    calls, modules = range(structure.module_calls.rows), range(structure.modules.rows)
    assert (
        len(structure.module_paths) == len(structure.module_classes) == len(structure.module_children) == len(modules)
    )
    assert len(structure.module_row) >= 1
    assert sum(map(len, structure.calls_of_module.values())) == len(structure.call_children) == len(calls)
    assert structure.operator_edges.shape[1] == 3
    for call in calls:
        structure.call_path(call)
        structure.call_class(call)
        structure.output_shapes(call)
        structure.call_macs(call)
        structure.call_activation_bytes(call)
    for module in modules:
        structure.attributes(module)
        structure.parameter_count(module)
    for name in ("modules", "parameters", "module_calls", "operators", "kernels", "tensors"):
        table = getattr(structure, name)
        for column in table.columns:
            assert len(table.column_lists(column) if table.is_list(column) else table[column]) == table.rows
    repr(structure)
    str(structure)
    structure.to_text()
    sizes = {dimension.name: 7 for dimension in structure.header.symbolic.dimensions}
    for tensor in range(structure.tensors.rows):
        with contextlib.suppress(ValueError):  # an expression that is none
            structure.predict_shape(tensor, sizes)
    with contextlib.suppress(ValueError):
        structure.violated_conditions(sizes)


def analyse_record(kind: str, record: Any) -> None:
    """What the tabs compute, both ways round, and how it leaves as an answer."""
    if kind == "attention":
        from tb_plugin_structure.analysis.attention import compare

        for pair in ((record, _OTHER_ATTENTION), (_OTHER_ATTENTION, record), (record, record)):
            json.dumps(compare(*pair).to_dict(), allow_nan=False)
    elif kind.endswith("structure"):
        from tb_plugin_structure.analysis.alignment import align
        from tb_plugin_structure.analysis.audit import audit
        from tb_plugin_structure.analysis.variants import compare_variants

        for teacher, student in ((record, _OTHER), (_OTHER, record)):
            json.dumps(compare_variants(teacher, student).to_dict())
            alignment = align(teacher=teacher, student=student)
            alignment.to_proto().SerializeToString()
            report = audit(alignment)
            report.to_proto().SerializeToString()
            report.to_markdown()
            report.to_csv()
            report.to_json()
