"""Two models side by side."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from tb_plugin_structure.analysis.attention import compare, hellinger
from tests.unit.analysis_attention.overviews import overview, random_heads

CODES = 0.02
"""8-bit square-root codes shift a Hellinger distance by at most about this much."""


def test_a_student_cut_from_its_teacher_is_recognised() -> None:
    layers = [random_heads(4, 20, seed) for seed in range(4)]
    result = compare(overview(layers), overview([layers[3], layers[1]]))
    assert result.layer_pairs == [(1, 1), (3, 0)]
    assert result.layer_distances[3, 0] < CODES
    assert result.layer_distances[0, 0] > 0.1
    assert result.pairs[3, 0].heads == [(head, head, pytest.approx(0.0, abs=CODES)) for head in range(4)]


def test_distances_are_those_of_the_maps() -> None:
    teacher, student = random_heads(3, 30, 0, causal=True), random_heads(2, 30, 1, causal=True)
    result = compare(overview([teacher]), overview([student]))
    np.testing.assert_allclose(result.pairs[0, 0].distances, hellinger(teacher, student), atol=CODES)


def test_fewer_student_heads_leave_teacher_heads_unmatched() -> None:
    maps = random_heads(5, 16, 0)
    pair = compare(overview([maps]), overview([maps[[4, 2]]])).pairs[0, 0]
    assert [(teacher, student) for teacher, student, _ in pair.heads] == [(2, 1), (4, 0)]
    assert (pair.unmatched_teacher, pair.unmatched_student) == ([0, 1, 3], [])


def test_other_lengths_are_pooled_and_said() -> None:
    result = compare(overview([random_heads(2, 40, 0)]), overview([random_heads(2, 24, 1)]))
    assert result.pairs[0, 0].resolution == "8-bit overview, pooled to 24 x 24"
    assert any("pooled distances are lower" in note for note in result.notes)
    assert any("different numbers of positions" in note for note in result.notes)


def test_configured_layer_pairs_are_kept_and_checked() -> None:
    layers = [random_heads(2, 8, seed) for seed in range(3)]
    assert compare(overview(layers), overview(layers[:1]), [(2, 0)]).layer_pairs == [(2, 0)]
    with pytest.raises(ValueError, match=r"layer pair \(3, 0\) lies outside 3 teacher and 1 student layers"):
        compare(overview(layers), overview(layers[:1]), [(3, 0)])


def test_masks_that_differ_are_compared_where_both_can_look() -> None:
    causal, full = random_heads(2, 12, 0, causal=True), random_heads(2, 12, 0)
    result = compare(overview([causal], mask="causal"), overview([full]))
    pair = result.pairs[0, 0]
    assert pair.excluded_mass > 0.2
    assert any("masks differ" in note for note in result.notes)
    # The same scores: inside the triangle both renormalise to the same rows.
    assert pair.distances[0, 0] < CODES


def test_padding_does_not_count() -> None:
    maps = random_heads(1, 10, 0)
    padded = np.zeros((1, 14, 14))
    padded[:, :10, :10] = maps
    padded[:, 10:, :10] = random_heads(1, 10, 5)[:, :4]  # padded queries look at something
    other = padded.copy()
    other[:, 10:, :10] = random_heads(1, 10, 6)[:, :4]
    assert compare(overview([padded]), overview([other])).layer_distances[0, 0] < CODES


def test_layers_that_were_not_captured_are_null() -> None:
    result = compare(overview(["no matrix", random_heads(2, 8, 0)]), overview([random_heads(2, 8, 0)])).to_dict()
    assert result["layer_distances"][0] == [None]
    assert result["notes"][0] == "1 layer of the teacher that looks like attention was not captured"


@pytest.mark.parametrize(("teacher", "student"), [([], []), (["no"], []), ([], [np.full((1, 2, 2), 0.5)])])
def test_models_without_attention_have_a_note(teacher: list[object], student: list[object]) -> None:
    result = compare(overview(teacher), overview(student))  # type: ignore[arg-type]
    assert any("no attention of the teacher was captured" in note for note in result.notes)
    assert result.layer_pairs == []


def test_different_kinds_are_not_compared() -> None:
    result = compare(overview([random_heads(1, 6, 0)]), overview([random_heads(1, 6, 0)], relation="cross"))
    assert result.pairs == {}
    assert any("share no kind of attention" in note for note in result.notes)


def test_other_tokens_at_equal_length_are_said() -> None:
    maps = random_heads(1, 3, 0)
    result = compare(overview([maps], tokens=["a", "b", "c"]), overview([maps], tokens=["a", "x", "c"]))
    assert any("labels of the positions differ" in note for note in result.notes)


def test_maps_of_nan_do_not_break_anything() -> None:
    result = compare(overview([np.full((2, 4, 4), math.nan)]), overview([random_heads(2, 4, 0)]))
    assert result.to_dict()["layer_distances"] == [[None]]
    json.dumps(result.to_dict(), allow_nan=False)


def test_the_answer_of_the_route() -> None:
    maps = np.stack([np.eye(4), np.roll(np.eye(4), 1, 1)])
    assert compare(overview([maps]), overview([maps[:1]])).to_dict() == {
        "measure": "Hellinger",
        "resolution": "8-bit overview, every position",
        "layer_distances": [[0.0]],
        "pairs": [
            {"teacher": 0, "student": 0, "heads": [[0, 0, 0.0]], "unmatched_teacher": [1], "unmatched_student": []}
        ],
        "layer_pairs": [[0, 0]],
        "notes": ["layers are paired by least distance, not by a configuration"],
    }


def test_a_thousand_heads_are_compared_with_four_hundred() -> None:
    teacher = overview([random_heads(32, 64, seed) for seed in range(32)])
    student = overview([random_heads(12, 64, seed) for seed in range(12)])
    result = compare(teacher, student)
    assert len(result.pairs) == 384
