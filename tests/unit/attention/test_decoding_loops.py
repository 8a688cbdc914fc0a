"""Decoding with a cache: every step attends with one query more, and all of them are one map."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tb_plugin_structure.capture.attention import model_attention, stitch
from tb_plugin_structure.capture.attention.kept import MATRIX
from tb_plugin_structure.records.attention import decode_matrix
from tb_plugin_structure.v1 import attention_pb2
from tests.unit.attention.capturing import captured, probabilities, query_key_value

TOTAL, PROMPT = 40, 5
SHORT: dict[str, Any] = {"example": 0, "keep_maps": False, "detail_limit": 8}


class CausalSelfAttention(nn.Module):
    """Scaled dot product of the last queries with a cache of keys."""

    def __init__(self, size: int | None) -> None:
        super().__init__()
        self.size = size

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, begin: int, end: int) -> torch.Tensor:
        keys = end if self.size is None else self.size
        mask = torch.arange(keys)[None, :] <= torch.arange(begin, end)[:, None]
        return F.scaled_dot_product_attention(q[:, :, begin:end], k[:, :, :keys], v[:, :, :keys], attn_mask=mask)


class Decoder(nn.Module):
    """A prompt at once, then one position at a time; `size` is that of a cache allocated beforehand."""

    def __init__(self, size: int | None = None) -> None:
        super().__init__()
        self.self_attention = CausalSelfAttention(size)
        self.self_attention.is_causal = True  # type: ignore[assignment]

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
        self.self_attention(q, k, v, 0, PROMPT)
        for position in range(PROMPT, TOTAL):
            self.self_attention(q, k, v, position, position + 1)


def expected() -> np.ndarray:
    q, k, _ = query_key_value(queries=TOTAL, keys=TOTAL)
    return probabilities(q, k, np.tril(np.ones((TOTAL, TOTAL), bool)))[0]


def test_a_loop_longer_than_what_is_kept_of_every_head_is_one_map() -> None:
    (made,) = captured(Decoder(), *query_key_value(queries=TOTAL, keys=TOTAL), options=SHORT).maps
    assert made.shape == (4, TOTAL, TOTAL)
    assert made.mask == "causal"
    assert made.exactness.endswith("; 36 calls of a decoding loop, joined by position")
    summary = made.summaries[0]
    np.testing.assert_allclose(summary.maximum, expected(), atol=1e-3)
    entropy = -np.where(expected() > 0, expected() * np.log(np.maximum(expected(), 1e-30)), 0).sum(-1).mean(-1)
    np.testing.assert_allclose(summary.statistics["entropy"], entropy, atol=1e-5)
    assert summary.matrix is None
    (kept,) = summary.kept
    assert (kept.head, kept.codec) == (0, MATRIX)
    detail = attention_pb2.AttentionDetail(query_length=TOTAL, key_length=TOTAL)
    assert np.abs(decode_matrix(detail, kept.blob) - expected()[0]).max() < 1e-3


def test_the_positions_to_come_of_a_cache_of_full_size_are_left_out() -> None:
    q, k, v = query_key_value(queries=60, keys=60)
    (made,) = captured(Decoder(size=60), q, k, v, options=SHORT | {"detail_limit": 64}).maps
    assert made.shape == (4, TOTAL, TOTAL)
    truth = probabilities(q[:, :, :TOTAL], k[:, :, :TOTAL], np.tril(np.ones((TOTAL, TOTAL), bool)))[0]
    np.testing.assert_allclose(made.summaries[0].matrix, truth, atol=1e-3)


def test_memory_for_steps_that_wait_is_bounded_and_said(monkeypatch: Any) -> None:
    monkeypatch.setattr(model_attention, "_MOST_STEP_VALUES", 4 * sum(range(9, 21)))
    result = captured(Decoder(), *query_key_value(queries=TOTAL, keys=TOTAL), options=SHORT)
    assert result.maps[0].shape == (4, 20, 20)
    assert [made.shape for made in result.maps[1:]] == [(4, 1, keys) for keys in range(21, TOTAL + 1)]
    assert any("decoding steps are joined as far as" in note for note in result.notes)


class RollingDecoder(Decoder):
    """Keeps the keys of the last eight positions alone, as a sliding-window cache does."""

    def __init__(self, prompt: int) -> None:
        super().__init__()
        self.prompt = prompt

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
        for begin, end in [(0, self.prompt), *((at, at + 1) for at in range(self.prompt, TOTAL))]:
            first = max(0, end - 8) if begin else 0
            own, keys = torch.arange(begin, end)[:, None], torch.arange(first, end)[None, :]
            self.self_attention.attend(q[:, :, begin:end], k[:, :, first:end], v[:, :, first:end], own, keys)


class WindowedSelfAttention(nn.Module):
    is_causal = True

    def attend(self, *given: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self(*given)
        return result

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, own: torch.Tensor, keys: torch.Tensor
    ) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=(keys <= own) & (keys > own - 8))


@pytest.mark.parametrize("prompt", [3, 8, 13])
def test_a_rolling_window_is_one_map_of_all_positions(prompt: int) -> None:
    model = RollingDecoder(prompt)
    model.self_attention = WindowedSelfAttention()
    q, k, v = query_key_value(queries=TOTAL, keys=TOTAL)
    (made,) = captured(model, q, k, v, options={**SHORT, "detail_limit": 64}).maps
    assert made.shape == (4, TOTAL, TOTAL)
    assert made.mask == "sliding window of 8, causal"
    assert made.exactness.endswith(" over a cache of the last 8 positions, joined by position")
    near = np.tril(np.ones((TOTAL, TOTAL), bool)) & ~np.tril(np.ones((TOTAL, TOTAL), bool), -8)
    truth = probabilities(q, k, near)[0]
    matrix = made.summaries[0].matrix
    assert matrix is not None
    np.testing.assert_allclose(matrix, truth, atol=1e-3)
    statistics = made.summaries[0].statistics
    np.testing.assert_allclose(statistics["sink_mass"], truth[:, :, 0].mean(1), atol=1e-5)
    distance = np.abs(np.arange(TOTAL)[:, None] - np.arange(TOTAL)[None, :])
    np.testing.assert_allclose(statistics["distance"], (truth * distance).sum(-1).mean(1), atol=1e-4)


def test_a_rolling_window_is_joined_as_far_as_memory_allows_and_that_is_said(monkeypatch: Any) -> None:
    monkeypatch.setattr(stitch, "_MOST_ROLLED_VALUES", 4 * 20 * 20)
    model = RollingDecoder(8)
    model.self_attention = WindowedSelfAttention()
    result = captured(model, *query_key_value(queries=TOTAL, keys=TOTAL), options={**SHORT, "detail_limit": 64})
    assert result.maps[0].shape == (4, 20, 20)
    assert "as far as 1,600 probabilities reach (later calls are recorded each for itself)" in result.maps[0].exactness
    assert len(result.maps) == 1 + TOTAL - 20


def test_a_module_that_asks_the_same_keys_again_is_no_rolling_window() -> None:
    class Asks(Decoder):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
            for position in range(3):
                self.self_attention(q, k, v, 8 + position, 9 + position)

    model = Asks(8)
    assert len(captured(model, *query_key_value(queries=TOTAL, keys=TOTAL), options=SHORT).maps) == 3
