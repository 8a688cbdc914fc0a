"""Everything that can be asked of a decoded record, so that a hostile one has nowhere left to surprise."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tb_plugin_structure.records.attention import AttentionOverview
from tb_plugin_structure.records.blobs import RecordError
from tb_plugin_structure.records.measurement import Measurement
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import attention_pb2, measurement_pb2, structure_pb2
from tests.support.fuzzed_records import fuzzed
from tests.support.small_records import small_attention, small_structure

GOOD: dict[str, tuple[Sequence[bytes], Any, Any]] = {
    "structure": (small_structure().encode(), structure_pb2.StructureHeader, Structure),
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
_OTHER_ATTENTION = small_attention("student")[0]


def judge(kind: str, seed: int, *, analyse: bool = False) -> str:
    """ "refused" or "usable"; any other exception than RecordError comes through, naming the seed."""
    good, header_type, record = GOOD[kind]
    stored = fuzzed(good, header_type, seed)
    try:
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


def exercise(kind: str, record: Any) -> None:
    if kind == "structure":
        _exercise_structure(record)
    elif kind == "attention":
        for position, layer in enumerate(record.header.layers):
            for head in range(0 if layer.not_captured else layer.heads):
                for plane in ("maximum", "mass"):
                    assert record.plane(position, head, plane).shape == (layer.overview_rows, layer.overview_columns)
    else:
        for name in set(record.table.columns) - {"path", "subject"}:
            assert isinstance(record.quantity(name), dict)


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


def analyse_record(kind: str, record: Any) -> None:
    """What the tabs compute, both ways round, and how it leaves as an answer."""
    if kind == "attention":
        from tb_plugin_structure.analysis.attention import compare

        for pair in ((record, _OTHER_ATTENTION), (_OTHER_ATTENTION, record), (record, record)):
            json.dumps(compare(*pair).to_dict(), allow_nan=False)
    elif kind == "structure":
        from tb_plugin_structure.analysis.alignment import align
        from tb_plugin_structure.analysis.audit import audit

        for teacher, student in ((record, _OTHER), (_OTHER, record)):
            alignment = align(teacher=teacher, student=student)
            alignment.to_proto().SerializeToString()
            report = audit(alignment)
            report.to_proto().SerializeToString()
            report.to_markdown()
            report.to_csv()
            report.to_json()
