"""scaled_dot_product_attention in all its forms, against float64 arithmetic in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.unit.attention.capturing import Function, captured, probabilities, query_key_value

CAUSAL = np.tril(np.ones((9, 9), bool))


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **options: object) -> tuple[np.ndarray, object]:
    model = Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options)).eval()
    (made,) = captured(model, query, key, value).maps
    assert made.probabilities is not None
    return made.probabilities, made


def test_plain() -> None:
    q, k, v = query_key_value()
    got, made = attend(q, k, v)
    np.testing.assert_allclose(got, probabilities(q, k), atol=3e-7)
    assert (made.mask, made.dtype, made.relation) == ("none", "float32", "self")
    assert made.exactness == "float32 recomputation from query and key"


def test_causal() -> None:
    q, k, v = query_key_value()
    got, made = attend(q, k, v, is_causal=True)
    np.testing.assert_allclose(got, probabilities(q, k, CAUSAL), atol=3e-7)
    assert made.mask == "causal"


def test_causal_with_more_keys_than_queries_is_aligned_at_the_first_key() -> None:
    q, k, v = query_key_value(queries=3)
    got, _ = attend(q, k, v, is_causal=True)
    assert got.shape == (2, 4, 3, 9)
    np.testing.assert_allclose(got, probabilities(q, k, np.tril(np.ones((3, 9), bool))), atol=3e-7)


def test_boolean_mask_that_lacks_the_head_axis() -> None:
    q, k, v = query_key_value()
    mask = torch.rand(2, 1, 9, 9, generator=torch.Generator().manual_seed(3)) > 0.4
    mask[..., 0] = True
    got, _ = attend(q, k, v, attn_mask=mask)
    np.testing.assert_allclose(got, probabilities(q, k, mask), atol=3e-7)


def test_additive_mask_per_head() -> None:
    q, k, v = query_key_value()
    bias = torch.randn(1, 4, 9, 9, generator=torch.Generator().manual_seed(3))
    got, made = attend(q, k, v, attn_mask=bias)
    np.testing.assert_allclose(got, probabilities(q, k, bias), atol=3e-7)
    assert made.mask == "additive"


def test_an_additive_causal_mask_is_recognised() -> None:
    q, k, v = query_key_value()
    _, made = attend(q, k, v, attn_mask=torch.zeros(9, 9).masked_fill(~torch.from_numpy(CAUSAL), float("-inf")))
    assert made.mask == "additive: causal"


def test_a_sliding_window_is_recognised() -> None:
    q, k, v = query_key_value()
    window = CAUSAL & ~np.tril(np.ones((9, 9), bool), -3)
    _, made = attend(q, k, v, attn_mask=torch.from_numpy(window))
    assert made.mask == "additive: sliding window of 3, causal"


def test_a_fully_masked_row_is_zero_and_counted_and_left_out_of_means() -> None:
    q, k, v = query_key_value()
    mask = torch.ones(9, 9, dtype=torch.bool)
    mask[4] = False
    got, made = attend(q, k, v, attn_mask=mask)
    assert (got[:, :, 4] == 0).all()
    statistics = made.summaries[0].statistics
    assert statistics["masked_rows"].tolist() == [1, 1, 1, 1]
    others = np.delete(probabilities(q, k)[0], 4, axis=1)
    np.testing.assert_allclose(statistics["entropy"], -(others * np.log(others)).sum(-1).mean(-1), rtol=1e-5)


def test_scale() -> None:
    q, k, v = query_key_value()
    got, _ = attend(q, k, v, scale=0.9)
    np.testing.assert_allclose(got, probabilities(q, k, scale=0.9), atol=3e-7)


def test_grouped_queries_use_the_key_head_of_their_group() -> None:
    q, k, v = query_key_value(heads=8, key_heads=2)
    got, made = attend(q, k, v, enable_gqa=True)
    np.testing.assert_allclose(got, probabilities(q, np_repeat(k)), atol=3e-7)
    assert (made.heads, made.key_heads) == (8, 2)


def np_repeat(key: torch.Tensor) -> torch.Tensor:
    return torch.stack([key[:, 0]] * 4 + [key[:, 1]] * 4, 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_dtypes_are_recomputed_in_float32_from_what_the_kernel_got(dtype: torch.dtype) -> None:
    q, k, v = (tensor.to(dtype) for tensor in query_key_value())
    got, made = attend(q, k, v)
    np.testing.assert_allclose(got, probabilities(q, k), atol=1e-6)
    assert made.exactness == f"float32 recomputation of a {str(dtype)[6:]} kernel from its query and key"


def test_dropout_is_not_part_of_the_probabilities() -> None:
    q, k, v = query_key_value()
    model = Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)).train()
    (made,) = captured(model, q, k, v).maps
    np.testing.assert_allclose(made.probabilities.sum(-1), 1.0, atol=1e-6)


def test_inference_mode_shows_the_composite_operator_and_is_captured_once() -> None:
    q, k, v = query_key_value()
    model = Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v))
    with torch.inference_mode():
        (made,) = captured(model, q, k, v).maps
    np.testing.assert_allclose(made.probabilities, probabilities(q, k), atol=3e-7)


def test_more_than_four_dimensions() -> None:
    q, k, v = (tensor.unflatten(0, (1, 2)) for tensor in query_key_value())
    got, _ = attend(q, k, v)
    np.testing.assert_allclose(got, probabilities(q, k)[0], atol=3e-7)


def test_math_kernel_is_seen_as_softmax() -> None:
    q, k, v = query_key_value()
    got, made = attend(q, k, v[..., :4], is_causal=True)
    np.testing.assert_allclose(got, probabilities(q, k, CAUSAL), atol=3e-7)
    assert made.kernel == "aten._safe_softmax.default"
    assert made.mask == "causal"


def test_an_example_of_a_nested_batch() -> None:
    q, k, v = query_key_value(batch=1)
    short = [tensor[:, :, :5] for tensor in (q, k, v)]

    def ragged(*pair: torch.Tensor) -> torch.Tensor:
        rows = [tensor[0].transpose(0, 1) for tensor in pair]
        return torch.nested.nested_tensor(rows, layout=torch.jagged).transpose(1, 2)

    def forward() -> torch.Tensor:
        inputs = [ragged(*pair) for pair in zip((q, k, v), short, strict=True)]
        return F.scaled_dot_product_attention(*inputs).transpose(1, 2).values()

    model = Function(forward)
    with torch.inference_mode():
        capture = captured(model, options={"example": 1})
    (made,) = capture.maps
    assert made.probabilities is not None
    np.testing.assert_allclose(made.probabilities, probabilities(short[0], short[1]), atol=1e-6)
    assert "example 1 of a nested batch of 2" in made.exactness


def test_the_softmax_of_a_nested_batch_says_why_it_is_not_read() -> None:
    one = torch.nested.nested_tensor([torch.randn(4, 5, 8), torch.randn(4, 3, 8)])
    model = Function(lambda: torch.softmax(one @ one.transpose(-1, -2), -1) @ one)
    capture = captured(model)
    assert capture.maps == []
    assert "nested batch" in capture.not_captured[""]
