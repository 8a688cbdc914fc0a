"""Damaged and hostile records are refused with RecordError, or decode to something that every query can handle."""

from __future__ import annotations

import gzip
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest

from tb_plugin_structure.records import blobs
from tb_plugin_structure.records.attention import AttentionOverview
from tb_plugin_structure.records.blobs import RecordError
from tb_plugin_structure.records.measurement import Measurement
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import columns_pb2, structure_pb2
from tests.support.exercised_records import GOOD, KINDS, exercise, judge
from tests.support.small_records import small_columns

CASES = 500
"""Of each kind of record; `make stress` runs 100,000."""


@pytest.mark.parametrize("kind", KINDS)
def test_fuzzed_records_are_refused_or_usable(kind: str) -> None:
    outcomes = [judge(kind, seed) for seed in range(CASES)]
    assert set(outcomes) == {"refused", "usable"}
    # Both happen often: the fuzzer neither breaks everything at the first byte nor leaves records as they were.
    assert min(outcomes.count(outcome) for outcome in ("refused", "usable")) > CASES // 20


@pytest.mark.parametrize(("kind", "seed"), [("structure", 5340), ("measured structure", 5340)])
def test_seeds_that_once_broke_an_answer(kind: str, seed: int) -> None:
    """5340: totals of 2^64 bytes, whose sum did not fit the audit's message."""
    assert judge(kind, seed, analyse=True) == "usable"


def _with_part(kind: str, name: str, data: bytes, claimed: int | None = None) -> list[bytes]:
    stored, header_type, _ = GOOD[kind]
    stored = list(stored)
    header = header_type.FromString(stored[0])
    index = [part.name for part in header.parts].index(name)
    header.parts[index].uncompressed_bytes = len(data) if claimed is None else claimed
    stored[0], stored[index + 1] = header.SerializeToString(), blobs.compress(data, 9)
    return stored


@pytest.mark.parametrize("claimed", [100, 512 << 20, 1 << 62])
def test_a_gzip_bomb_is_refused_in_little_memory_and_time(claimed: int) -> None:
    stored = _with_part("structure", "operators", b"\0" * (64 << 20), claimed)
    started = time.monotonic()
    tracemalloc.start()
    try:
        with pytest.raises(RecordError):
            Structure.decode(stored)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.monotonic() - started < 5
    assert peak < 200 << 20


def test_millions_of_empty_columns_are_refused_before_they_become_objects() -> None:
    # Field 3 of Table ("columns"), length 0: two bytes in the record, about a hundred in memory.
    with pytest.raises(RecordError, match="more than 1,000 columns"):
        Structure.decode(_with_part("structure", "modules", b"\x1a\x00" * 5_000_000))


def test_millions_of_empty_layers_in_a_header_are_refused() -> None:
    stored = list(GOOD["attention"][0])
    stored[0] += b"\x32\x00" * 1_500_000
    with pytest.raises(RecordError, match="at most 2,097,152 are read"):
        AttentionOverview.decode(stored)


def test_a_configuration_of_endless_nesting_is_refused() -> None:
    with pytest.raises(RecordError, match="damaged"):
        Structure.decode(_with_part("structure", "config", b"[" * 1_000_000))
    with pytest.raises(RecordError, match="8,388,608 are read"):
        Structure.decode(_with_part("structure", "config", b"[" + b"[]," * 4_000_000 + b"0]"))


def test_a_configuration_too_large_to_read_is_left_out_with_a_note() -> None:
    built = Structure.build(structure_pb2.StructureHeader(model="m"), small_columns(), {"vocabulary": "x" * (9 << 20)})
    read = Structure.decode(built.encode())
    assert read.config is None
    assert "configuration of 9,437" in read.header.notes[0]


def _chain(depth: int) -> list[bytes]:
    """A module within a module within a module ..."""
    stored, header_type, _ = GOOD["structure"]
    stored = list(stored)
    for name in ("modules", "module_calls"):
        header = header_type.FromString(stored[0])
        index = [part.name for part in header.parts].index(name)
        table = columns_pb2.Table.FromString(gzip.decompress(stored[index + 1]))
        for column in table.columns:
            if column.name == "parent":
                column.values = np.arange(-1, depth - 1, dtype="<i4").tobytes()
            elif column.name == "module":
                column.values = np.arange(depth, dtype="<u4").tobytes()
            elif column.offsets:
                column.values, column.offsets = b"", bytes(4 * (depth + 1))
            else:
                size = len(column.values) // 4
                column.values = column.values[:size] * depth
        table.rows = depth
        stored = _replaced(stored, header, index, table.SerializeToString())
    return stored


def _replaced(stored: list[bytes], header: Any, index: int, data: bytes) -> list[bytes]:
    header.parts[index].uncompressed_bytes = len(data)
    return [header.SerializeToString(), *stored[1 : index + 1], blobs.compress(data), *stored[index + 2 :]]


def test_deep_nesting_is_used_up_to_four_thousand_levels_and_then_refused() -> None:
    exercise("structure", Structure.decode(_chain(4_000)))
    with pytest.raises(RecordError, match="more than 4,096 deep"):
        Structure.decode(_chain(100_000))


def test_a_cycle_of_modules_is_refused() -> None:
    stored, header_type, _ = GOOD["structure"]
    header = header_type.FromString(stored[0])
    index = [part.name for part in header.parts].index("modules")
    table = columns_pb2.Table.FromString(gzip.decompress(stored[index + 1]))
    next(column for column in table.columns if column.name == "parent").values = np.array(
        [-1, 2, 1, 0], "<i4"
    ).tobytes()
    with pytest.raises(RecordError, match="does not form a tree"):
        Structure.decode(_replaced(list(stored), header, index, table.SerializeToString()))


def test_two_layers_that_share_their_heads_are_refused() -> None:
    stored, header_type, _ = GOOD["attention"]
    header = header_type.FromString(stored[0])
    for _ in range(3):
        header.layers.add().CopyFrom(header.layers[0])
    with pytest.raises(RecordError, match="8 heads, but 2 rows"):
        AttentionOverview.decode([header.SerializeToString(), *stored[1:]])


def test_passing_on_compressed_bytes_checks_them_as_decompressing_does() -> None:
    data = b"structure" * 1_000_000
    good = blobs.compress(data)
    blobs.check_compressed(good, len(data))
    for bad, limit in (
        (good, len(data) - 1),
        (good[:-1], len(data)),
        *((good + bytes(more), len(data)) for more in (1, 100, 100_000)),
        (b"", 10),
        (b"no", 10),
    ):
        for check in (blobs.check_compressed, blobs.decompress):
            with pytest.raises(RecordError):
                check(bad, limit)


def test_measurements_hold_numbers_only() -> None:
    stored, header_type, _ = GOOD["measurement"]
    header = header_type.FromString(stored[0])
    index = [part.name for part in header.parts].index("measurements")
    table = columns_pb2.Table.FromString(gzip.decompress(stored[index + 1]))
    table.columns[2].type, table.columns[2].values = 8, bytes(12)
    with pytest.raises(RecordError, match="'gradient_norm' is not a column of f64"):
        Measurement.decode(_replaced(list(stored), header, index, table.SerializeToString()))
