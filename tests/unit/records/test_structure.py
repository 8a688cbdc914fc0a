"""Records survive encoding, answer queries, and refuse what is damaged."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from tb_plugin_structure.records import blobs
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import columns_pb2, structure_pb2
from tests.support.small_records import small_columns, small_structure


def test_decoding_gives_back_every_column() -> None:
    structure = Structure.decode(small_structure().encode())
    assert structure.module_paths == ["", "first", "activation", "second"]
    assert structure.attributes(1) == {"in_features": "3", "out_features": "4"}
    assert structure.shape(1) == (5, 4)
    assert structure.operators.column_texts("name") == ["linear", "relu", "linear"]
    assert structure.operators.values("inputs", 2).tolist() == [2, 6, 7]
    assert structure.config == {"hidden": 4}
    assert np.isnan(structure.module_calls["duration_ns"]).all()


def test_queries() -> None:
    structure = small_structure()
    assert structure.call_children[0] == [1, 2, 3]
    assert structure.call_path(3) == "second"
    assert structure.output_shapes(0) == [("", (5, 2))]
    assert structure.parameter_count(0) == 26
    assert structure.parameter_count(1) == 16
    assert structure.call_macs(0) == 100.0
    assert structure.call_macs(2) == 0.0
    assert structure.operator_edges.tolist() == [[0, 1, 1], [1, 2, 2]]


def test_macs_without_any_formula_are_unknown_not_zero() -> None:
    columns = small_columns()
    columns["operators"]["macs"] = [float("nan"), 0.0, float("nan")]
    structure = Structure.build(structure_pb2.StructureHeader(model="m"), columns)
    assert np.isnan(structure.call_macs(1))
    assert structure.call_macs(0) == 0.0


def test_tied_parameters_count_once() -> None:
    columns = small_columns()
    columns["modules"]["parameters"] = [[], [0, 1], [], [0, 3]]
    structure = Structure.build(structure_pb2.StructureHeader(model="m"), columns)
    assert structure.parameter_count(0) == 12 + 4 + 2


def test_equal_structures_have_equal_hashes_and_other_widths_have_not() -> None:
    assert small_structure().header.structure_hash == small_structure().header.structure_hash
    assert small_structure().header.structure_hash != small_structure(hidden=8).header.structure_hash


def test_encoding_is_deterministic() -> None:
    assert small_structure().encode() == small_structure().encode()


def test_a_record_of_a_newer_format_is_refused_with_the_remedy() -> None:
    stored = list(small_structure().encode())
    header = structure_pb2.StructureHeader.FromString(stored[0])
    header.minimum_reader_version = 99
    stored[0] = header.SerializeToString()
    with pytest.raises(blobs.RecordError, match="upgrade the package"):
        Structure.decode(stored)


def _damage(part: str, change) -> list[bytes]:  # type: ignore[no-untyped-def]
    """The small record with one table changed by `change(table)`."""
    stored = list(small_structure().encode())
    header = structure_pb2.StructureHeader.FromString(stored[0])
    position = [entry.name for entry in header.parts].index(part)
    table = columns_pb2.Table.FromString(gzip.decompress(stored[position + 1]))
    change(table)
    data = table.SerializeToString()
    stored[position + 1] = blobs.compress(data)
    header.parts[position].uncompressed_bytes = len(data)
    stored[0] = header.SerializeToString()
    return stored


def _column(table: columns_pb2.Table, name: str) -> columns_pb2.Column:
    return next(column for column in table.columns if column.name == name)


def _set(name: str, values: list[int], dtype: str):  # type: ignore[no-untyped-def]
    def change(table: columns_pb2.Table) -> None:
        _column(table, name).values = np.array(values, dtype).tobytes()

    return change


def _shorten_list(table: columns_pb2.Table, name: str) -> None:
    column = _column(table, name)
    column.values, column.offsets = column.values[:-4], np.array([0, 1, 2, 3, 3], "<u4").tobytes()


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("module_calls", _set("parent", [-1, 3, 0, 0], "<i4"), "does not form a tree"),
        ("modules", _set("parent", [0, 0, 0, 0], "<i4"), "does not form a tree"),
        ("module_calls", _set("module", [0, 1, 2, 9], "<u4"), "beyond the 4 of modules"),
        ("operators", _set("kernel_end", [1, 2, 90], "<u4"), "do not fit"),
        ("kernels", _set("operator", [0, 1, 7], "<u4"), "beyond the 3 of operators"),
        ("tensors", _set("origin", [9] * 8, "<u1"), "not known"),
        ("tensors", _set("producer", [77] * 8, "<i4"), "row of kernels that does not exist"),
        ("modules", _set("path", [0, 1, 2, 4000], "<u4"), "not in the pool"),
        ("modules", _set("calls", [1, 1], "<u4"), "2 values for 4 rows"),
        ("modules", lambda table: table.columns.pop(), "lacks column 'calls'"),
        ("modules", lambda table: table.columns.append(table.columns[0]), "is there twice"),
        ("modules", lambda table: setattr(_column(table, "calls"), "type", 5), "another type than u32"),
        ("modules", lambda table: setattr(_column(table, "calls"), "offsets", bytes(20)), "another type than u32"),
        ("module_calls", lambda table: _shorten_list(table, "output_names"), "lists of different lengths"),
        ("parameters", _set("shape", [4, 3, 4, 2, 4, -7], "<i8"), "negative size"),
    ],
)
def test_damaged_columns_are_named(part: str, change, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(blobs.RecordError, match=message):
        Structure.decode(_damage(part, change))


def test_a_part_that_inflates_beyond_what_the_header_says_is_refused() -> None:
    stored = list(small_structure().encode())
    stored[2] = gzip.compress(b"\0" * (64 << 20))
    with pytest.raises(blobs.RecordError, match="its size differs"):
        Structure.decode(stored)


def test_truncated_and_empty_records_are_refused() -> None:
    stored = list(small_structure().encode())
    for damaged in ([], [b"\xff\xff"], stored[:3], [stored[0], *[b"not gzip"] * (len(stored) - 1)]):
        with pytest.raises(blobs.RecordError):
            Structure.decode(damaged)


def test_columns_of_unequal_length_are_refused_at_writing() -> None:
    columns = small_columns()
    columns["kernels"]["macs"] = [0.0]
    with pytest.raises(ValueError, match=r"'macs' has 1 rows, expected 3"):
        Structure.build(structure_pb2.StructureHeader(model="m"), columns)


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "a\0b", "\u202eabc", "😀", "\ud800", "../x", "x" * 100_000]
)
def test_hostile_strings_survive(text: str) -> None:
    columns = small_columns()
    columns["modules"]["class_name"] = [text, "Linear", "ReLU", "Linear"]
    structure = Structure.decode(Structure.build(structure_pb2.StructureHeader(model="m"), columns).encode())
    assert structure.module_classes[0] == text.encode("utf-8", "replace").decode()
