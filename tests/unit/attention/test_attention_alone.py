"""Regions that record attention alone see the same attention, and keep no structure."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from tb_plugin_structure.capture import AttentionOptions, observe
from tb_plugin_structure.capture.attention import AttentionCapture


def model() -> nn.TransformerEncoder:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train()


def recorded(encoder: nn.Module, structures: bool) -> tuple[AttentionCapture, torch.Tensor, list[torch.Tensor]]:
    x = torch.randn(2, 9, 16, generator=torch.Generator().manual_seed(1))
    torch.manual_seed(2)
    encoder.zero_grad()
    options = AttentionOptions(keep_maps=True)
    with observe({"model": encoder}, attention=options, structures=structures) as region:
        output = encoder(x)
        output.sum().backward()
    assert bool(region.structures) == structures
    return region.attention["model"], output, [parameter.grad for parameter in encoder.parameters()]  # type: ignore[misc]


def test_the_same_maps_outputs_and_gradients_as_beside_a_structure() -> None:
    alone, output, gradients = recorded(model(), structures=False)
    beside, expected, expected_gradients = recorded(model(), structures=True)
    places = [(made.module_path, made.call_ordinal, made.ordinal) for made in alone.maps]
    assert places == [("layers.0.self_attn", 0, 0), ("layers.1.self_attn", 0, 0)]
    for made, other in zip(alone.maps, beside.maps, strict=True):
        assert made.probabilities is not None
        assert other.probabilities is not None
        np.testing.assert_array_equal(made.probabilities, other.probabilities)
    torch.testing.assert_close(output, expected, rtol=0, atol=0)
    torch.testing.assert_close(gradients, expected_gradients, rtol=0, atol=0)


def test_a_part_that_is_called_without_its_model_and_twice() -> None:
    encoder = model()
    x = torch.randn(1, 5, 16)
    with observe({"model": encoder}, attention=AttentionOptions(), structures=False) as region:
        encoder.layers[1](encoder.layers[1](x))
    calls = [(made.module_path, made.call_ordinal) for made in region.attention["model"].maps]
    assert calls == [("layers.1.self_attn", 0), ("layers.1.self_attn", 1)]
