"""nn.MultiheadAttention and nn.TransformerEncoder, whose fast path shows neither queries nor probabilities."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.unit.attention.capturing import captured


def attention_weights(module: nn.MultiheadAttention, *inputs: torch.Tensor, **options: object) -> np.ndarray:
    """The module's own per-head weights, computed on its slow path."""
    with torch.no_grad():
        weights: torch.Tensor = module(*inputs, need_weights=True, average_attn_weights=False, **options)[1]
    return weights.numpy()


def padding(batch: int = 2, length: int = 7) -> torch.Tensor:
    hidden = torch.zeros(batch, length, dtype=torch.bool)
    hidden[1, 5:] = True
    return hidden


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_multi_head_attention(need_weights: bool, training: bool) -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(16, 4, dropout=0.2 if training else 0.0, batch_first=True)
    x = torch.randn(2, 7, 16)
    expected = attention_weights(module.eval(), x, x, x)
    (made,) = captured(module.train(training), x, x, x, need_weights=need_weights).maps
    np.testing.assert_allclose(made.probabilities, expected, atol=3e-7)
    assert (made.heads, made.relation) == (4, "self")


def test_multi_head_attention_with_sequence_first_and_padded_keys_of_another_width() -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(16, 4, kdim=12, vdim=12).eval()
    x, y = torch.randn(5, 2, 16), torch.randn(7, 2, 12)
    (made,) = captured(module, x, y, y, key_padding_mask=padding(), need_weights=False).maps
    np.testing.assert_allclose(
        made.probabilities, attention_weights(module, x, y, y, key_padding_mask=padding()), atol=3e-7
    )


def test_added_bias_and_zero_keys_are_further_columns() -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(16, 4, batch_first=True, add_bias_kv=True, add_zero_attn=True).eval()
    x = torch.randn(2, 7, 16)
    (made,) = captured(module, x, x, x, need_weights=False).maps
    assert made.shape == (4, 7, 9)
    np.testing.assert_allclose(made.probabilities, attention_weights(module, x, x, x), atol=3e-7)


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layers_on_the_fast_path(norm_first: bool) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(2, 7, 16)
    got = captured(model, x)
    assert [made.kernel for made in got.maps] == ["aten._transformer_encoder_layer_fwd.default"] * 2
    hidden = x
    for made, block in zip(got.maps, model.layers, strict=True):
        attended = block.norm1(hidden) if norm_first else hidden
        np.testing.assert_allclose(made.probabilities, attention_weights(block.self_attn, *[attended] * 3), atol=1e-6)
        with torch.no_grad():
            hidden = block(hidden)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_padded_batches_on_the_fast_path_have_no_rows_for_padding() -> None:
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 1).eval()
    x = torch.randn(2, 7, 16)
    with torch.no_grad():
        plain = model(x, src_key_padding_mask=padding())
    got = captured(model, x, src_key_padding_mask=padding())
    (made,) = got.maps
    expected = attention_weights(model.layers[0].self_attn, x, x, x, key_padding_mask=padding())
    np.testing.assert_allclose(made.probabilities[0], expected[0], atol=3e-7)
    np.testing.assert_allclose(made.probabilities[1, :, :5], expected[1, :, :5], atol=3e-7)
    assert (made.probabilities[1, :, 5:] == 0).all()
    assert made.summaries[1].statistics["masked_rows"].tolist() == [2, 2, 2, 2]
    with torch.no_grad():
        assert torch.equal(model(x, src_key_padding_mask=padding()), plain)


def test_fused_multi_head_attention_with_masks() -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    x = torch.randn(2, 7, 16)
    causal = nn.Transformer.generate_square_subsequent_mask(7)
    for options in (
        {"key_padding_mask": padding()},
        {"attn_mask": causal},
        {"attn_mask": causal, "key_padding_mask": padding().float().masked_fill(padding(), float("-inf"))},
    ):
        (made,) = captured(module, x, x, x, need_weights=False, **options).maps
        np.testing.assert_allclose(made.probabilities, attention_weights(module, x, x, x, **options), atol=3e-7)


def test_encoder_and_decoder_name_self_and_cross_attention() -> None:
    torch.manual_seed(0)
    model = nn.Transformer(16, 4, 1, 1, 32, batch_first=True).eval()
    mask = model.generate_square_subsequent_mask(5)
    got = captured(model, torch.randn(2, 7, 16), torch.randn(2, 5, 16), tgt_mask=mask)
    assert [(made.module_path, made.relation, made.query_length, made.key_length) for made in got.maps] == [
        ("encoder.layers.0.self_attn", "self", 7, 7),
        ("decoder.layers.0.self_attn", "self", 5, 5),
        ("decoder.layers.0.multihead_attn", "cross", 5, 7),
    ]
    assert got.not_captured == {}
