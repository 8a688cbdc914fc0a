"""Fused attention kernels: reading query, key, mask and scale off the arguments of an operator.

A kernel is known by its operator's name. Further ones are added with one decorator:

>>> @attention_kernel("my_library::flash")
... def _(arguments):
...     return FusedArguments(arguments["q"], arguments["k"], layout="bnhd", causal="bottom_right")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

Layout = Literal["bhnd", "bnhd"]
Causal = Literal["", "top_left", "bottom_right"]


@dataclass
class FusedArguments:
    """What softmax(scale · q kᵀ + mask) needs.

    Args:
        query: [batch, heads, queries, width] in layout "bhnd", [batch, queries, heads, width] in "bnhd".
        key: Likewise, with as many or fewer heads (grouped queries: query head h uses key head h // group).
        mask: Boolean (True: may attend) or added to the scores; broadcasts against [batch, heads, queries, keys].
        causal: "top_left": query i sees keys 0..i; "bottom_right": the last query sees every key.
        scale: Factor of the scores; None for 1 / sqrt(width).
        window: (left, right) keys that a query sees around its own position; negative or None: unlimited.
        softcap: Scores become softcap · tanh(score / softcap); 0 for none.
        alibi_slopes: [heads] or [batch, heads]; slope · |i - j| is subtracted, positions aligned bottom right.
        sinks: [heads]; a further score in the denominator that belongs to no key.
        score_change: A last change of the scores, [heads, rows, keys] for given rows; see ``flex.py``.
        only_hides: `score_change` sets scores to -infinity and changes no other.
        layout: Order of the axes of query and key.
    """

    query: torch.Tensor
    key: torch.Tensor
    mask: torch.Tensor | None = None
    causal: Causal = ""
    scale: float | None = None
    window: tuple[int | None, int | None] = (None, None)
    softcap: float = 0.0
    alibi_slopes: torch.Tensor | None = None
    sinks: torch.Tensor | None = None
    score_change: Callable[[torch.Tensor, int, list[int], torch.Tensor], torch.Tensor] | None = None
    layout: Layout = "bhnd"
    only_hides: bool = False


Reader = Callable[[Mapping[str, Any]], FusedArguments]

_READERS: dict[str, Reader] = {}


def attention_kernel(*names: str) -> Callable[[Reader], Reader]:
    """Register how arguments of the operators `names` ("namespace::name") are read.

    The function gets argument name -> value, with the operator's defaults filled in.
    """

    def register(reader: Reader) -> Reader:
        for name in names:
            _READERS[name] = reader
        return reader

    return register


def reader_of(name: str) -> Reader | None:
    """The registered reader of an operator, by "namespace::name"."""
    return _READERS.get(name)


def bind(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of an operator by name, defaults filled in."""
    bound = {}
    for position, argument in enumerate(func._schema.arguments):
        if position < len(args):
            bound[argument.name] = args[position]
        elif argument.name in kwargs:
            bound[argument.name] = kwargs[argument.name]
        else:
            bound[argument.name] = argument.default_value
    return bound


def mask_words(arguments: FusedArguments) -> str:
    """The mask of a kernel in words."""
    words = []
    if arguments.causal:
        words.append("causal" if arguments.causal == "top_left" else "causal, aligned at the last key")
    if any(side is not None and side >= 0 for side in arguments.window):
        words.append("sliding window")
    if arguments.mask is not None:
        words.append("boolean" if arguments.mask.dtype == torch.bool else "additive")
    if arguments.alibi_slopes is not None:
        words.append("ALiBi")
    if arguments.score_change is not None:
        words.append("score function")
    if arguments.softcap:
        words.append("soft cap")
    if arguments.sinks is not None:
        words.append("learned sinks")
    return ", ".join(words) or "none"


@attention_kernel(
    "aten::scaled_dot_product_attention",
    "aten::_scaled_dot_product_attention_math",
    "aten::_scaled_dot_product_attention_math_for_mps",
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_fused_attention_overrideable",
)
def _scaled_dot_product_attention(arguments: Mapping[str, Any]) -> FusedArguments:
    # is_causal is aligned top left also when there are more keys than queries.
    mask = arguments.get("attn_mask")
    return FusedArguments(
        arguments["query"],
        arguments["key"],
        mask=arguments.get("attn_bias") if mask is None else mask,
        causal="top_left" if arguments.get("is_causal") else "",
        scale=arguments.get("scale"),
    )


@attention_kernel("aten::_flash_attention_forward")
def _aten_flash_attention(arguments: Mapping[str, Any]) -> FusedArguments:
    return FusedArguments(
        _sequences(arguments["query"], arguments.get("cum_seq_q")),
        _sequences(arguments["key"], arguments.get("cum_seq_k")),
        causal="top_left" if arguments.get("is_causal") else "",
        scale=arguments.get("scale"),
        window=(arguments.get("window_size_left"), arguments.get("window_size_right")),
        alibi_slopes=arguments.get("alibi_slopes"),
        layout="bnhd",
    )


@attention_kernel("aten::_efficient_attention_forward")
def _aten_efficient_attention(arguments: Mapping[str, Any]) -> FusedArguments:
    # custom_mask_type: 0 none, 1 causal from the top left, 2 causal from the bottom right.
    causal: Causal = {1: "top_left", 2: "bottom_right"}.get(arguments.get("custom_mask_type", 0), "")  # type: ignore[assignment]
    return FusedArguments(
        _sequences(arguments["query"], arguments.get("cu_seqlens_q")),
        _sequences(arguments["key"], arguments.get("cu_seqlens_k")),
        mask=arguments.get("bias"),
        causal=causal,
        scale=arguments.get("scale"),
        layout="bnhd",
    )


@attention_kernel(
    "flash_attn::_flash_attn_forward",
    "flash_attn_3::_flash_attn_forward",
    "flash_attn::_flash_attn_varlen_forward",
)
def _flash_attention(arguments: Mapping[str, Any]) -> FusedArguments:
    """The flash-attn package, versions 2 and 3: [batch, positions, heads, width], or packed with offsets."""
    return FusedArguments(
        _sequences(arguments["q"], arguments.get("cu_seqlens_q")),
        _sequences(arguments["k"], arguments.get("cu_seqlens_k")),
        causal="bottom_right" if arguments.get("causal") else "",
        scale=arguments.get("softmax_scale"),
        window=(arguments.get("window_size_left"), arguments.get("window_size_right")),
        softcap=float(arguments.get("softcap") or 0.0),
        alibi_slopes=arguments.get("alibi_slopes"),
        layout="bnhd",
    )


def _sequences(tensor: torch.Tensor, offsets: torch.Tensor | None) -> torch.Tensor:
    """[batch, positions, heads, width]; of a packed batch the first sequence."""
    if offsets is None:
        return tensor
    begin, end = offsets[:2].tolist()
    packed = tensor[0] if tensor.dim() == 4 else tensor
    return packed[begin:end].unsqueeze(0)
