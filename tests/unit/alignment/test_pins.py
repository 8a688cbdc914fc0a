"""Pins: what the user says holds, and its surroundings follow."""

from __future__ import annotations

import pytest

from tb_plugin_structure.analysis.alignment import PinError, align
from tests.unit.alignment.networks import encoder, record, residual_network


def test_a_pinned_block_moves_its_neighbours() -> None:
    teacher, student = record(encoder(6)), record(encoder(3))
    pairs = align(teacher=teacher, student=student, pins={"blocks.1": "blocks.1"}).module_pairs()
    assert [pairs[f"blocks.{k}"] for k in range(3)] == [["blocks.0"], ["blocks.1"], ["blocks.2"]]
    assert pairs["blocks.1.mlp.fc1"] == ["blocks.1.mlp.fc1"]


def test_a_pinned_leaf_takes_its_block_along() -> None:
    teacher, student = record(encoder(6)), record(encoder(3))
    alignment = align(teacher=teacher, student=student, pins={"blocks.0.mlp.fc1": "blocks.3.mlp.fc1"})
    pairs = alignment.module_pairs()
    assert pairs["blocks.0"] == ["blocks.3"]
    assert pairs["blocks.0.norm2"] == ["blocks.3.norm2"]
    assert alignment.stacks[0].policy == "pins"
    (row,) = [
        row
        for row in alignment.rows
        if row.student >= 0 and alignment.student.call_path(row.student) == "blocks.0.mlp.fc1"
    ]
    assert (row.confidence, row.evidence[0]) == (1.0, "pinned")


def test_a_leaf_can_be_pinned_against_the_order() -> None:
    model = record(encoder(2))
    pins = {
        "blocks.0.attention.query": "blocks.0.attention.value",
        "blocks.0.attention.value": "blocks.0.attention.query",
    }
    pairs = align(teacher=model, student=model, pins=pins).module_pairs()
    assert pairs["blocks.0.attention.query"] == ["blocks.0.attention.value"]
    assert pairs["blocks.0.attention.value"] == ["blocks.0.attention.query"]
    assert pairs["blocks.0.attention.key"] == ["blocks.0.attention.key"]
    assert pairs["blocks.1.attention.query"] == ["blocks.1.attention.query"]


def test_one_student_module_may_have_several_teacher_modules() -> None:
    teacher, student = record(encoder(6)), record(encoder(3))
    pairs = align(teacher=teacher, student=student, pins={"blocks.1": ["blocks.2", "blocks.3"]}).module_pairs()
    assert pairs["blocks.1"] == ["blocks.2", "blocks.3"]


def test_no_counterpart_holds_for_everything_inside() -> None:
    model = record(encoder(2))
    alignment = align(teacher=model, student=model, pins={"blocks.1": None})
    pairs = alignment.module_pairs()
    assert not [path for path in pairs if path.startswith("blocks.1")]
    assert pairs["blocks.0"] == ["blocks.0"]


def test_modules_of_different_kinds_can_be_pinned() -> None:
    teacher, student = record(residual_network((2, 2, 2))), record(encoder(4))
    pairs = align(teacher=teacher, student=student, pins={"blocks.0": "layer1"}).module_pairs()
    assert pairs["blocks.0"] == ["layer1"]


def test_unpin_gives_back_the_automatic_pair() -> None:
    teacher, student = record(encoder(6)), record(encoder(3))
    automatic = align(teacher=teacher, student=student)
    pinned = automatic.pin("blocks.0", "blocks.2")
    assert pinned.module_pairs()["blocks.0"] == ["blocks.2"]
    assert pinned.unpin("blocks.0").module_pairs() == automatic.module_pairs()
    with pytest.raises(KeyError, match=r"'norm' is not pinned; pinned are \['blocks.0'\]"):
        pinned.unpin("norm")


@pytest.mark.parametrize(
    ("pins", "message"),
    [
        (
            {"blocks.0.atention": "blocks.0.attention"},
            r"the student has no module 'blocks.0.atention'; did you mean 'blocks.0.attention",
        ),
        ({"blocks.0": "blocks.9"}, r"the teacher has no module 'blocks.9'; did you mean 'blocks.\d'"),
        ({"blocks.0": []}, "has an empty list"),
        (
            {"blocks.0": None, "blocks.0.mlp": "blocks.1.mlp"},
            "'blocks.0' is pinned to no counterpart, but 'blocks.0.mlp'",
        ),
        ({"blocks.0": "blocks.1", "blocks.0.mlp": "blocks.2.mlp"}, "which lies outside; remove one of the two"),
    ],
)
def test_pins_that_cannot_hold_are_refused_with_the_nearest_names(pins: dict[str, object], message: str) -> None:
    teacher, student = record(encoder(4)), record(encoder(2))
    with pytest.raises(PinError, match=message):
        align(teacher=teacher, student=student, pins=pins)  # type: ignore[arg-type]
