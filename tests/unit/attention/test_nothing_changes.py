"""Recording attention changes no bit of what the model computes, draws or learns."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from tb_plugin_structure.capture import AttentionOptions, observe
from tests.unit.attention.capturing import Function, captured, query_key_value


class Block(nn.Module):
    def __init__(self, fused: bool, checkpointed: bool = False) -> None:
        super().__init__()
        self.qkv, self.out, self.fused, self.checkpointed = nn.Linear(16, 48), nn.Linear(16, 16), fused, checkpointed

    def _attend(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, 4)).permute(2, 0, 3, 1, 4)
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=0.3 if self.training else 0.0)
        else:
            mixed = F.dropout((q @ k.transpose(-1, -2) / 2).softmax(-1), 0.3, self.training) @ v
        return self.out(mixed.transpose(1, 2).flatten(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.checkpointed:
            return checkpoint(self._attend, x, use_reentrant=False)
        return self._attend(x)


def step(model: nn.Module, x: torch.Tensor, options: AttentionOptions | None) -> tuple[torch.Tensor, list[Any], Any]:
    torch.manual_seed(7)
    model.zero_grad()
    with observe({"model": model}, attention=options) as region:
        loss = model(x).square().sum()
        loss.backward()
    state = torch.random.get_rng_state()
    return loss.detach(), [parameter.grad.clone() for parameter in model.parameters()] + [state], region.attention


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("checkpointed", [False, True])
def test_loss_gradients_and_random_state_are_bit_equal(training: bool, fused: bool, checkpointed: bool) -> None:
    torch.manual_seed(0)
    model = Block(fused, checkpointed).train(training)
    x = torch.randn(3, 6, 16)
    plain_loss, plain, _ = step(model, x, None)
    loss, seen, attention = step(model, x, AttentionOptions())
    assert torch.equal(loss, plain_loss)
    assert all(torch.equal(a, b) for a, b in zip(seen, plain, strict=True))
    # Checkpointing runs the forward pass again inside the backward pass: that is not a second attention.
    assert len(attention["model"].maps) == 1


def test_modes_of_the_user_see_only_the_users_kernels() -> None:
    q, k, v = query_key_value()
    model = Function(lambda q, k, v: (q @ k.transpose(-1, -2)).softmax(-1) @ v)
    counts = []
    for options in (None, AttentionOptions()):
        with FlopCounterMode(display=False) as counter, observe({"model": model}, attention=options):
            model(q, k, v)
        counts.append(counter.get_total_flops())
    assert counts[0] == counts[1] > 0


def test_default_device_contexts_do_not_matter() -> None:
    q, k, v = query_key_value()
    model = Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    with torch.device("meta"):
        assert len(captured(model, q, k, v).maps) == 1


def test_autocast_is_stated() -> None:
    torch.manual_seed(0)
    with torch.autocast("cpu", torch.bfloat16):
        (made,) = captured(Block(True).eval(), torch.randn(3, 6, 16)).maps
    assert made.dtype == "bfloat16"


def test_a_failure_of_the_listener_is_a_reason_and_not_an_error() -> None:
    q, k, v = query_key_value()

    model = Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v))
    options = AttentionOptions(heads={"": ["not a number"]})  # type: ignore[dict-item]
    with observe({"model": model}, attention=options) as region:
        result = model(q, k, v)
    assert torch.equal(result, F.scaled_dot_product_attention(q, k, v))
    assert region.attention["model"].not_captured[""].startswith("reading it failed (TypeError")


def test_other_threads_are_left_alone() -> None:
    q, k, v = query_key_value()
    model = Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v))
    with observe({"model": model}, attention=AttentionOptions()) as region:
        thread = threading.Thread(target=lambda: model(q, k, v))
        thread.start()
        thread.join()
    assert region.attention["model"].maps == []


def test_meta_tensors_have_a_reason_instead_of_values() -> None:
    q, k, v = (tensor.to("meta") for tensor in query_key_value())
    got = captured(Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v)), q, k, v)
    assert got.not_captured == {"": "the model ran on meta or fake tensors: there are no values"}
