"""Distances between models of one step are computed from the float32 maps, and the comparison uses them."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tb_plugin_structure.analysis.attention import compare, hellinger
from tb_plugin_structure.capture import AttentionOptions, observe
from tb_plugin_structure.capture.attention import AttentionCapture, compare_captures, farthest_heads
from tb_plugin_structure.records.attention import AttentionOverview
from tests.unit.attention.capturing import Function, probabilities, query_key_value


def recorded(positions: int, options: AttentionOptions | None = None, causal: bool = False) -> list[AttentionCapture]:
    """A teacher of 4 heads and a student of the teacher's heads 2 and 0, a little changed."""
    q, k, v = query_key_value(batch=1, queries=positions, keys=positions, width=16)
    noise = 0.01 * torch.randn(1, 2, positions, 16, generator=torch.Generator().manual_seed(3))
    teacher: nn.Module = Function(F.scaled_dot_product_attention)
    student: nn.Module = Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal))
    with observe({"teacher": teacher, "student": student}, attention=options or AttentionOptions()) as region:
        teacher(q, k, v)
        student(q[:, [2, 0]] + noise, k[:, [2, 0]], v[:, [2, 0]])
    return [region.attention[name] for name in ("teacher", "student")]


def overviews(captures: list[AttentionCapture]) -> list[AttentionOverview]:
    compare_captures(*captures)
    return [AttentionOverview.decode(capture.overview().encode()) for capture in captures]


def test_small_distances_are_exact_where_the_overview_is_too_coarse_for_them() -> None:
    teacher, student = overviews(recorded(200))
    q, k, _ = query_key_value(batch=1, queries=200, keys=200, width=16)
    noise = 0.01 * torch.randn(1, 2, 200, 16, generator=torch.Generator().manual_seed(3))
    truth = hellinger(probabilities(q, k)[0], probabilities(q[:, [2, 0]] + noise, k[:, [2, 0]])[0])
    found = compare(teacher, student, same_step=True)
    assert found.resolution == "float32 when recorded, every position"
    np.testing.assert_allclose(found.pairs[0, 0].distances, truth, atol=1e-3)
    assert [(t, s) for t, s, _ in found.pairs[0, 0].heads] == [(0, 1), (2, 0)]
    assert found.pairs[0, 0].unmatched_teacher == [1, 3]
    assert truth[2, 0] < 0.01


def test_long_sequences_are_compared_by_blocks_and_say_so() -> None:
    found = compare(*overviews(recorded(400)), same_step=True)
    assert found.resolution == "float32 when recorded, 64 x 64 blocks"
    assert any("pooled distances are lower" in note for note in found.notes)
    assert [(t, s) for t, s, _ in found.pairs[0, 0].heads] == [(0, 1), (2, 0)]


def test_records_of_different_steps_are_compared_from_what_is_stored() -> None:
    found = compare(*overviews(recorded(60)), same_step=False)
    assert found.resolution == "8-bit overview, every position"


def test_different_masks_are_compared_on_what_both_see() -> None:
    found = compare(*overviews(recorded(60, causal=True)), same_step=True)
    assert found.resolution == "8-bit overview, every position"
    assert any("masks differ" in note for note in found.notes)


def test_too_many_heads_leave_the_comparison_to_the_reader() -> None:
    captures = recorded(60)
    q = torch.randn(1, 4096, 60, 4)
    model = Function(F.scaled_dot_product_attention)
    with observe({"large": model}, attention=AttentionOptions(watch={}, detail_limit=0)) as region:
        model(q, q, q)
    large = region.attention["large"]
    compare_captures(large, captures[1])
    assert [name for name, _, _ in captures[1].distances.get(0, [])] == ["large"]
    compare_captures(large, large)
    assert large.distances == {}


def test_models_without_attention_have_no_distances() -> None:
    model = nn.Linear(3, 3)
    with observe({"a": model, "b": nn.Linear(3, 3)}, attention=AttentionOptions()) as region:
        model(torch.randn(2, 3))
    compare_captures(region.attention["a"], region.attention["b"])
    assert region.attention["b"].distances == {}


def test_heads_without_a_near_head_in_the_other_model_are_the_farthest() -> None:
    captures = recorded(400)
    compare_captures(*captures)
    # The student has the teacher's heads 2 and 0: nothing looks where heads 1 and 3 look.
    found = farthest_heads(*captures, number=2)
    assert sorted(found[""][:2]) == [1, 3]


def test_the_farthest_heads_are_kept_in_full_resolution_besides_the_first() -> None:
    teacher, student = recorded(400, AttentionOptions(farthest={"": [3, 1]}))
    assert [kept.head for _, kept in teacher.kept_heads()] == [0, 1, 3]
    assert [kept.head for _, kept in student.kept_heads()] == [0, 1]
    (named, _) = recorded(400, AttentionOptions(farthest={"": [3]}, watch={"*": [2]}))
    assert [kept.head for _, kept in named.kept_heads()] == [2]
