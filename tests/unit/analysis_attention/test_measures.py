"""Distances, matching, pooling and alignment on cases with a known answer."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tb_plugin_structure.analysis.attention import (
    assign,
    hellinger,
    jensen_shannon,
    onto_tokens,
    pool,
    rollout,
    span_overlap,
)
from tests.unit.analysis_attention.overviews import random_heads


def test_equal_maps_are_at_distance_zero_and_disjoint_ones_at_one() -> None:
    same, other = np.eye(5)[None], np.roll(np.eye(5), 1, 1)[None]
    np.testing.assert_allclose(hellinger(same, np.concatenate([same, other])), [[0.0, 1.0]], atol=1e-3)
    assert jensen_shannon(same[0], same[0]) == 0.0
    assert jensen_shannon(same[0], other[0]) == pytest.approx(1.0)


def test_known_values() -> None:
    p, q = np.array([[[0.5, 0.5]]]), np.array([[[1.0, 0.0]]])
    assert hellinger(p, q)[0, 0] == pytest.approx(math.sqrt(1 - math.sqrt(0.5)), rel=1e-5)
    # ½ KL(p ‖ m) + ½ KL(q ‖ m) with m = (0.75, 0.25), in bits
    expected = 0.5 * (0.5 * math.log2(0.5 / 0.75) + 0.5 * math.log2(2)) + 0.5 * math.log2(1 / 0.75)
    assert jensen_shannon(p[0], q[0]) == pytest.approx(expected)


def test_rows_without_mass_and_rows_of_nan_are_left_out() -> None:
    teacher, student = np.eye(4)[None].copy(), np.eye(4)[None].copy()
    teacher[0, 1] = 0.0
    student[0, 2] = math.nan
    assert hellinger(teacher, student)[0, 0] == pytest.approx(0.0, abs=1e-3)
    assert jensen_shannon(teacher[0], student[0]) == 0.0
    nothing = np.zeros((1, 4, 4))
    assert math.isnan(hellinger(nothing, student)[0, 0])
    assert math.isnan(jensen_shannon(nothing[0], student[0]))


def test_maps_of_different_size_are_refused() -> None:
    with pytest.raises(ValueError, match="pool them to one size first"):
        hellinger(np.ones((1, 3, 3)), np.ones((1, 4, 4)))


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 5), (5, 3), (6, 6), (4, 7)])
def test_assignment_is_the_best_of_all(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(sum(shape))
    for _ in range(20):
        cost = rng.normal(size=shape)
        short, long = sorted(shape)
        tall = cost if shape[0] <= shape[1] else cost.T
        best = min(
            sum(tall[row, column] for row, column in enumerate(order))
            for order in itertools.permutations(range(long), short)
        )
        pairs = assign(cost)
        assert len(pairs) == short
        assert len({row for row, _ in pairs}) == len({column for _, column in pairs}) == short
        assert sum(cost[row, column] for row, column in pairs) == pytest.approx(best)


def test_assignment_leaves_out_what_may_not_be_matched() -> None:
    assert assign(np.array([[1.0, math.nan], [math.nan, math.nan]])) == [(0, 0)]
    assert assign(np.array([[5.0, 1.0], [math.inf, 1.0]])) == [(0, 0), (1, 1)]
    assert assign(np.full((2, 2), math.nan)) == []
    assert assign(np.zeros((0, 3))) == []


def test_a_permuted_noisy_student_is_found() -> None:
    teacher = random_heads(12, 48, 0, causal=True)
    order = np.random.default_rng(1).permutation(12)[:8]
    student = 0.9 * teacher[order] + 0.1 * random_heads(8, 48, 2, causal=True)
    found = {student_head: teacher_head for teacher_head, student_head in assign(hellinger(teacher, student))}
    assert [found[head] for head in range(8)] == order.tolist()


def test_pooling_keeps_the_sum_of_rows() -> None:
    pooled = pool(random_heads(2, 50, 0), 16, 12)
    assert pooled.shape == (2, 16, 12)
    np.testing.assert_allclose(pooled.sum(-1), 1.0)


def test_pooling_of_a_known_matrix() -> None:
    matrix = np.array([[[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]])
    np.testing.assert_allclose(pool(matrix, 2, 2), [[[1, 0], [0, 1]]])
    # Three positions in two blocks: the middle one is shared by both.
    np.testing.assert_allclose(pool(np.eye(3)[None], 2, 2), [[[5 / 6, 1 / 6], [1 / 6, 5 / 6]]])


def test_tokens_of_another_tokenizer_are_aligned_by_characters() -> None:
    teacher, student = [(0, 3), (3, 7), (8, 11), (11, 12)], [(0, 7), (8, 12)]
    np.testing.assert_allclose(span_overlap(student, teacher), [[3 / 7, 4 / 7, 0, 0], [0, 0, 3 / 4, 1 / 4]])
    aligned = onto_tokens(np.array([[[0.7, 0.3], [0.2, 0.8]]]), student, teacher)
    np.testing.assert_allclose(aligned[0, 0], [0.7 * 3 / 7, 0.7 * 4 / 7, 0.3 * 3 / 4, 0.3 * 1 / 4])
    np.testing.assert_allclose(aligned.sum(-1), 1.0)


def test_tokens_without_characters_get_no_share() -> None:
    assert span_overlap([(0, 0)], [(0, 4)]).tolist() == [[0.0]]


def test_rollout() -> None:
    np.testing.assert_allclose(rollout([np.eye(4)[None]] * 3), np.eye(4))
    np.testing.assert_allclose(rollout([random_heads(3, 9, 0), random_heads(3, 9, 1)]).sum(-1), 1.0)
    first, second = np.array([[0.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0], [1.0, 0.0]])
    # (½ I + ½ second) (½ I + ½ first)
    np.testing.assert_allclose(rollout([first[None], second[None]]), [[0.5, 0.5], [0.25, 0.75]])
    with pytest.raises(ValueError, match="square maps"):
        rollout([np.ones((1, 2, 3))])
