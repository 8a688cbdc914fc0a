"""What an alignment and an audit took in memory goes with them, not with the next garbage collection."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from tb_plugin_structure.analysis.alignment import align
from tb_plugin_structure.analysis.audit import audit
from tb_plugin_structure.records.structure import Structure
from tests.support.large_records import large_structure
from tests.unit.alignment.networks import encoder, record, residual_network


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    ("teacher", "student"),
    [
        (large_structure("teacher", 60), large_structure("student", 40)),
        (record(encoder(6)), record(encoder(3))),
        (record(residual_network([3, 4])), record(residual_network([2, 2]))),
        (record(encoder(6)), record(residual_network([2, 2]))),
    ],
    ids=["stacks", "encoders", "stages", "strangers"],
)
def test_nothing_is_held_once_nobody_needs_it(teacher: Structure, student: Structure, no_collection: None) -> None:
    sides = [Structure.decode(side.encode()) for side in (teacher, student)]
    alive = [weakref.ref(side) for side in sides]
    aligned = align(teacher=sides[0], student=sides[1], policy="copy")
    aligned.to_proto()
    audit(aligned).to_proto()
    del aligned, sides
    assert [side() for side in alive] == [None, None]
