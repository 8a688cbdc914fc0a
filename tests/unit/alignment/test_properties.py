"""What must hold of any two models, checked on generated ones."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tb_plugin_structure.analysis.alignment import POLICIES, align
from tb_plugin_structure.v1 import alignment_pb2
from tests.unit.alignment.networks import (
    Part,
    convolution,
    encoder,
    leaf_paths,
    linear,
    norm,
    record,
    residual_network,
)

_QUICK = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def networks(draw: st.DrawFn) -> Part:
    """A transformer encoder or a residual network of drawn depth and width, or a plain chain of layers."""
    family = draw(st.sampled_from(("encoder", "fused encoder", "residual", "chain")))
    if family == "residual":
        return residual_network(draw(st.lists(st.integers(1, 4), min_size=2, max_size=4)))
    if family == "chain":
        width = 8
        parts = []
        for k, kind in enumerate(draw(st.lists(st.sampled_from(("linear", "norm", "act")), min_size=2, max_size=12))):
            if kind == "linear":
                out = draw(st.sampled_from((8, 16, 32)))
                parts.append(linear(f"project{k}", width, out))
                width = out
            elif kind == "norm":
                parts.append(norm(f"norm{k}", width))
            else:
                parts.append(Part(f"act{k}", "ReLU", out=(2, 8, width)))
        return Part("", "Chain", parts, out=(2, 8, width))
    return encoder(draw(st.integers(1, 6)), draw(st.sampled_from((16, 32))), 64, fused=family != "encoder")


def _walk(part: Part) -> Iterator[Part]:
    yield part
    for child in part.parts:
        yield from _walk(child)


def _opaque(root: Part) -> tuple[Part, dict[str, str]]:
    """A copy whose attributes are called m0, m1, ...; and new path -> old path."""
    renamed = copy.deepcopy(root)
    paths: dict[str, str] = {"": ""}

    def rename(part: Part, old: str, new: str) -> None:
        for k, child in enumerate(part.parts):
            old_path = f"{old}.{child.name}" if old else child.name
            child.name = child.name if child.name.isdigit() else f"m{k}"
            new_path = f"{new}.{child.name}" if new else child.name
            paths[new_path] = old_path
            rename(child, old_path, new_path)

    rename(renamed, "", "")
    return renamed, paths


@_QUICK
@given(networks())
def test_a_model_aligned_with_itself_is_the_identity(network: Part) -> None:
    structure = record(network)
    alignment = align(teacher=structure, student=structure)
    assert all(row.teacher == row.student for row in alignment.rows)
    assert {row.kind for row in alignment.rows} == {alignment_pb2.PAIR_KIND_IDENTICAL}
    assert alignment.edits == []
    assert alignment.summary().startswith("Nothing changed")


@_QUICK
@given(networks(), networks(), st.sampled_from(sorted(POLICIES)))
def test_swapping_the_roles_inverts_the_pairs(first: Part, second: Part, policy: str) -> None:
    one, other = record(first), record(second)
    there = {(row.teacher, row.student) for row in align(teacher=one, student=other, policy=policy).rows}
    back = {(row.student, row.teacher) for row in align(teacher=other, student=one, policy=policy).rows}
    assert there == back


@_QUICK
@given(networks())
def test_opaque_names_keep_every_pair(network: Part) -> None:
    renamed, paths = _opaque(network)
    pairs = align(teacher=record(network), student=record(renamed)).module_pairs()
    assert pairs == {new: [old] for new, old in paths.items() if new in pairs}
    assert set(leaf_paths(record(renamed))) <= set(pairs)


@_QUICK
@given(networks(), st.integers(0, 10**6))
def test_an_inserted_unique_layer_changes_only_its_own_row(network: Part, seed: int) -> None:
    changed = copy.deepcopy(network)
    place = random.Random(seed).randrange(len(changed.parts) + 1)
    extra = Part("extra", "LSTM", out=(2, 8, 24), weight=(96, 24))
    changed.parts.insert(place, extra)
    alignment = align(teacher=record(network), student=record(changed))
    pairs = alignment.module_pairs()
    assert pairs == {path: [path] for path in pairs}
    alone = [row for row in alignment.rows if row.teacher < 0 or row.student < 0]
    assert [alignment.student.call_path(row.student) for row in alone] == ["extra"]
    assert alone[0].kind == alignment_pb2.PAIR_KIND_INSERTED
    inverse = align(teacher=record(changed), student=record(network))
    deleted = [row for row in inverse.rows if row.teacher < 0 or row.student < 0]
    assert [(inverse.teacher.call_path(row.teacher), row.kind) for row in deleted] == [
        ("extra", alignment_pb2.PAIR_KIND_DELETED)
    ]


@_QUICK
@given(networks(), networks())
def test_the_same_input_gives_the_same_bytes(first: Part, second: Part) -> None:
    one, other = record(first), record(second)
    proto = align(teacher=one, student=other).to_proto().SerializeToString(deterministic=True)
    again = align(teacher=one, student=other).to_proto().SerializeToString(deterministic=True)
    assert proto == again


@_QUICK
@given(networks(), networks())
def test_rows_form_a_tree_in_display_order_and_hold_every_call(first: Part, second: Part) -> None:
    one, other = record(first), record(second)
    alignment = align(teacher=one, student=other)
    for number, row in enumerate(alignment.rows):
        assert -1 <= row.parent < number or (number == 0 and row.parent == -1)
        assert 0.0 <= row.confidence <= 1.0
        assert row.teacher >= 0 or row.student >= 0
    assert {row.teacher for row in alignment.rows} - {-1} == set(range(one.module_calls.rows))
    assert {row.student for row in alignment.rows} - {-1} == set(range(other.module_calls.rows))


@pytest.mark.parametrize("order", [False, True])
def test_the_order_of_policies_and_pins_does_not_matter(order: bool) -> None:
    teacher, student = record(encoder(6)), record(encoder(3))
    pins = {"blocks.0": "blocks.1", "norm": "norm"}
    policy = {"": "copy", "blocks": "uniform"}
    if order:
        pins = dict(reversed(pins.items()))
        policy = dict(reversed(policy.items()))
    pairs = align(teacher=teacher, student=student, policy=policy, pins=pins).module_pairs()
    assert [pairs[f"blocks.{k}"] for k in range(3)] == [["blocks.1"], ["blocks.3"], ["blocks.5"]]


def test_convolution_helper_has_the_shape_it_says() -> None:
    assert record(Part("", "Net", [convolution("c", 3, 8, 16)], out=(2, 8, 16, 16))).shape(1) == (2, 8, 16, 16)
