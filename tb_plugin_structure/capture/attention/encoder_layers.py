"""PyTorch's fused transformer layers (the "fast path" of nn.MultiheadAttention and nn.TransformerEncoderLayer).

They show neither queries nor probabilities; both follow from the layer's input and its own weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tb_plugin_structure.capture.attention.kernels import FusedArguments

ENCODER_LAYER = "aten::_transformer_encoder_layer_fwd"
MULTI_HEAD = "aten::_native_multi_head_attention"

_SOURCE_MASK, _PADDING_MASK, _BOTH = 0, 1, 2  # mask_type of these kernels


def fused_layer(name: str, arguments: Mapping[str, Any], example: int) -> FusedArguments | None:
    """Query, key and mask of one example; the batch axis is 1. None when the example is not in the batch.

    Queries and keys are projected in float32 from the weights as they are.
    """
    if name == ENCODER_LAYER:
        query = key = arguments["src"]
        heads = arguments["num_heads"]
    else:
        query, key, heads = arguments["query"], arguments["key"], arguments["num_head"]
    if example >= query.size(0):
        return None
    same = query is key
    real = None  # positions of a nested example that are not padding
    if query.is_nested:
        lengths = [part.shape[0] for part in query.detach().unbind()]
        real = torch.arange(max(lengths), device=query.device) < lengths[example]
    query = _example(query, example)
    key = query if same else _example(key, example)
    if name == ENCODER_LAYER and arguments["norm_first"]:
        width = (query.shape[-1],)
        query = key = torch.nn.functional.layer_norm(
            query, width, arguments["norm_weight_1"].detach().float(), arguments["norm_bias_1"].detach().float(),
            arguments["eps"],
        )  # fmt: skip
    weight, bias = arguments["qkv_weight"].detach().float(), arguments["qkv_bias"].detach().float()
    width = weight.shape[0] // 3
    queries = torch.addmm(bias[:width], query, weight[:width].t())
    keys = torch.addmm(bias[width : 2 * width], key, weight[width : 2 * width].t())
    if real is not None:
        # The kernel never computes padded positions; rows and columns of the padded length keep labels aligned.
        mask = real[:, None] & real[None, :]
        return FusedArguments(_heads(queries, heads), _heads(keys, heads), mask=mask)
    return FusedArguments(
        _heads(queries, heads),
        _heads(keys, heads),
        mask=_mask(arguments.get("mask"), arguments.get("mask_type"), example, key.shape[0]),
    )


def _heads(projected: torch.Tensor, heads: int) -> torch.Tensor:
    """[positions, heads · width] as [1, heads, positions, width]."""
    return projected.reshape(projected.shape[0], heads, -1).transpose(0, 1).unsqueeze(0)


def _example(batch: torch.Tensor, example: int) -> torch.Tensor:
    """[positions, width] in float32; a nested tensor's example is filled up with zeros to the longest."""
    if batch.is_nested:
        parts = batch.detach().unbind()
        longest = max(part.shape[0] for part in parts)
        filled = parts[example].new_zeros(longest, parts[example].shape[1], dtype=torch.float32)
        filled[: parts[example].shape[0]] = parts[example].float()
        return filled
    return batch.detach()[example].float()


def _mask(mask: torch.Tensor | None, kind: int | None, example: int, keys: int) -> torch.Tensor | None:
    """The kernel's mask as a boolean "may attend", broadcast against [1, heads, queries, keys]."""
    if mask is None:
        return None
    mask = mask.detach()
    if mask.dtype == torch.bool:
        allowed = ~mask
    else:
        allowed = mask == 0  # float masks hold 0 or -inf here
        if kind == _SOURCE_MASK and bool(((mask != 0) & torch.isfinite(mask)).any()):
            return mask  # an additive bias
    if kind == _PADDING_MASK:
        return allowed[example][None, None, None, :keys]
    if kind == _SOURCE_MASK:
        return allowed[None, None, :, :keys]
    return (allowed[example] if allowed.dim() > 2 else allowed)[None, ..., :keys]
