"""Sources whose heads the model had folded into another axis."""

from __future__ import annotations

import torch

from tb_plugin_structure.capture.attention.sources import Rows, Source


class PackedHeads:
    """Query heads that were folded into the query axis: [batch, key heads, group · queries] is really
    [batch, key heads · group, queries]. transformers does so when one token is decoded with grouped queries."""

    def __init__(self, inner: Source, groups: int) -> None:
        self.inner, self._groups = inner, groups
        self.batch, self.heads, self.key_heads = inner.batch, inner.heads * groups, inner.heads
        self.queries, self.keys, self.device = inner.queries // groups, inner.keys, inner.device
        self.width = inner.width

    def rows(self, example: int, heads: list[int], rows: torch.Tensor) -> Rows:
        parts = [
            self.inner.rows(example, [head // self._groups], rows + (head % self._groups) * self.queries)
            for head in heads
        ]
        visible = [part.visible for part in parts]
        return Rows(
            torch.cat([part.probabilities for part in parts]),
            None if visible[0] is None else torch.cat([part for part in visible if part is not None]),
        )


class FoldedBatch:
    """A batch that was folded into the head axis: [1, batch · heads] is really [batch, heads]."""

    def __init__(self, inner: Source, heads: int) -> None:
        self.inner = inner
        self.batch, self.heads = inner.heads // heads, heads
        self.key_heads = max(1, inner.key_heads // self.batch)
        self.queries, self.keys, self.device = inner.queries, inner.keys, inner.device
        self.width = inner.width

    def rows(self, example: int, heads: list[int], rows: torch.Tensor) -> Rows:
        return self.inner.rows(0, [example * self.heads + head for head in heads], rows)
