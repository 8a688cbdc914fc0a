"""Captures attention of one pass, and computes probabilities a second way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from tb_plugin_structure.capture import AttentionOptions, observe
from tb_plugin_structure.capture.attention import AttentionCapture
from tb_plugin_structure.records.table import Array


class Function(nn.Module):
    """A module whose forward is a given function."""

    def __init__(self, function: Callable[..., Any], **children: nn.Module) -> None:
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def captured(
    model: nn.Module, *args: Any, grad: bool = False, options: dict[str, Any] | None = None, **kwargs: Any
) -> AttentionCapture:
    """All examples in float32 unless `options` say otherwise."""
    chosen = AttentionOptions(**{"example": "all", "keep_maps": True, **(options or {})})
    with torch.set_grad_enabled(grad), observe({"model": model}, attention=chosen) as region:
        model(*args, **kwargs)
    return region.attention["model"]


def probabilities(query: Any, key: Any, mask: Any = None, scale: float | None = None) -> Array:
    """softmax(scale · q kᵀ + mask) in float64 with numpy alone; a boolean mask keeps where it is True."""
    q, k = np.asarray(query.float(), np.float64), np.asarray(key.float(), np.float64)
    scores = q @ np.swapaxes(k, -1, -2) * (scale or 1 / np.sqrt(q.shape[-1]))
    if mask is not None:
        mask = np.asarray(mask)
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        result: Array = powers / powers.sum(-1, keepdims=True)
    return result


def query_key_value(
    batch: int = 2, heads: int = 4, key_heads: int = 4, queries: int = 9, keys: int = 9, width: int = 8
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return (
        torch.randn(batch, heads, queries, width, generator=generator),
        torch.randn(batch, key_heads, keys, width, generator=generator),
        torch.randn(batch, key_heads, keys, width, generator=generator),
    )
