"""Distances between the heads of two models of one step, from what is in memory before anything is quantised."""

from __future__ import annotations

import math

import numpy as np
import torch

from tb_plugin_structure.capture.attention.aside import aside
from tb_plugin_structure.capture.attention.maps import AttentionMap
from tb_plugin_structure.capture.attention.result import AttentionCapture
from tb_plugin_structure.capture.attention.summary import Summary
from tb_plugin_structure.records.table import Array

_MOST_BYTES_WHOLE = 64 << 20
_MOST_PRODUCTS = 8e9
"""A few seconds of one processor; beyond, distances are computed when someone asks."""


def compare_captures(first: AttentionCapture, second: AttentionCapture) -> None:
    """Add to `second` its Hellinger distances to `first`, for every example that both have."""
    for example in second.examples:
        if example not in first.examples:
            continue
        ours, theirs = (
            [(made, made.summaries[example]) for made in capture.maps if example in made.summaries]
            for capture in (first, second)
        )
        with aside():
            found = _distances(ours, theirs)
        if found is not None:
            second.distances.setdefault(example, []).append((first.model, *found))


def farthest_heads(first: AttentionCapture, second: AttentionCapture, number: int = 4) -> dict[str, list[int]]:
    """Module path -> the heads of both models, up to `number` of each, whose closest head in the other is farthest.

    Empty where the distances of the two were not computed.
    """
    found: dict[str, list[int]] = {}
    for example, compared in list(second.distances.items())[:1]:
        distances = next((values for model, values, _ in compared if model == first.model), None)
        if distances is None or not distances.size:
            continue
        known = np.where(np.isnan(distances), math.inf, distances)
        for capture, nearest in ((first, known.min(1)), (second, known.min(0))):
            heads = [
                (made.module_path, head)
                for made in capture.maps
                if example in made.summaries
                for head in made.summaries[example].heads
            ]
            order = np.argsort(-np.where(np.isinf(nearest), -1.0, nearest), kind="stable")
            for at in order[:number].tolist():
                path, head = heads[at]
                if np.isfinite(nearest[at]) and head not in found.setdefault(path, []):
                    found[path].append(head)
    return found


Maps = list[tuple[AttentionMap, Summary]]


def _distances(first: Maps, second: Maps) -> tuple[Array, str] | None:
    """[heads, heads] over all layers, and at which resolution; None when it would take too long."""
    sides = (first, second)
    rows, columns = (sum(len(summary.heads) for _, summary in side) for side in sides)
    whole = all(_is_whole(summary) for side in sides for _, summary in side) and (
        sum(summary.matrix.size * 4 for side in sides for _, summary in side if summary.matrix is not None)
        <= _MOST_BYTES_WHOLE
    )
    maps = [[(made, _tensor(summary, whole)) for made, summary in side] for side in sides]
    cells = max((tensor[0].numel() for side in maps for _, tensor in side if len(tensor)), default=0)
    if not rows or not columns or rows * columns * cells > _MOST_PRODUCTS:
        return None
    roots = [[(made, tensor, *_roots(tensor)) for made, tensor in side] for side in maps]
    result = np.full((rows, columns), math.nan, np.float32)
    top = 0
    for made, tensor, root, valid in roots[0]:
        left = 0
        for other, other_tensor, other_root, other_valid in roots[1]:
            if tensor.shape[1:] == other_tensor.shape[1:] and _comparable(made, other):
                block = _hellinger(root, valid, other_root, other_valid)
                result[top : top + len(tensor), left : left + len(other_tensor)] = block.cpu().numpy()
            left += len(other_tensor)
        top += len(tensor)
    exact = whole or all(
        max(made.query_length, made.key_length) <= max(tensor.shape[1:], default=0)
        for side in maps
        for made, tensor in side
    )
    return result, "every position" if exact else "64 x 64 blocks"


def _is_whole(summary: Summary) -> bool:
    return summary.matrix is not None and summary.matrix_heads == summary.heads


def _tensor(summary: Summary, whole: bool) -> torch.Tensor:
    """[heads, rows, columns] in float32; queries that are padding are emptied."""
    if not whole or summary.matrix is None:
        return torch.from_numpy(summary.mass)
    maps = torch.from_numpy(summary.matrix).float()
    if maps.shape[1] == maps.shape[2] and len(summary.padding):
        maps[:, torch.from_numpy(summary.padding)] = 0.0
    return maps


def _comparable(first: AttentionMap, second: AttentionMap) -> bool:
    """The same kind of attention over the same positions, and what is visible does not depend on the model."""
    return (
        first.relation == second.relation
        and (first.query_length, first.key_length) == (second.query_length, second.key_length)
        and ("causal" in first.mask, "window" in first.mask) == ("causal" in second.mask, "window" in second.mask)
    )


def _roots(maps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Square roots of the normalised rows, [heads, rows · columns], and [heads, rows] 1 where a row has mass."""
    finite = torch.isfinite(maps).all(-1)
    clean = maps.where(finite[..., None], torch.zeros(())).clamp_min(0)
    sums = clean.sum(-1)
    valid = sums > 1e-6
    roots = (clean / sums.where(valid, torch.ones(()))[..., None]).sqrt() * valid[..., None]
    return roots.flatten(1), valid.float()


def _hellinger(
    first: torch.Tensor, first_valid: torch.Tensor, second: torch.Tensor, second_valid: torch.Tensor
) -> torch.Tensor:
    """sqrt(1 - mean over rows of Σ sqrt(p q)) of all pairs of heads; NaN where no row counts."""
    rows = first_valid @ second_valid.t()
    distance = (1 - (first @ second.t()) / rows).clamp(0, 1).sqrt()
    return distance.where(rows > 0, torch.full((), math.nan))
