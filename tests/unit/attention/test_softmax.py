"""Attention written by hand: a softmax followed to the product with the values, and what only looks like it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.unit.attention.capturing import Function, captured, probabilities, query_key_value


def scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])


FORMS = {
    "matmul": lambda q, k, v: scores(q, k).softmax(-1) @ v,
    "einsum": lambda q, k, v: torch.einsum(
        "bhnm,bhmd->bhnd", torch.einsum("bhnd,bhmd->bhnm", q, k).div(math.sqrt(8)).softmax(-1), v
    ),
    "cast and clone": lambda q, k, v: F.softmax(scores(q, k), -1, dtype=torch.float64).to(q.dtype).clone() @ v,
    "dropout": lambda q, k, v: F.dropout(scores(q, k).softmax(-1), 0.4) @ v,
    "dropout in place": lambda q, k, v: F.dropout(scores(q, k).softmax(-1), 0.4, inplace=True) @ v,
    "transposed product": lambda q, k, v: v.transpose(-1, -2) @ scores(q, k).softmax(-1).transpose(-1, -2),
    "keys on rows": lambda q, k, v: v.transpose(-1, -2) @ scores(k, q).softmax(-2),
    "heads last": lambda q, k, v: torch.einsum(
        "bijh,bhjd->bihd", torch.einsum("bhid,bhjd->bijh", q, k).div(math.sqrt(8)).softmax(2), v
    ),
    "exp and sum": lambda q, k, v: (scores(q, k).exp() / scores(q, k).exp().sum(-1, keepdim=True)) @ v,
    "log softmax": lambda q, k, v: scores(q, k).log_softmax(-1).exp() @ v,
    "chunks of queries": lambda q, k, v: torch.cat(
        [part @ v for part in scores(q, k).softmax(-1).split(4, dim=-2)], -2
    ),
    "soft cap and zero bias": lambda q, k, v: ((scores(q, k) + 0).clamp(-1e4, 1e4)).softmax(-1) @ v,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_way_to_write_it(form: str) -> None:
    q, k, v = query_key_value(queries=7)
    (made,) = captured(Function(FORMS[form]), q, k, v).maps
    assert made.probabilities is not None
    np.testing.assert_allclose(made.probabilities, probabilities(q, k), atol=3e-7)


@pytest.mark.parametrize("form", FORMS)
def test_in_inference_mode_too(form: str) -> None:
    q, k, v = query_key_value(queries=7)
    with torch.inference_mode():
        (made,) = captured(Function(FORMS[form]), q, k, v).maps
    np.testing.assert_allclose(made.probabilities, probabilities(q, k), atol=3e-7)


def test_heads_folded_into_the_batch_are_unfolded_when_the_module_tells() -> None:
    q, k, v = query_key_value()
    model = Function(lambda q, k, v: torch.bmm(torch.bmm(q, k.transpose(1, 2)).div(math.sqrt(8)).softmax(-1), v))
    model.num_heads = 4
    (made,) = captured(model, *(tensor.flatten(0, 1) for tensor in (q, k, v))).maps
    assert made.probabilities.shape == (2, 4, 9, 9)
    np.testing.assert_allclose(made.probabilities, probabilities(q, k), atol=3e-7)


def test_the_values_before_dropout_are_kept() -> None:
    q, k, v = query_key_value()
    (made,) = captured(Function(FORMS["dropout"]), q, k, v).maps
    assert made.exactness == "exact: the model's own probabilities, before dropout"
    np.testing.assert_allclose(made.probabilities.sum(-1), 1.0, atol=1e-6)


def test_masked_scores_are_told_from_small_probabilities() -> None:
    q, k, v = query_key_value(batch=1)

    def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        hidden = torch.zeros(9, 9)
        hidden[:, 7:] = torch.finfo(torch.float32).min  # two padded keys
        hidden[3] = torch.finfo(torch.float32).min  # a row that sees nothing: uniform in the model itself
        return (scores(q, k) + hidden).softmax(-1) @ v

    (made,) = captured(Function(forward), q, k, v).maps
    summary = made.summaries[0]
    assert summary.padding.tolist() == [7, 8]
    assert summary.statistics["masked_rows"].tolist() == [1, 1, 1, 1]
    assert (made.probabilities[0, :, 3] == 0).all()
    counted = probabilities(q, k[:, :, :7])[0][:, [0, 1, 2, 4, 5, 6]]  # padded queries do not count either
    np.testing.assert_allclose(summary.statistics["top1_mass"], counted.max(-1).mean(-1), rtol=1e-5)


def test_large_negative_scores_are_no_mask() -> None:
    q, k, v = query_key_value()
    far = -1e4 * torch.ones(1, 1, 9, 1) * torch.arange(1, 10)[:, None]

    def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (scores(q, k) + far).softmax(-1) @ v  # rows of scores from -10,000 to -90,000

    (made,) = captured(Function(forward), q, k, v).maps
    assert made.summaries[0].statistics["masked_rows"].tolist() == [0, 0, 0, 0]
    np.testing.assert_allclose(made.probabilities.sum(-1), 1.0, atol=1e-6)


def test_attention_within_blocks_of_a_sequence_is_labelled() -> None:
    q, k, v = (torch.stack([tensor] * 3, 1).flatten(0, 1).unflatten(0, (2, 3)) for tensor in query_key_value())
    (made,) = captured(Function(FORMS["matmul"]), q, k, v, options={"example": 1, "keep_maps": False}).maps
    assert made.exactness.endswith("; block 1 of 3 (local attention)")
    np.testing.assert_allclose(made.summaries[1].maximum, probabilities(q, k)[1, 0], atol=3e-7)


def test_blocks_that_follow_the_heads_are_told_from_them() -> None:
    q, k, v = query_key_value(queries=12, keys=12)
    model = Function(lambda *given: FORMS["matmul"](*(tensor.view(2, 4, 3, 4, 8) for tensor in given)))
    model.num_heads = 4  # type: ignore[assignment]
    (made,) = captured(model, q, k, v, options={"example": 1, "keep_maps": False}).maps
    assert made.shape == (4, 4, 4)
    assert made.exactness.endswith("; block 1 of 3 (local attention)")
    first = probabilities(q[1, :, :4], k[1, :, :4])
    np.testing.assert_allclose(made.summaries[1].maximum, first, atol=3e-7)


@pytest.mark.parametrize("inference", [False, True])
def test_neighbourhood_attention_has_no_keys_in_common(inference: bool) -> None:
    def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        near, values = (F.pad(tensor, (0, 0, 2, 2)).unfold(2, 5, 1) for tensor in (k, v))
        weights = torch.einsum("bhnd,bhndw->bhnw", q, near).mul(0.5).softmax(-1)
        return torch.einsum("bhnw,bhndw->bhnd", weights, values)

    with torch.inference_mode(inference):
        result = captured(Function(forward), *query_key_value(queries=12, keys=12))
    assert result.maps == []
    assert "each of its 12 queries is compared with 5 keys of its own" in result.not_captured[""]


def test_a_single_query_whose_axis_was_dropped() -> None:
    q, k, v = query_key_value(queries=1)

    def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        weights = scores(q, k).squeeze(-2).softmax(-1)
        return weights.unsqueeze(-2) @ v

    model = Function(forward)
    model.num_heads = 4  # type: ignore[assignment]
    (made,) = captured(model, q, k, v).maps
    assert made.shape == (4, 1, 9)
    np.testing.assert_allclose(made.probabilities, probabilities(q, k), atol=3e-7)


def test_learned_sink_column_is_left_out_and_said() -> None:
    q, k, v = query_key_value()
    sink = nn.Parameter(torch.zeros(1, 4, 1, 1))

    def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        extended = torch.cat([scores(q, k), sink.expand(2, 4, 9, 1)], -1)
        return extended.softmax(-1)[..., :-1] @ v

    (made,) = captured(Function(forward), q, k, v).maps
    raw = np.exp(np.asarray(scores(q, k), np.float64))
    np.testing.assert_allclose(made.probabilities, raw / (raw.sum(-1, keepdims=True) + 1.0), atol=3e-7)
    assert "learned sink" in made.exactness


def test_differential_attention_gives_both_maps() -> None:
    q, k, v = query_key_value()

    def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Ye et al., "Differential transformer"."""
        first, second = scores(q[:, :2], k[:, :2]).softmax(-1), scores(q[:, 2:], k[:, 2:]).softmax(-1)
        return (first - 0.3 * second) @ v[:, :2]

    made = captured(Function(forward), q, k, v).maps
    expected = probabilities(q, k)
    for one, truth in zip(made, (expected[:, :2], expected[:, 2:]), strict=True):
        np.testing.assert_allclose(one.probabilities, truth, atol=3e-7)
        assert one.exactness.endswith("combines it with another softmax before the values are read")


def test_a_normalised_combination_of_softmaxes_is_recorded_itself() -> None:
    q, k, v = query_key_value()
    gate = nn.Parameter(torch.tensor(0.3))
    bias = torch.randn(1, 1, 9, 9, generator=torch.Generator().manual_seed(4))

    def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """d'Ascoli et al., "ConViT: improving vision transformers with soft convolutional inductive biases"."""
        return ((1 - gate) * scores(q, k).softmax(-1) + gate * (scores(q, k) * 0 + bias).softmax(-1)) @ v

    (made,) = captured(Function(forward), q, k, v).maps
    positional = np.exp(np.asarray(bias, np.float64))
    expected = 0.7 * probabilities(q, k) + 0.3 * positional / positional.sum(-1, keepdims=True)
    np.testing.assert_allclose(made.probabilities, expected, atol=3e-7)
    assert made.kernel == "a normalised combination of softmaxes"


def test_talking_heads_are_kept_before_the_second_mix_and_said() -> None:
    q, k, v = query_key_value()
    before, after = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)

    def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        mixed = before(scores(q, k).permute(0, 2, 3, 1)).permute(0, 3, 1, 2).softmax(-1)
        return after(mixed.permute(0, 2, 3, 1)).permute(0, 3, 1, 2) @ v

    (made,) = captured(Function(forward, before=before, after=after), q, k, v).maps
    mix = np.asarray(before.weight.detach(), np.float64)
    raw = np.exp(np.einsum("oh,bhnm->bonm", mix, np.asarray(scores(q, k), np.float64)))
    np.testing.assert_allclose(made.probabilities, raw / raw.sum(-1, keepdims=True), atol=1e-6)
    assert made.exactness.endswith("the model mixes the heads after this (talking heads)")


# ---- what is not attention


def nothing_from(model: nn.Module, *inputs: torch.Tensor) -> dict[str, str]:
    got = captured(model, *inputs)
    assert got.maps == []
    return got.not_captured


def test_a_classifier_is_not_attention() -> None:
    assert nothing_from(nn.Sequential(nn.Linear(16, 10), nn.Softmax(-1)), torch.randn(2, 5, 16)) == {}


@pytest.mark.parametrize("registered", [True, False])
def test_a_router_is_not_attention_and_is_named(registered: bool) -> None:
    gate, experts = nn.Linear(16, 4), torch.randn(4, 16, 16)
    model = Function(
        lambda x: torch.einsum("bne,edf,bnd->bnf", gate(x).softmax(-1), experts, x),
        **({"gate": gate} if registered else {}),
    )
    reasons = nothing_from(model, torch.randn(2, 5, 16))
    assert "its scores are no product of queries and keys" in reasons[""]


def test_linear_attention_says_that_there_is_no_matrix() -> None:
    class LinearAttention(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return (F.elu(q) + 1) @ ((F.elu(k) + 1).transpose(-1, -2) @ v)

    attention = LinearAttention()
    reasons = nothing_from(Function(lambda *x: attention(*x), attention=attention), *query_key_value())
    assert list(reasons) == ["attention"]


def test_quadratic_attention_without_normalisation_is_named() -> None:
    class Retention(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return scores(q, k).tril() @ v

    reasons = nothing_from(Retention(), *query_key_value())
    assert "not normalised, or only afterwards" in reasons[""]


def test_softmax_over_features_is_not_attention_over_positions() -> None:
    class EfficientAttention(nn.Module):
        """Shen et al., "Efficient attention: attention with linear complexities"."""

        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return q.softmax(-1) @ (k.softmax(-2).transpose(-1, -2) @ v)

    reasons = nothing_from(EfficientAttention(), *query_key_value())
    assert "factors of a product" in reasons[""]


def test_softmax_of_keys_alone_is_not_attention_over_positions() -> None:
    class FactorAttention(nn.Module):
        """Xu et al., "Co-scale conv-attentional image transformers"."""

        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return q @ (k.softmax(-2).transpose(-1, -2) @ v)

    assert "factors of a product" in nothing_from(FactorAttention(), *query_key_value())[""]


def test_a_banded_softmax_is_no_matrix_over_positions() -> None:
    q, k, v = query_key_value(keys=8, queries=8)

    class BandedAttention(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            rows = scores(q, k).softmax(-1)
            return rows[..., :4] @ v[..., :4, :] + rows[..., 4:] @ v[..., 4:, :]

    assert "reads its rows whole" in nothing_from(BandedAttention(), q, k, v)[""]


def test_contrastive_logits_that_no_product_reads_give_nothing() -> None:
    model = Function(lambda a, b: (a @ b.t()).softmax(-1).log().diagonal().mean())
    assert nothing_from(model, torch.randn(6, 8), torch.randn(6, 8)) == {}


def test_additive_attention_is_taken_by_its_name_and_said() -> None:
    class BahdanauAttention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.score = nn.Linear(8, 8), nn.Linear(8, 1)

        def forward(self, x: torch.Tensor) -> Any:
            weights = self.score(torch.tanh(self.inner(x))).squeeze(-1).softmax(-1)
            self.last = weights
            return weights.unsqueeze(1) @ x

    model = BahdanauAttention()
    (made,) = captured(model, torch.randn(3, 5, 8)).maps
    np.testing.assert_array_equal(made.probabilities.reshape(3, 5), model.last.detach().numpy())
    assert "taken for attention by its name" in made.exactness


def test_a_named_softmax_is_recorded_when_accepted() -> None:
    score = nn.Linear(8, 1)
    model = Function(lambda x: score(x).transpose(1, 2).softmax(-1) @ x, score=score)
    x = torch.randn(3, 5, 8)
    assert captured(model, x).maps == []
    (made,) = captured(model, x, options={"accept": ("",)}).maps
    assert made.shape == (1, 1, 5)


def test_channel_attention_is_labelled() -> None:
    class CrossCovariance(nn.Module):
        """El-Nouby et al., "XCiT: cross-covariance image transformers"."""

        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.num_heads = nn.Linear(32, 96), 4

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = self.qkv(x).reshape(2, 20, 3, 4, 8).permute(2, 0, 3, 4, 1)
            return (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-1, -2)).softmax(-1) @ v

    got = captured(CrossCovariance(), torch.randn(2, 20, 32))
    (made,) = got.maps
    assert (made.relation, made.shape) == ("channel", (4, 8, 8))
    assert [axis.kind for axis in got.overview().header.axes] == ["channels"]


@pytest.mark.parametrize("heads", [1, 4])
def test_one_query_of_each_example_is_no_sequence_of_queries(heads: int) -> None:
    """A memory network's hop, einsum("bnd,bd->bn"): the rows of its softmax are examples."""

    def hop(query: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        if heads == 1:
            weights = torch.einsum("bnd,bd->bn", memory[:, 0], query[:, 0, 0]).softmax(-1)
            return torch.einsum("bn,bnd->bd", weights, memory[:, 0])
        weights = torch.einsum("bhnd,bhd->bhn", memory, query[:, :, 0]).softmax(-1)
        return torch.einsum("bhn,bhnd->bhd", weights, memory)

    model = Function(hop)
    model.num_heads = heads  # type: ignore[assignment]
    query, memory, _ = query_key_value(batch=3, queries=1, keys=7)
    (made,) = captured(model, query, memory).maps
    assert made.shape == (heads, 1, 7)
    expected = probabilities(query[:, :heads], memory[:, :heads], scale=1.0)
    np.testing.assert_allclose(made.probabilities, expected, atol=1e-6)


def test_channels_of_a_convolution_that_attend_to_each_other_are_no_positions() -> None:
    """The channel attention of DANet has no weights but a scalar: what it gets is the map of a convolution."""
    convolution = nn.Conv2d(3, 8, 3)

    def forward(image: torch.Tensor) -> torch.Tensor:
        channels = convolution(image).flatten(2)
        return (channels @ channels.transpose(1, 2)).softmax(-1) @ channels

    (made,) = captured(Function(forward, convolution=convolution), torch.randn(2, 3, 8, 8)).maps
    assert (made.relation, made.shape) == ("channel", (1, 8, 8))
