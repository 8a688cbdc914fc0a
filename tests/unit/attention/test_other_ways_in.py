"""log_attention, kernels that nobody described, FlexAttention, transformers' interface, compiled models."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tb_plugin_structure.capture import AttentionOptions, log_attention, observe
from tb_plugin_structure.capture.attention import FusedArguments, attention_kernel
from tb_plugin_structure.v1 import attention_pb2
from tests.unit.attention.capturing import Function, captured, probabilities, query_key_value


@torch.library.custom_op("tb_plugin_structure_tests::flash", mutates_args=())
def flash(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """Stands for a foreign kernel: [batch, positions, heads, width], softcapped scores that nobody is told about."""
    scores = torch.einsum("bnhd,bmhd->bhnm", q, k) / q.shape[-1] ** 0.5
    scores = 2.0 * torch.tanh(scores / 2.0)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
    return torch.einsum("bhnm,bmhd->bnhd", scores.softmax(-1), v).contiguous()


@torch.library.custom_op("tb_plugin_structure_tests::described", mutates_args=())
def described(first: torch.Tensor, second: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(first, second, values)


@attention_kernel("tb_plugin_structure_tests::described")
def _described(arguments: dict[str, torch.Tensor]) -> FusedArguments:
    return FusedArguments(arguments["first"], arguments["second"])


@torch.library.custom_op("tb_plugin_structure_tests::not_attention", mutates_args=())
def not_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return q * k + v


def test_an_unknown_kernel_is_read_off_with_one_hot_values() -> None:
    q, k, v = (tensor.transpose(1, 2).contiguous() for tensor in query_key_value(queries=13, keys=13))
    model = Function(lambda q, k, v: flash(q, k, v, True)).eval()
    (made,) = captured(model, q, k, v).maps
    scores = np.einsum("bnhd,bmhd->bhnm", np.asarray(q, np.float64), np.asarray(k, np.float64)) / 8**0.5
    capped = np.exp(np.where(np.tril(np.ones((13, 13))) > 0, 2 * np.tanh(scores / 2), -np.inf))
    np.testing.assert_allclose(made.probabilities, capped / capped.sum(-1, keepdims=True), atol=1e-6)
    assert made.route == attention_pb2.ATTENTION_ROUTE_PROBE


def test_a_kernel_with_the_same_argument_names_that_is_no_attention() -> None:
    tensors = [tensor.transpose(1, 2).contiguous() for tensor in query_key_value()]
    got = captured(Function(not_attention).eval(), *tensors)
    assert got.maps == []
    assert "one-hot values did not give back" in got.not_captured[""]


def test_the_probe_can_be_refused_and_does_not_run_in_training() -> None:
    tensors = [tensor.transpose(1, 2).contiguous() for tensor in query_key_value()]
    model = Function(lambda q, k, v: flash(q, k, v, False))
    refused = captured(model.eval(), *tensors, options={"probe": False})
    assert "describe it with attention_kernel" in refused.not_captured[""]
    assert "in eval mode only" in captured(model.train(), *tensors).not_captured[""]


def test_a_described_kernel() -> None:
    q, k, v = query_key_value()
    (made,) = captured(Function(described), q, k, v).maps
    np.testing.assert_allclose(made.probabilities, probabilities(q, k), atol=3e-7)
    assert made.kernel == "tb_plugin_structure_tests.described.default"


# ---- log_attention


def test_explicit_probabilities() -> None:
    given = torch.rand(2, 3, 4, 5).softmax(-1)
    inner = Function(lambda x: log_attention("routing", given) or x + 1)
    (made,) = captured(Function(lambda x: inner(x * 1), inner=inner), torch.ones(2)).maps
    np.testing.assert_array_equal(made.probabilities, given.numpy())
    assert made.module_path.endswith("routing")
    assert made.route == attention_pb2.ATTENTION_ROUTE_EXPLICIT


def test_explicit_query_and_key() -> None:
    q, k, _ = query_key_value(heads=4, key_heads=2)
    model = Function(lambda x: log_attention("mine", query=q, key=k, causal=True) or x * 2)
    (made,) = captured(model, torch.ones(2)).maps
    repeated = k.repeat_interleave(2, 1)
    np.testing.assert_allclose(
        made.probabilities, probabilities(q, repeated, np.tril(np.ones((9, 9), bool))), atol=3e-7
    )


def test_outside_a_region_nothing_happens() -> None:
    log_attention("routing", torch.rand(1, 1, 2, 2))


def test_wrong_calls_name_what_is_expected() -> None:
    with pytest.raises(ValueError, match="give either probabilities, or query and key"):
        log_attention("routing")
    with pytest.raises(ValueError, match=r"have shape \[3\], expected \[batch, heads, queries, keys\]"):
        log_attention("routing", torch.rand(3))


# ---- FlexAttention


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_with_score_and_mask_functions() -> None:
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    q, k, v = query_key_value(queries=16, keys=16)
    slopes = torch.linspace(0.1, 0.4, 4)
    block = flex.create_block_mask(lambda b, h, i, j: (i >= j) & (i - j < 6), None, None, 16, 16, device="cpu")
    model = Function(
        lambda q, k, v: flex.flex_attention(
            q, k, v, score_mod=lambda s, b, h, i, j: s - slopes[h] * (i - j).abs(), block_mask=block
        )
    )
    with torch.no_grad():
        plain = model(q, k, v)
    chosen = AttentionOptions(example="all", keep_maps=True)
    with torch.no_grad(), observe({"model": model}, attention=chosen) as region:
        seen = model(q, k, v)
    (made,) = region.attention["model"].maps
    i, j = np.arange(16)[:, None], np.arange(16)[None, :]
    bias = np.where((i >= j) & (i - j < 6), -np.asarray(slopes)[:, None, None] * np.abs(i - j), -np.inf)
    np.testing.assert_allclose(made.probabilities, probabilities(q, k, bias), atol=3e-7)
    torch.testing.assert_close(seen, plain)


def test_compiled_models_are_recorded() -> None:
    q, k, v = query_key_value()
    model = torch.compile(Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v)), backend="aot_eager")
    (made,) = captured(model, q, k, v).maps
    np.testing.assert_allclose(made.probabilities, probabilities(q, k), atol=3e-7)


def test_a_module_that_looks_like_attention_but_shows_nothing_has_a_reason() -> None:
    class MyAttention(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.cumsum(1)

    inner = MyAttention()
    got = captured(Function(lambda x: inner(x), layer=inner), torch.randn(2, 5, 8))
    assert got.not_captured == {
        "layer": "no softmax, fused kernel or product of queries with keys was seen in this layer"
    }


def test_excluded_modules_are_left_alone() -> None:
    q, k, v = query_key_value()
    got = captured(
        Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v)), q, k, v, options={"exclude": ("",)}
    )
    assert got.not_captured == {"": "left out by AttentionOptions.exclude"}
