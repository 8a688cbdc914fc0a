"""FlexAttention: probabilities from the functions that change scores and masks, evaluated on a grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tb_plugin_structure.capture.attention.kernels import FusedArguments


def of_operator(args: Sequence[Any]) -> FusedArguments:
    """From the arguments of the higher-order operator ``flex_attention``."""
    query, key, _, score_mod, block_mask, scale = args[:6]
    score_buffers = args[7] if len(args) > 7 else ()
    mask_buffers = args[8] if len(args) > 8 else ()
    mask_mod = block_mask[-1] if block_mask else None
    return FusedArguments(
        query,
        key,
        scale=scale,
        score_change=_change(score_mod, mask_mod, score_buffers, mask_buffers),
        only_hides=_keeps_scores(score_mod),
    )


def of_block_mask(block_mask: Any) -> Callable[[torch.Tensor, int, list[int], torch.Tensor], torch.Tensor]:
    """The score change that a ``BlockMask`` makes."""
    return _change(None, block_mask.mask_mod, (), ())


def _keeps_scores(score_mod: Any) -> bool:
    """Whether the score function is none, or the one that FlexAttention puts in when none is given."""
    return score_mod is None or getattr(score_mod, "__name__", "") == "_identity"


def _change(
    score_mod: Any, mask_mod: Any, score_buffers: Sequence[Any], mask_buffers: Sequence[Any]
) -> Callable[[torch.Tensor, int, list[int], torch.Tensor], torch.Tensor]:
    def change(scores: torch.Tensor, example: int, heads: list[int], rows: torch.Tensor) -> torch.Tensor:
        device = scores.device
        head = torch.tensor(heads, device=device)
        key = torch.arange(scores.shape[-1], device=device)
        grid = torch.meshgrid(head, rows, key, indexing="ij")
        flat = [axis.reshape(-1) for axis in grid]
        batch = torch.full_like(flat[0], example)
        # The functions take one score at a time (their arguments are scalars), so they are mapped over the grid.
        if score_mod is not None:
            mapped = torch.vmap(lambda s, b, h, q, k: score_mod(s, b, h, q, k, *score_buffers))
            scores = mapped(scores.reshape(-1), batch, *flat).reshape(scores.shape)
        if mask_mod is not None:
            keep = torch.vmap(lambda b, h, q, k: mask_mod(b, h, q, k, *mask_buffers))(batch, *flat)
            keep = keep.expand(batch.shape) if keep.dim() == 0 else keep
            scores = scores.masked_fill(~keep.reshape(scores.shape), -math.inf)
        return scores

    return change
