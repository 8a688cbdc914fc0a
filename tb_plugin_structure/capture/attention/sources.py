"""Where probabilities come from: recomputed from query and key, or a matrix that the model made.

A source gives rows of one example on demand, in float32, so that no full matrix of a long sequence exists.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch

from tb_plugin_structure.capture.attention.kernels import FusedArguments

MASK_BELOW = -5000.0
"""An additive mask at or below this hides a key: libraries use -inf, the smallest finite number or -10000."""

SCORE_BELOW = -6e4
"""Half precision's smallest number is -65504."""

NOTHING_BELOW = -1e30
"""No score of real queries and keys is this low."""


@dataclass
class Rows:
    """Some query rows of one example.

    Attributes:
        probabilities: [heads, rows, keys], float32; fully masked rows are 0.
        visible: [heads or 1, rows, keys] boolean: keys that are not masked; None when none is.
    """

    probabilities: torch.Tensor
    visible: torch.Tensor | None = None


class Source(Protocol):
    """Probabilities of one attention of a whole batch; `width` is that of a query and a key, 0 when not known."""

    batch: int
    heads: int
    key_heads: int
    queries: int
    keys: int
    device: torch.device
    width: int

    def rows(self, example: int, heads: list[int], rows: torch.Tensor) -> Rows:
        """Rows `rows` (int64, on `device`) of the given heads."""
        ...


class QueryKeySource:
    """softmax(scale · q kᵀ + mask) in float32, as the kernel with these arguments computes it."""

    def __init__(self, arguments: FusedArguments) -> None:
        query, key = arguments.query.detach(), arguments.key.detach()
        if arguments.layout == "bnhd":
            query, key = query.transpose(-2, -3), key.transpose(-2, -3)
        mask = arguments.mask
        if mask is not None:
            mask = mask.detach()
        while query.dim() < 4:
            query, key = query.unsqueeze(0), key.unsqueeze(0)
        if query.dim() > 4:
            if mask is not None:
                mask = mask.expand(*query.shape[:-1], key.shape[-2]).flatten(0, query.dim() - 4)
            query, key = query.flatten(0, query.dim() - 4), key.flatten(0, key.dim() - 4)
        self.arguments = arguments
        self.query, self.key = query, key
        self.mask = mask
        self.batch, self.heads, self.queries, width = query.shape
        self.width = width
        self.key_heads, self.keys = key.shape[1], key.shape[2]
        self.scale = 1.0 / math.sqrt(max(width, 1)) if arguments.scale is None else float(arguments.scale)
        self.device = query.device
        self._converted: tuple[tuple[int, int, int], torch.Tensor] | None = None

    def rows(self, example: int, heads: list[int], rows: torch.Tensor) -> Rows:
        arguments = self.arguments
        scores = self._products(example, heads, rows).mul_(self.scale)
        if arguments.softcap:
            scores.div_(arguments.softcap).tanh_().mul_(arguments.softcap)
        visible = self.positions_visible(rows)
        if visible is not None:
            scores.masked_fill_(~visible, -math.inf)
        if arguments.alibi_slopes is not None:
            slopes = arguments.alibi_slopes.detach()
            slopes = (slopes[example] if slopes.dim() == 2 else slopes).float()[heads]
            columns = torch.arange(self.keys, device=self.device)
            distance = (rows[:, None] + (self.keys - self.queries) - columns[None, :]).abs().float()
            scores -= slopes[:, None, None] * distance
        if self.mask is not None:
            mask = self.mask_rows(example, heads, rows)
            if mask.dtype == torch.bool:
                allowed = mask
                scores.masked_fill_(~mask, -math.inf)
            else:
                scores += mask.float()
                allowed = ~(mask <= MASK_BELOW)  # NaN is no mask
            visible = allowed if visible is None else visible & allowed
        if arguments.score_change is not None:
            scores = arguments.score_change(scores, example, heads, rows)
            changed = ~(scores <= NOTHING_BELOW)
            visible = changed if visible is None else visible & changed
        if arguments.sinks is not None:
            sinks = arguments.sinks.detach().float()[heads][:, None, None].expand(*scores.shape[:2], 1)
            probabilities = torch.softmax(torch.cat([scores, sinks], -1), -1)[..., :-1]
        else:
            probabilities = torch.softmax(scores, -1)
        if visible is not None:
            visible = visible.expand(-1, len(rows), self.keys)
            seeing = visible.any(-1, keepdim=True)
            if not bool(seeing.all()):
                probabilities = probabilities.masked_fill(~seeing, 0.0)
        return Rows(probabilities, visible)

    def _products(self, example: int, heads: list[int], rows: torch.Tensor) -> torch.Tensor:
        """q kᵀ in float32, [heads, rows, keys]. Under grouped queries the heads of a group are rows of one product
        with the key head they share: no key is repeated."""
        group = max(1, self.heads // max(1, self.key_heads))
        first, last = heads[0], heads[-1]
        together = last - first + 1 == len(heads) and (group == 1 or (first % group == 0 and len(heads) % group == 0))
        if together:
            query = self.query[example, first : last + 1].index_select(1, rows).float()
            key = self._float_keys(example, first // group, last // group + 1)
            folded = query.view(len(key), len(heads) // len(key) * len(rows), query.shape[-1])
            return torch.bmm(folded, key.transpose(1, 2)).view(len(heads), len(rows), self.keys)
        numbers = torch.tensor(heads, dtype=torch.int64, device=self.device)
        query = self.query[example].index_select(0, numbers).index_select(1, rows).float()
        key = self.key[example if self.key.shape[0] > 1 else 0].index_select(0, numbers // group).float()
        return torch.bmm(query, key.transpose(1, 2))

    def _float_keys(self, example: int, first: int, end: int) -> torch.Tensor:
        """Key heads [first, end) in float32, [heads, keys, width]; kept for the next block of rows."""
        wanted = (example, first, end)
        if self._converted is None or self._converted[0] != wanted:
            key = self.key[example if self.key.shape[0] > 1 else 0, first:end]
            self._converted = (wanted, key.float())
        return self._converted[1]

    def positions_visible(self, rows: torch.Tensor) -> torch.Tensor | None:
        """[1, rows, keys]: what causality and window allow."""
        arguments = self.arguments
        left, right = (side if side is not None and side >= 0 else None for side in arguments.window)
        if not arguments.causal and left is None and right is None:
            return None
        offset = self.keys - self.queries if arguments.causal == "bottom_right" or left is not None else 0
        if arguments.causal == "top_left":
            offset = 0
        own = rows[:, None] + offset
        columns = torch.arange(self.keys, device=self.device)[None, :]
        visible = torch.ones(len(rows), self.keys, dtype=torch.bool, device=self.device)
        if arguments.causal:
            visible &= columns <= own
        if left is not None:
            visible &= columns >= own - left
        if right is not None:
            visible &= columns <= own + right
        return visible.unsqueeze(0)

    def mask_rows(self, example: int, heads: list[int], rows: torch.Tensor) -> torch.Tensor:
        """[heads or 1, rows or 1, keys] of a mask that may lack axes."""
        mask = self.mask
        assert mask is not None
        while mask.dim() < 4:
            mask = mask.unsqueeze(0)
        mask = mask[example if mask.shape[0] > 1 else 0]
        if mask.shape[0] > 1 and len(heads) < mask.shape[0]:
            mask = mask[heads]
        if mask.shape[1] > 1:
            mask = mask.index_select(1, rows)
        return mask[..., : self.keys]  # some kernels want masks padded to a multiple of eight


class MatrixSource:
    """Probabilities that the model itself made, [batch, heads, queries, keys]; read before dropout.

    Args:
        matrix: The probabilities.
        scores: What the softmax was applied to, for what is masked; same shape. None: nothing is known.
        key_heads: Number of key heads; None for as many as heads.
        width: Values of a query and a key; 0 when they are not known.
    """

    def __init__(
        self,
        matrix: torch.Tensor,
        scores: torch.Tensor | None = None,
        key_heads: int | None = None,
        width: int = 0,
    ) -> None:
        self.matrix = matrix.detach()
        self.scores = None if scores is None else scores.detach()
        self.batch, self.heads, self.queries, self.keys = matrix.shape
        self.key_heads = key_heads or self.heads
        self.device = matrix.device
        self.width = width

    def rows(self, example: int, heads: list[int], rows: torch.Tensor) -> Rows:
        probabilities = _of_heads(self.matrix[example], heads).index_select(1, rows).float()
        if self.scores is None:
            return Rows(probabilities)
        scores = _of_heads(self.scores[example], heads).index_select(1, rows)
        if not scores.numel() or bool(scores.amin() > MASK_BELOW):
            return Rows(probabilities)
        highest, lowest = scores.amax(-1, keepdim=True), scores.amin(-1, keepdim=True)
        # Scores can be huge in earnest, but adding the smallest number of a dtype makes them all equal.
        no_key = (highest <= NOTHING_BELOW) | ((highest <= SCORE_BELOW) & (highest == lowest))
        if bool(no_key.any()):
            # transformers' eager code gives a fully masked row the uniform distribution: it says nothing.
            probabilities = probabilities.masked_fill(no_key, 0.0)
        return Rows(probabilities, (scores > MASK_BELOW) | (probabilities != 0))


def _of_heads(tensor: torch.Tensor, heads: list[int]) -> torch.Tensor:
    """[heads, …]: a view where they follow one another."""
    first, last = heads[0], heads[-1]
    return tensor[first : last + 1] if last - first + 1 == len(heads) else tensor[heads]
