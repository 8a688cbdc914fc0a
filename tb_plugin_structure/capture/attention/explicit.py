"""``log_attention``: attention that only the user knows about."""

from __future__ import annotations

from typing import Any

import torch

_LISTENERS: list[Any] = []
"""Listeners of the regions that are open, innermost last."""


def opened(listener: Any) -> None:
    _LISTENERS.append(listener)


def closed(listener: Any) -> None:
    if listener in _LISTENERS:
        _LISTENERS.remove(listener)


def log_attention(
    name: str,
    probabilities: torch.Tensor | None = None,
    *,
    query: torch.Tensor | None = None,
    key: torch.Tensor | None = None,
    mask: torch.Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> None:
    """Record an attention that no operator shows, from inside the model's forward pass.

    Outside a recorded region this does nothing, so the call can stay in the model.

    Args:
        name: Name of the attention below the module that runs, e.g. "routing".
        probabilities: [batch, heads, queries, keys] (or [batch, queries, keys]), before dropout. Or instead:
        query: [batch, heads, queries, width].
        key: [batch, heads or fewer, keys, width].
        mask: Boolean (True: may attend) or added to the scores.
        causal: Query i sees keys 0..i.
        scale: Factor of the scores; None for 1 / sqrt(width).

    Raises:
        ValueError: When neither probabilities nor query and key are given, or their shapes do not fit.
    """
    if (probabilities is None) == (query is None or key is None):
        raise ValueError(f"log_attention({name!r}): give either probabilities, or query and key")
    if probabilities is not None and probabilities.dim() not in (2, 3, 4):
        raise ValueError(
            f"log_attention({name!r}): probabilities have shape {list(probabilities.shape)}, "
            "expected [batch, heads, queries, keys]"
        )
    if query is not None and key is not None and (query.dim() != 4 or key.dim() != 4):
        raise ValueError(
            f"log_attention({name!r}): query {list(query.shape)} and key {list(key.shape)}, "
            "expected [batch, heads, positions, width]"
        )
    for listener in _LISTENERS[-1:]:
        listener.explicit(name, probabilities, query, key, mask, causal, scale)
