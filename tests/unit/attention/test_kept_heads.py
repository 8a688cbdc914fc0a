"""Full resolution of heads of long sequences: which form is chosen, and that its stated error holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from tb_plugin_structure.capture.attention.kept import MATRIX, QUERY_KEY, ROWS, TILES, KeptHead, add_details, keep_head
from tb_plugin_structure.capture.attention.kernels import FusedArguments
from tb_plugin_structure.capture.attention.sources import MatrixSource, QueryKeySource
from tb_plugin_structure.records.attention import decode_detail_header, encode_detail
from tb_plugin_structure.records.attention_details import StoredHead, open_head
from tb_plugin_structure.records.table import Array
from tb_plugin_structure.v1 import attention_pb2
from tests.unit.attention.capturing import Function, captured, probabilities, query_key_value

N = 300


def reopened(kept: KeptHead | list[KeptHead], head: int, queries: int = N, keys: int = N) -> StoredHead:
    """Through a record and back."""
    header, blobs = attention_pb2.AttentionDetailHeader(), []
    add_details(header, blobs, kept if isinstance(kept, list) else [kept], queries, keys, {"module_path": "layer"})
    stored = encode_detail(header, blobs)
    details = decode_detail_header(stored).details
    return open_head(next(detail for detail in details if head in detail.heads), head, stored.__getitem__)


def whole(head: StoredHead) -> Array:
    return head.window(slice(0, head.queries), slice(0, head.keys))


def in_numpy(q: Any, k: Any, change: Callable[[Array, Array, Array], Array]) -> Array:
    """softmax of changed scores of example 0, head 1, in float64; rows without a key are 0."""
    query, key = np.asarray(q[0, 1].float(), np.float64), np.asarray(k[0, min(1, k.shape[1] - 1)].float(), np.float64)
    i, j = np.arange(len(query))[:, None], np.arange(len(key))[None, :]
    scores = change(query @ key.T / np.sqrt(query.shape[1]), i, j)
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return np.nan_to_num(powers / powers.sum(-1, keepdims=True))


def hide(where: Callable[[Array, Array], Array]) -> Callable[[Array, Array, Array], Array]:
    return lambda scores, i, j: np.where(where(i, j), scores, -np.inf)


PADDED = torch.ones(N, dtype=torch.bool)
PADDED[:20] = False
LEFT_PADDED_CAUSAL = (torch.ones(N, N, dtype=torch.bool).tril() & PADDED)[None, None]
CLOSED_FORMS: dict[str, tuple[dict[str, Any], Callable[[Array, Array, Array], Array]]] = {
    "no mask": ({}, lambda scores, i, j: scores),
    "causal": ({"causal": "top_left"}, hide(lambda i, j: j <= i)),
    "sliding window": ({"causal": "bottom_right", "window": (40, 0)}, hide(lambda i, j: (j <= i) & (j >= i - 40))),
    "window on both sides": ({"window": (9, 5)}, hide(lambda i, j: (j <= i + 5) & (j >= i - 9))),
    "padded keys": ({"mask": PADDED[None, None, None]}, hide(lambda i, j: (j >= 20) & (i >= 0))),
    "causal behind padding": ({"mask": LEFT_PADDED_CAUSAL}, hide(lambda i, j: (j >= 20) & (j <= i))),
    "the same as numbers": (
        {"mask": torch.zeros(1, 1, N, N).masked_fill(~LEFT_PADDED_CAUSAL, torch.finfo(torch.float32).min)},
        hide(lambda i, j: (j >= 20) & (j <= i)),
    ),
    "two packed sequences": (
        {"mask": (torch.arange(N)[:, None] < 130) == (torch.arange(N)[None, :] < 130)},
        hide(lambda i, j: (i < 130) == (j < 130)),
    ),
    "scale and soft cap": ({"scale": 0.5, "softcap": 2.0}, lambda s, i, j: 2 * np.tanh(s * np.sqrt(16) * 0.5 / 2)),
    "ALiBi": ({"alibi_slopes": torch.tensor([0.0, 0.3, 0.1, 0.2])}, lambda s, i, j: s - 0.3 * np.abs(i - j)),
}


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_masks_with_a_closed_form_are_kept_as_query_and_key(name: str) -> None:
    arguments, change = CLOSED_FORMS[name]
    q, k, _ = query_key_value(queries=N, keys=N, width=16)
    kept = keep_head(QueryKeySource(FusedArguments(q, k, **arguments)), 0, 1)
    assert kept is not None
    assert kept.codec == QUERY_KEY
    head = reopened(kept, 1)
    expected = in_numpy(q, k, change)
    assert np.abs(whole(head) - expected).max() <= 1e-3
    np.testing.assert_allclose(whole(head).sum(-1), expected.sum(-1), atol=5e-6)
    assert head.rows_stored is None


def test_a_learned_sink_is_in_the_log_sum_exp_so_that_rows_sum_to_less_than_one() -> None:
    q, k, _ = query_key_value(queries=N, keys=N, width=16)
    kept = keep_head(QueryKeySource(FusedArguments(q, k, sinks=torch.full((4,), 5.0))), 0, 1)
    assert kept is not None
    assert kept.codec == QUERY_KEY
    query, key = np.asarray(q[0, 1], np.float64), np.asarray(k[0, 1], np.float64)
    powers = np.exp(query @ key.T / 4)
    expected = powers / (powers.sum(-1, keepdims=True) + np.exp(5.0))
    assert np.abs(whole(reopened(kept, 1)) - expected).max() <= 1e-3


def test_bfloat16_is_kept_as_it_is() -> None:
    q, k, _ = (x.bfloat16() for x in query_key_value(queries=N, keys=N, width=16))
    kept = keep_head(QueryKeySource(FusedArguments(q, k)), 0, 1)
    assert kept is not None
    assert kept.form is not None
    assert kept.form.dtype == "bfloat16"
    np.testing.assert_allclose(whole(reopened(kept, 1)), in_numpy(q, k, lambda s, i, j: s), atol=1e-6)


def test_heads_of_a_group_share_their_keys() -> None:
    q, k, _ = query_key_value(heads=4, key_heads=2, queries=N, keys=N, width=16)
    source = QueryKeySource(FusedArguments(q, k))
    kept = [head for head in (keep_head(source, 0, number) for number in range(4)) if head is not None]
    header, blobs = attention_pb2.AttentionDetailHeader(), []
    add_details(header, blobs, kept, N, N, {})
    (detail,) = header.details
    assert len(blobs) == 4 + 2
    assert list(detail.form.key_blobs) == [5, 5, 6, 6]
    expected = probabilities(q, k.repeat_interleave(2, 1))[0]
    for number in range(4):
        assert np.abs(whole(reopened(kept, number)) - expected[number]).max() <= 1e-3


def test_flex_attention_with_a_mask_function_has_a_closed_form() -> None:
    q, k, v = query_key_value(batch=1, queries=N, keys=N, width=16)

    def keep(b: Any, h: Any, i: Any, j: Any) -> Any:
        return (j <= i) & (i - j < 50)

    block_mask = create_block_mask(keep, None, None, N, N, device="cpu")
    got = captured(
        Function(lambda q, k, v: flex_attention(q, k, v, block_mask=block_mask)),
        *(q, k, v),
        options={"example": 0, "keep_maps": False, "watch": {"*": [1]}},
    )
    (_, kept), *_ = got.kept_heads()
    assert kept.codec == QUERY_KEY
    expected = in_numpy(q, k, hide(lambda i, j: (j <= i) & (i - j < 50)))
    assert np.abs(whole(reopened(kept, 1)) - expected).max() <= 1e-3


@pytest.mark.parametrize(
    "arguments",
    [
        {"mask": torch.randn(1, 1, N, N)},  # a bias
        {"mask": torch.rand(N, N, generator=torch.Generator().manual_seed(2)) > 0.5},  # gaps
        {"score_change": lambda scores, example, heads, rows: scores * 1.5},
    ],
    ids=["bias", "gaps", "score function"],
)
def test_without_a_closed_form_tiles_are_kept(arguments: dict[str, Any]) -> None:
    q, k, _ = query_key_value(queries=N, keys=N, width=16)
    source = QueryKeySource(FusedArguments(q, k, **arguments))
    kept = keep_head(source, 0, 1)
    assert kept is not None
    assert kept.codec == TILES
    expected = source.rows(0, [1], torch.arange(N)).probabilities[0].numpy()
    head = reopened(kept, 1)
    assert (np.abs(whole(head) - expected).max(1) <= expected.max(1) / 255).all()
    part = head.window(slice(250, 270), slice(200, 300))  # over the corner of four tiles
    np.testing.assert_array_equal(part, whole(head)[250:270, 200:300])


def test_values_that_do_not_fit_into_half_precision_are_noticed_when_written() -> None:
    q, k, _ = query_key_value(queries=N, keys=N, width=16)
    kept = keep_head(QueryKeySource(FusedArguments(q * 1e5, k * 1e-5)), 0, 1)
    assert kept is not None
    assert kept.codec == TILES


def test_large_scores_lose_too_much_in_half_precision_and_are_noticed() -> None:
    q, k, _ = query_key_value(queries=N, keys=N, width=16)
    kept = keep_head(QueryKeySource(FusedArguments(q * 6, k * 6)), 0, 1)
    assert kept is not None
    assert kept.codec == TILES


def test_the_matrix_is_smaller_up_to_five_positions_a_value() -> None:
    q, k, _ = query_key_value(queries=N, keys=N, width=64)
    kept = keep_head(QueryKeySource(FusedArguments(q, k)), 0, 1)
    assert kept is not None
    assert kept.codec == MATRIX
    assert np.abs(whole(reopened(kept, 1)) - probabilities(q, k)[0, 1]).max() <= 2.5e-4


def test_a_model_that_made_its_own_matrix_has_tiles() -> None:
    matrix = torch.randn(1, 2, N, N).softmax(-1)
    kept = keep_head(MatrixSource(matrix, width=16), 0, 1)
    assert kept is not None
    assert kept.codec == TILES


def test_chosen_query_rows_are_kept_in_half_precision() -> None:
    q, k, v = query_key_value(batch=1, queries=N, keys=N, width=16)
    got = captured(
        Function(F.scaled_dot_product_attention),
        *(q, k, v),
        options={"example": 0, "keep_maps": False, "query_rows": [3, 299], "watch": {"*": [1, 2]}},
    )
    assert [(kept.head, kept.codec, list(kept.rows)) for _, kept in got.kept_heads()] == [
        (1, ROWS, [3, 299]),
        (2, ROWS, [3, 299]),
    ]
    head = reopened([kept for _, kept in got.kept_heads()], 2)
    stored, expected = whole(head), probabilities(q, k)[0, 2]
    assert np.abs(stored[[3, 299]] - expected[[3, 299]]).max() <= 2.5e-4
    assert np.isnan(stored[4]).all()
    assert head.rows_stored is not None
    assert head.rows_stored.tolist() == [3, 299]


def test_of_131072_positions_a_few_rows_are_kept() -> None:
    torch.manual_seed(0)
    q, k = torch.randn(1, 1, 131_072, 16), torch.randn(1, 1, 131_072, 16)
    kept = keep_head(QueryKeySource(FusedArguments(q, k, causal="top_left")), 0, 0)
    assert kept is not None
    assert (kept.codec, len(kept.rows)) == (ROWS, 4)
    assert len(kept.blob) < 2 << 20


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_nothing_is_kept_of_nothing(shape: tuple[int, int]) -> None:
    q, k = torch.randn(1, 1, shape[0], 8), torch.randn(1, 1, shape[1], 8)
    assert keep_head(QueryKeySource(FusedArguments(q, k)), 0, 0) is None


def test_one_query_over_many_keys() -> None:
    q, k = torch.randn(1, 1, 1, 8), torch.randn(1, 1, N, 8)
    kept = keep_head(QueryKeySource(FusedArguments(q, k)), 0, 0)
    assert kept is not None
    assert np.abs(whole(reopened(kept, 0, queries=1)) - probabilities(q, k)[0, 0]).max() <= 1e-3
