"""Shapes of networks that a list in order does not describe: branches, towers, inserted and shared blocks, wrappers."""

from __future__ import annotations

import copy

import pytest

from tb_plugin_structure.analysis.alignment import align
from tb_plugin_structure.records.schema import STRUCTURE_TABLES
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import alignment_pb2, structure_pb2
from tests.unit.alignment.networks import (
    Part,
    activation,
    convolution,
    encoder,
    encoder_block,
    linear,
    norm,
    record,
    residual_network,
)


def _branch(name: str, kernel: int) -> Part:
    reduce, spread = convolution("0", 32, 8, 16, 1), convolution("2", 8, 8, 16, kernel)
    return Part(name, "Sequential", [reduce, activation("1", (2, 8, 16, 16), "ReLU"), spread], out=(2, 8, 16, 16))


def _mixed(order: str) -> Part:
    pooled = Part(
        "d",
        "Sequential",
        [Part("0", "MaxPool2d", out=(2, 32, 16, 16)), convolution("1", 32, 8, 16, 1)],
        out=(2, 8, 16, 16),
    )
    branches = {"a": convolution("a", 32, 8, 16, 1), "b": _branch("b", 3), "c": _branch("c", 5), "d": pooled}
    mixed = Part("mixed", "Mixed", [branches[name] for name in order], out=(2, 32, 16, 16), fan=True)
    return Part("", "Net", [convolution("stem", 3, 32, 16), mixed, linear("head", 32, 10)], out=(2, 10))


def test_branches_are_matched_by_role_when_they_run_in_another_order() -> None:
    teacher, student = record(_mixed("abcd")), record(_mixed("dcab"))
    alignment = align(teacher=teacher, student=student)
    pairs = alignment.module_pairs()
    assert pairs == {path: [path] for path in pairs}
    assert {"mixed.a", "mixed.b.2", "mixed.c.2", "mixed.d.0", "mixed.d.1"} <= set(pairs)
    assert any(row.kind == alignment_pb2.PAIR_KIND_MOVED for row in alignment.rows)


def _towers(first: str, second: str, depth: int) -> Part:
    towers = {
        name: Part(
            name,
            "Tower",
            [linear("embed", width, width), *[encoder_block(str(k), width, 4 * width) for k in range(depth)]],
            out=(2, 8, width),
        )
        for name, width in (("vision", 32), ("text", 16))
    }
    return Part("", "Towers", [towers[first], towers[second]], out=(2, 8), fan=True)


def test_towers_are_matched_by_name_and_size_when_they_run_in_another_order() -> None:
    pairs = align(
        teacher=record(_towers("vision", "text", 6)), student=record(_towers("text", "vision", 3))
    ).module_pairs()
    assert pairs["vision"] == ["vision"]
    assert pairs["text.0"] == ["text.0"]
    assert pairs["vision.1.mlp.fc1"] == ["vision.2.mlp.fc1"]
    assert pairs["text.2"] == ["text.5"]


def test_a_foreign_block_in_a_stack_stays_alone() -> None:
    changed = encoder(4)
    inside = [convolution("down", 16, 2, 1, 1), activation("act", (2, 2), "Sigmoid"), convolution("up", 2, 16, 1, 1)]
    gate = Part("2", "Gate", inside, out=(2, 8, 16))
    blocks = changed.parts[1].parts
    blocks.insert(2, gate)
    for k, block in enumerate(blocks):
        block.name = str(k)
    alignment = align(teacher=record(encoder(4)), student=record(changed))
    pairs = alignment.module_pairs()
    assert [pairs.get(f"blocks.{k}") for k in range(5)] == [
        ["blocks.0"],
        ["blocks.1"],
        None,
        ["blocks.2"],
        ["blocks.3"],
    ]
    assert "blocks.2.down" not in pairs


@pytest.mark.parametrize("names", [("module",), ("module", "_orig_mod"), ("base_model", "model")])
def test_wrappers_are_looked_through(names: tuple[str, ...]) -> None:
    inner = encoder(2)
    wrapped = copy.deepcopy(inner)
    for name in reversed(names):
        wrapped.name = name
        wrapped = Part("", "Wrapper", [wrapped], out=inner.out)
    alignment = align(teacher=record(inner), student=record(wrapped))
    prefix = ".".join(names)
    assert alignment.module_pairs()[f"{prefix}.blocks.1.mlp.fc1"] == ["blocks.1.mlp.fc1"]
    assert alignment.summary().startswith("Nothing changed")


def test_one_stage_of_one_block_takes_the_last_block_of_the_teachers() -> None:
    pairs = align(
        teacher=record(residual_network((5, 5, 5))), student=record(residual_network((1, 1, 1)))
    ).module_pairs()
    for stage in (1, 2, 3):
        assert pairs[f"layer{stage}"] == [f"layer{stage}"]
        assert pairs[f"layer{stage}.0"] == [f"layer{stage}.4"]
        assert pairs[f"layer{stage}.0.bn2"] == [f"layer{stage}.4.bn2"]


def test_stages_are_matched_by_order_where_no_resolution_agrees() -> None:
    teacher = residual_network((2, 2, 2))
    student = residual_network((2, 2, 2))
    student.parts.insert(3, Part("maxpool", "MaxPool2d", out=(2, 16, 16, 16)))

    def halve(part: Part) -> None:
        if len(part.out) == 4 and part.name != "maxpool":
            part.out = (*part.out[:2], part.out[2] // 2, part.out[3] // 2)
        for child in part.parts:
            halve(child)

    for part in student.parts:
        halve(part)
    pairs = align(teacher=record(teacher), student=record(student)).module_pairs()
    assert [pairs[f"layer{stage}"] for stage in (1, 2, 3)] == [["layer1"], ["layer2"], ["layer3"]]
    assert pairs["layer3.1.conv2"] == ["layer3.1.conv2"]


def test_resized_retyped_and_reconfigured_are_told_apart() -> None:
    teacher = Part(
        "", "Net", [linear("a", 8, 16), activation("act", (2, 8, 16), "ReLU"), norm("n", 16)], out=(2, 8, 16)
    )
    student = Part(
        "", "Net", [linear("a", 8, 32), activation("act", (2, 8, 32), "GELU"), norm("n", 32)], out=(2, 8, 32)
    )
    teacher.parts[2].attributes = {"eps": "1e-05"}
    student.parts[2].attributes = {"eps": "1e-12"}
    alignment = align(teacher=record(teacher), student=record(student))
    kinds = {
        alignment.student.call_path(row.student): alignment_pb2.PairKind.Name(row.kind).removeprefix("PAIR_KIND_")
        for row in alignment.rows
    }
    assert kinds == {"": "RECONFIGURED", "a": "RESIZED", "act": "RETYPED", "n": "RECONFIGURED"}
    assert [edit.text for edit in alignment.edits] == [
        "a: output 8×16 → 8×32",
        "act: ReLU → GELU",
        "n: eps 1e-05 → 1e-12",
    ]


def test_layers_that_share_nothing_are_not_painted_as_pairs() -> None:
    teacher = Part("", "Net", [Part("a", "Embedding", out=(2, 8, 16), weight=(10, 16))], out=(2, 8, 16))
    student = Part("", "Net", [Part("b", "LSTM", out=(2, 8, 16), weight=(64, 16))], out=(2, 8, 16))
    assert align(teacher=record(teacher), student=record(student)).module_pairs() == {"": [""]}


def test_a_record_of_a_pass_that_never_began_is_told_in_one_sentence() -> None:
    columns = {table: {column.name: [] for column in fields} for table, fields in STRUCTURE_TABLES.items()}
    nothing = Structure.build(structure_pb2.StructureHeader(model="broken"), columns)
    alignment = align(teacher=record(encoder(1), "whole"), student=nothing)
    assert (
        alignment.summary() == "The record of the student (broken) holds no module call: there is nothing to compare."
    )
    assert alignment.module_pairs() == {}
    assert len(alignment.rows) == alignment.to_proto().pairs.rows


def test_a_single_layer_is_paired_with_its_like_in_a_network() -> None:
    teacher = Part("", "Linear", out=(2, 8, 16), weight=(16, 16))
    student = Part("", "Net", [linear("0", 16, 16), activation("1", (2, 8, 16))], out=(2, 8, 16))
    assert align(teacher=record(teacher), student=record(student)).module_pairs() == {"": [""], "0": [""]}


def test_a_shared_layer_is_paired_call_by_call() -> None:
    teacher = record(encoder(4))
    shared = encoder(4)
    blocks = shared.parts[1]
    one = Part("block", "Block", blocks.parts[0].parts, out=(2, 8, 16))
    shared.parts[1] = Part("blocks", "ModuleDict", [one], called=False)
    pairs = align(teacher=teacher, student=record(shared, repeat={"blocks.block": 4})).module_pairs()
    assert pairs["blocks.block"] == [f"blocks.{k}" for k in range(4)]
    assert pairs["blocks.block.mlp.fc1"] == [f"blocks.{k}.mlp.fc1" for k in range(4)]


def test_an_encoder_and_a_decoder_are_not_taken_for_stages() -> None:
    both = Part("", "EncoderDecoder", [encoder(4), encoder(4)], out=(2, 4, 10))
    for part, name, tokens in zip(both.parts, ("encoder", "decoder"), (8, 4), strict=True):
        part.name = name
        _set_tokens(part, tokens)
    alignment = align(teacher=record(both), student=record(encoder(2)))
    assert "unlike" not in alignment.summary()
    (stack,) = alignment.stacks
    assert (stack.teacher_blocks, stack.student_blocks, list(stack.indices)) == (4, 2, [0, 3])
    assert len(alignment.module_pairs()) > 20


def _set_tokens(part: Part, tokens: int) -> None:
    if len(part.out) == 3:
        part.out = (part.out[0], tokens, part.out[2])
    for child in part.parts:
        _set_tokens(child, tokens)


def test_a_change_in_one_block_of_a_stack_says_in_which() -> None:
    changed = encoder(6)
    block = next(part for part in changed.parts if part.name == "blocks").parts[4]
    block.parts.append(Part("extra", "LSTM", out=(2, 8, 24), weight=(96, 24)))
    edits = [edit.text for edit in align(teacher=record(encoder(6)), student=record(changed)).edits]
    assert edits == ["blocks.4.extra (LSTM) only in the student"]
