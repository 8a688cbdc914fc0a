"""Attention whose softmax is changed: padded, joined, mixed, renormalised, gated, or not quite a softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.unit.attention.capturing import Function, captured, query_key_value


def scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return q @ k.mT / 8**0.5


def with_one(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """exp(s) / (1 + Σ exp(s)), shifted by the largest score."""
    largest = scores(q, k).amax(-1, keepdim=True).clamp_min(0)
    powers = (scores(q, k) - largest).exp()
    return powers / (powers.sum(-1, keepdim=True) + (-largest).exp())


def top_four(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    p = scores(q, k).softmax(-1)
    p = torch.where(p >= p.topk(4, -1).values[..., -1:], p, 0.0)
    return p / p.sum(-1, keepdim=True)


def sharpened(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    p = scores(q, k).softmax(-1) ** 2
    return p / p.sum(-1, keepdim=True)


WEIGHTS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "one in the denominator": with_one,
    "a column of zeros": lambda q, k: F.pad(scores(q, k), (1, 0)).softmax(-1)[..., 1:],
    "the four largest": top_four,
    "squares": sharpened,
    "ellipsis": lambda q, k: torch.einsum("... i d, ... j d -> ... i j", q, k).softmax(-1),
}


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("name", WEIGHTS)
def test_what_multiplies_the_values_is_recorded(name: str, inference: bool) -> None:
    q, k, v = query_key_value(queries=7)
    product = (lambda p, v: torch.einsum("...ij,...jd->...id", p, v)) if name == "ellipsis" else torch.matmul
    with torch.inference_mode(inference):
        (made,) = captured(Function(lambda q, k, v: product(WEIGHTS[name](q, k), v)), q, k, v).maps
    assert made.probabilities is not None
    np.testing.assert_array_equal(made.probabilities, WEIGHTS[name](q, k).numpy())
    assert ("less than 1" in made.exactness) == (name in ("one in the denominator", "a column of zeros"))


def test_a_gate_after_the_softmax_is_said_and_dropout_is_none() -> None:
    q, k, v = query_key_value()
    gated = Function(lambda q, k, v: (scores(q, k).softmax(-1) * q.mean(-1, keepdim=True).sigmoid()) @ v)
    (made,) = captured(gated, q, k, v).maps
    assert made.exactness.endswith("the model changes it (scales, gates or masks it) before the values are read")
    by_hand = Function(lambda q, k, v: (scores(q, k).softmax(-1) * (torch.rand(9, 9) < 0.7).float().div(0.7)) @ v)
    for dropout in (by_hand, Function(lambda q, k, v: F.dropout(scores(q, k).softmax(-1), 0.3) @ v)):
        (made,) = captured(dropout, q, k, v).maps
        assert made.exactness == "exact: the model's own probabilities, before dropout"
        np.testing.assert_array_equal(made.probabilities, scores(q, k).softmax(-1).numpy())


def test_heads_mixed_by_a_convolution_are_talking_heads() -> None:
    q, k, v = query_key_value()
    before, after = nn.Conv2d(4, 4, 1, bias=False), nn.Conv2d(4, 4, 1, bias=False)
    model = Function(lambda q, k, v: after(before(scores(q, k)).softmax(-1)) @ v, before=before, after=after)
    (made,) = captured(model, q, k, v).maps
    np.testing.assert_array_equal(made.probabilities, before(scores(q, k)).softmax(-1).detach().numpy())
    assert made.exactness.endswith("the model mixes the heads after this (talking heads)")


def test_one_softmax_over_the_scores_of_rows_and_columns_is_no_matrix() -> None:
    """Criss-cross attention: a position sees its row and its column, keys of its own."""

    def criss_cross(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (tensor[:, 0].unflatten(1, (3, 3)) for tensor in (q, k, v))
        columns = torch.einsum("bhwd,bgwd->bhwg", q, k)
        rows = torch.einsum("bhwd,bhgd->bhwg", q, k)
        p = torch.cat([columns, rows], -1).softmax(-1)
        return torch.einsum("bhwg,bgwd->bhwd", p[..., :3], v) + torch.einsum("bhwg,bhgd->bhwd", p[..., 3:], v)

    result = captured(Function(criss_cross), *query_key_value())
    assert not result.maps
    assert "no product with the values reads its rows whole" in result.not_captured[""]
