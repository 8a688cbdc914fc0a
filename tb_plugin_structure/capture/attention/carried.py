"""What an operator makes of a tag: of its kind, and of the place of the keys along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from tb_plugin_structure.capture.attention.storage_tags import Tag

_ARITHMETIC = {"mul", "multiply", "div", "divide", "true_divide", "pow", "square", "add", "sub", "relu", "clamp"}
"""What changes probabilities, but for dropout; what hides some of them (masked_fill, where) changes no other."""


def after_operator(name: str, tag: Tag, source: torch.Tensor, args: Sequence[Any], noisy: bool) -> Tag:
    """What an elementwise operator makes of scores (exp, a division by a number of each row), and of probabilities."""
    base = name.removeprefix("aten::").rstrip("_")
    if tag.kind == "probabilities":
        return replace(tag, altered=True) if base in _ARITHMETIC and not noisy and not tag.altered else tag
    if base in ("exp", "exp2"):
        return replace(tag, exponential="exp")
    if tag.exponential and base in ("div", "divide", "true_divide") and len(args) > 1:
        is_of_rows = args[0] is source and isinstance(args[1], torch.Tensor) and 1 < args[1].numel() < source.numel()
        return replace(tag, exponential="divided") if is_of_rows else replace(tag, exponential="")
    return tag


def padding_before(pads: Sequence[int], source: torch.Tensor, axis: int) -> int:
    """How many values are put before the source along `axis`; pads begin at the last axis."""
    at = 2 * (source.dim() - 1 - axis)
    return int(pads[at]) if at < len(pads) else 0


def offset_in_cat(args: Sequence[Any], source: torch.Tensor, axis: int) -> int:
    """How far along `axis` the source begins in the concatenation."""
    begin = 0
    for part in args[0] if args and isinstance(args[0], (tuple, list)) else ():
        if part is source:
            return begin
        begin += part.shape[axis] if part.dim() > axis else 0
    return 0


def without_ellipsis(terms: Sequence[str], output: str, dims: Sequence[int]) -> tuple[list[str], str]:
    """An einsum's terms with a digit for each axis that an ellipsis stands for, equal ones from the right."""
    covered = [dim - len(term.replace("...", "")) for term, dim in zip(terms, dims, strict=True)]
    letters = "9876543210"[-max(covered) :] if max(covered) else ""
    full = [term.replace("...", letters[len(letters) - number :]) for term, number in zip(terms, covered, strict=True)]
    return full, output.replace("...", letters)
