"""Policies: published tables and written formulas."""

from __future__ import annotations

import pytest

from tb_plugin_structure.analysis.alignment import PolicyError, align, policy_indices
from tb_plugin_structure.analysis.alignment.policies import stage_indices
from tests.unit.alignment.networks import encoder, record


@pytest.mark.parametrize(
    ("policy", "longer", "shorter", "expected"),
    [
        ("copy", 12, 6, [0, 2, 4, 7, 9, 11]),
        ("copy", 12, 4, [0, 4, 8, 11]),
        ("copy", 12, 3, [0, 6, 11]),
        ("copy", 12, 1, [0]),
        ("copy", 32, 2, [0, 31]),
        ("copy", 6, 3, [0, 2, 5]),
        ("copy", 16, 9, [0, 1, 3, 5, 7, 9, 11, 13, 15]),
        ("uniform", 12, 6, [1, 3, 5, 7, 9, 11]),
        ("uniform", 12, 4, [2, 5, 8, 11]),
        ("uniform", 12, 3, [3, 7, 11]),
        ("skip", 12, 5, [1, 3, 5, 7, 9]),
        ("last", 12, 6, [6, 7, 8, 9, 10, 11]),
        ("first", 12, 3, [0, 1, 2]),
        ([0, -1, 7], 12, 3, [0, -1, 7]),
    ],
)
def test_policy_gives_the_published_blocks(policy: object, longer: int, shorter: int, expected: list[int]) -> None:
    assert policy_indices(policy, longer, shorter) == expected  # type: ignore[arg-type]


def test_uniform_on_80_and_32_layers_ends_at_the_last() -> None:
    indices = policy_indices("uniform", 80, 32)
    assert indices[:4] == [1, 4, 6, 9]
    assert indices[-1] == 79


def test_twelve_blocks_against_four_stages_follow_the_published_plan() -> None:
    assert stage_indices(12, 4) == [1, 3, 9, 11]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("newest", "no policy 'newest'; use copy, uniform, skip, last, first"),
        ([0, 1], "has 2 indices; give one for each of the 3 blocks"),
        ([0, 5, 12], "index 12 is outside 0 to 11"),
        ([0, 7, 5], "blocks are paired in order"),
    ],
)
def test_a_policy_that_does_not_fit_says_what_would(policy: object, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        policy_indices(policy, 12, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(("policy", "expected"), [("copy", [0, 2, 5]), ("uniform", [1, 3, 5]), ("last", [3, 4, 5])])
def test_the_policy_in_force_is_part_of_the_result(policy: str, expected: list[int]) -> None:
    teacher, student = record(encoder(6)), record(encoder(3))
    alignment = align(teacher=teacher, student=student, policy=policy)
    (stack,) = alignment.stacks
    assert (stack.teacher_path, stack.student_path) == ("blocks", "blocks")
    assert (stack.policy, list(stack.indices), stack.interchangeable) == (policy, expected, True)
    assert list(stack.choices) == ["copy", "uniform", "skip", "last", "first"]
    back = align(teacher=student, student=teacher, policy=policy).stacks[0]
    assert list(back.indices) == expected


def test_a_list_for_one_stack_and_an_unknown_name_for_all() -> None:
    teacher, student = record(encoder(6)), record(encoder(3))
    alignment = align(teacher=teacher, student=student, policy={"": "uniform", "blocks": [2, -1, 3]})
    pairs = alignment.module_pairs()
    assert pairs["blocks.0"] == ["blocks.2"]
    assert "blocks.1" not in pairs
    assert pairs["blocks.2"] == ["blocks.3"]
    assert alignment.stacks[0].policy == "custom"
    with pytest.raises(PolicyError, match="no policy 'middle'"):
        align(teacher=teacher, student=student, policy="middle")


def test_interchangeable_blocks_list_their_alternatives() -> None:
    teacher, student = record(encoder(4)), record(encoder(2))
    alignment = align(teacher=teacher, student=student)
    (row,) = [
        row for row in alignment.rows if row.student >= 0 and alignment.student.call_path(row.student) == "blocks.1"
    ]
    assert alignment.teacher.call_path(row.teacher) == "blocks.3"
    assert [alignment.teacher.call_path(call) for call in row.alternatives] == ["blocks.0", "blocks.1", "blocks.2"]
    assert "policy copy, interchangeable" in row.evidence


def test_weights_decide_when_the_student_was_cut_from_the_teacher() -> None:
    teacher = record(encoder(6, seeds=(1, 2, 3, 4, 5, 6)))
    student = record(encoder(3, seeds=(2, 3, 6)))
    alignment = align(teacher=teacher, student=student)
    (stack,) = alignment.stacks
    assert (stack.policy, list(stack.indices), stack.interchangeable) == ("weights", [1, 2, 5], False)
    (row,) = [
        row
        for row in alignment.rows
        if row.student >= 0 and alignment.student.call_path(row.student) == "blocks.2.attention.query"
    ]
    assert alignment.teacher.call_path(row.teacher) == "blocks.5.attention.query"
    assert row.evidence[0] == "equal weights"
