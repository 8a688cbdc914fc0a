"""Statistics and overviews of matrices whose values are known by hand, and hostile ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tb_plugin_structure.capture.attention.sources import MatrixSource
from tb_plugin_structure.capture.attention.summary import Summary, summarize


def of(matrix: object, *, self_attention: bool = True, rows: list[int] | None = None, scores: object = None) -> Summary:
    values = torch.as_tensor(np.asarray(matrix, np.float32))
    while values.dim() < 3:
        values = values.unsqueeze(0)
    given = None if scores is None else torch.as_tensor(np.asarray(scores, np.float32)).expand_as(values)[None]
    return summarize(
        MatrixSource(values[None], given),
        0,
        list(range(values.shape[0])),
        rows,
        full_heads=list(range(values.shape[0])),
        self_attention=self_attention,
    )


def statistics(summary: Summary) -> dict[str, float]:
    return {name: float(values[0]) for name, values in summary.statistics.items()}


def test_uniform_attention() -> None:
    found = statistics(of(np.full((8, 8), 1 / 8)))
    assert found["entropy"] == pytest.approx(math.log(8), rel=1e-6)
    assert found["normalized_entropy"] == pytest.approx(1.0, rel=1e-6)
    assert found["distance"] == pytest.approx(2.625)  # mean of |i - j| over an 8 x 8 table: 168 / 64
    assert found["sink_mass"] == found["diagonal_mass"] == found["previous_mass"] == found["top1_mass"] == 0.125


def test_attention_to_itself() -> None:
    found = statistics(of(np.eye(5)))
    assert (found["entropy"], found["distance"], found["diagonal_mass"]) == (0.0, 0.0, 1.0)
    assert (found["sink_mass"], found["previous_mass"], found["maximum"]) == (pytest.approx(0.2), 0.0, 1.0)


def test_attention_to_the_previous_position() -> None:
    matrix = np.eye(5, k=-1)
    matrix[0, 0] = 1
    found = statistics(of(matrix))
    assert (found["previous_mass"], found["distance"]) == (1.0, pytest.approx(4 / 5))


def test_entropy_of_causal_rows_is_normalised_by_what_each_row_can_see() -> None:
    causal = np.tril(np.ones((6, 6)))
    scores = np.where(causal > 0, 0.0, -np.inf)
    found = statistics(of(causal / causal.sum(1, keepdims=True), scores=scores))
    assert found["normalized_entropy"] == pytest.approx(1.0, rel=1e-6)
    assert found["entropy"] == pytest.approx(np.mean([math.log(n) for n in range(1, 7)]), rel=1e-6)


def test_a_cached_step_measures_distance_from_the_last_position() -> None:
    row = np.array([[0, 0, 0.5, 0.5]])
    assert statistics(of(row))["distance"] == pytest.approx(0.5)
    assert math.isnan(statistics(of(row))["diagonal_mass"])


def test_cross_attention_scales_key_positions_to_the_queries() -> None:
    blocks = np.kron(np.eye(4), np.full((1, 2), 0.5))  # query i looks at keys 2i and 2i + 1
    assert statistics(of(blocks, self_attention=False))["distance"] == pytest.approx(0.25)


def test_a_single_token() -> None:
    found = statistics(of([[1.0]]))
    assert (found["entropy"], found["sink_mass"], found["maximum"], found["diagonal_mass"]) == (0.0, 1.0, 1.0, 1.0)
    assert math.isnan(found["normalized_entropy"])  # one key is no choice
    assert math.isnan(found["previous_mass"])


@pytest.mark.parametrize("shape", [(0, 0), (0, 4), (4, 0)])
def test_sequences_without_positions(shape: tuple[int, int]) -> None:
    summary = of(np.zeros((2, *shape)), self_attention=False)
    assert summary.maximum.shape == (2, *shape)
    assert math.isnan(statistics(summary)["top1_mass"])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_rows_that_are_not_finite_are_left_out_and_counted(value: float) -> None:
    matrix = np.full((4, 4), 0.25)
    matrix[2, 1] = value
    summary = of(matrix)
    assert summary.non_finite_rows == 1
    assert statistics(summary)["entropy"] == pytest.approx(math.log(4), rel=1e-6)
    assert np.isfinite(summary.maximum).all()
    assert summary.matrix is not None
    assert not np.isfinite(summary.matrix[0, 2, 1])  # the full matrix shows what was there


def test_overview_of_a_long_sequence_keeps_spikes_and_mass() -> None:
    matrix = np.full((200, 200), 0.5 / 199)
    matrix[np.arange(200), (np.arange(200) * 7) % 200] = 0.5
    summary = of(matrix)
    assert summary.maximum.shape == summary.mass.shape == (1, 64, 64)
    np.testing.assert_allclose(summary.mass.sum(-1), 1.0, rtol=1e-5)  # mass adds up over keys
    # Cell (c, d) covers rows c·200/64 … (c + 1)·200/64 and columns likewise.
    edges = [cell * 200 // 64 for cell in range(65)]
    block = matrix[edges[10] : edges[11], edges[20] : edges[21]]
    assert summary.maximum[0, 10, 20] == pytest.approx(block.max(), rel=1e-6)
    assert summary.mass[0, 10, 20] == pytest.approx(block.sum(1).mean(), rel=1e-5)


def test_chosen_rows_only() -> None:
    matrix = np.eye(100)
    summary = of(matrix, rows=[0, 50, 99])
    assert summary.matrix is None
    assert summary.rows == [0, 50, 99]
    assert statistics(summary)["diagonal_mass"] == 1.0
    assert summary.maximum[0].sum() == 3.0


def test_blocks_of_rows_give_the_same_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    matrix = rng.dirichlet(np.full(90, 0.3), (3, 90))
    whole = of(matrix)
    monkeypatch.setattr("tb_plugin_structure.capture.attention.summary._BLOCK_CELLS", 90 * 16 * 2)
    parts = of(matrix)
    np.testing.assert_allclose(parts.mass, whole.mass, rtol=1e-5)
    np.testing.assert_array_equal(parts.maximum, whole.maximum)
    for name, values in whole.statistics.items():
        np.testing.assert_allclose(parts.statistics[name], values, rtol=1e-6, equal_nan=True)
