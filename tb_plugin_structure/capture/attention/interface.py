"""transformers' attention interface, for kernels that the dispatcher does not show (FlexAttention on a CPU, …).

Only when a model asks for another implementation than "eager" and "sdpa" is ``AttentionInterface.get_interface``
wrapped while the region is open. What it returns runs unchanged; afterwards, when no kernel gave an attention,
the probabilities are recomputed from the arguments.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from tb_plugin_structure.capture.attention import flex
from tb_plugin_structure.capture.attention.kernels import FusedArguments
from tb_plugin_structure.capture.attention.module_facts import ModuleFacts

_SEEN_BY_KERNELS = (None, "eager", "sdpa")


class InterfaceListener:
    """Wraps the interface's lookup while the region is open."""

    def __init__(self, listener: Any) -> None:
        self._listener = listener
        self._undo: Callable[[], None] | None = None

    def open(self, models: Sequence[ModuleFacts]) -> None:
        transformers = sys.modules.get("transformers.modeling_utils")
        interface = getattr(transformers, "AttentionInterface", None)
        original = getattr(interface, "get_interface", None)
        if interface is None or original is None or not any(_needs(facts) for facts in models):
            return
        listener = self._listener

        @functools.wraps(original)
        def get_interface(self: Any, name: str, default: Any) -> Any:
            attention = original(self, name, default)
            if name in _SEEN_BY_KERNELS or torch.compiler.is_compiling():
                return attention

            @functools.wraps(attention)
            def watched(module: nn.Module, query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
                before = listener.maps_of(module)
                result = attention(module, query, key, value, *args, **kwargs)
                if listener.maps_of(module) == before:
                    mask = args[0] if args else kwargs.get("attention_mask")
                    listener.interface_call(
                        module, _arguments(module, query, key, mask, kwargs), f"{name} (transformers)"
                    )
                return result

            return watched

        interface.get_interface = get_interface
        self._undo = lambda: setattr(interface, "get_interface", original)

    def close(self) -> None:
        if self._undo is not None:
            self._undo()
            self._undo = None


def _needs(facts: ModuleFacts) -> bool:
    for path in facts.paths:
        config = getattr(facts.module(path), "config", None)
        if getattr(config, "_attn_implementation", None) not in _SEEN_BY_KERNELS:
            return True
    return False


def _arguments(module: nn.Module, query: Any, key: Any, mask: Any, options: dict[str, Any]) -> FusedArguments:
    """What an attention function of transformers computes: query and key are [batch, heads, positions, width]."""
    change = None
    if mask is not None and not isinstance(mask, torch.Tensor):
        change = flex.of_block_mask(mask) if hasattr(mask, "mask_mod") else None
        mask = None
    bias = options.get("position_bias")
    if isinstance(bias, torch.Tensor):
        mask = (
            bias
            if mask is None
            else (bias.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else bias + mask)
        )
    if isinstance(mask, torch.Tensor):
        if mask.dim() == 2:  # flash: 1 for real keys, 0 for padding
            mask = mask[:, None, None, -key.shape[2] :].bool()
        else:
            mask = mask[..., : key.shape[2]]
    causal = options.get("is_causal")
    causal = bool(getattr(module, "is_causal", False) if causal is None else causal)
    window = options.get("sliding_window")
    dense = change is None and (mask is None or mask.shape[-2] == 1)
    softcap = options.get("softcap") or 0.0
    return FusedArguments(
        query,
        key,
        mask=mask,
        causal="bottom_right" if causal and dense and query.shape[2] > 1 else "",
        scale=options.get("scaling"),
        window=(window - 1 if dense and isinstance(window, int) else None, None),
        softcap=float(softcap),
        sinks=options.get("s_aux"),
        score_change=change,
        only_hides=change is not None,
    )
