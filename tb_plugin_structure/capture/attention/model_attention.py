"""The attentions of one model while its region is open: each is summarised at once, none is kept whole."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import torch
from torch import nn

from tb_plugin_structure.capture.attention.axes import AxisFinder
from tb_plugin_structure.capture.attention.kept import KeptHead, keep_head
from tb_plugin_structure.capture.attention.maps import AttentionMap
from tb_plugin_structure.capture.attention.module_facts import ModuleFacts
from tb_plugin_structure.capture.attention.options import AttentionOptions, matches
from tb_plugin_structure.capture.attention.reasons import sorted_out
from tb_plugin_structure.capture.attention.result import AttentionCapture
from tb_plugin_structure.capture.attention.sources import Source
from tb_plugin_structure.capture.attention.stitch import stitched
from tb_plugin_structure.capture.attention.summary import summarize
from tb_plugin_structure.capture.attention.windows import WindowedSource, grid_of

_MOST_STEP_VALUES = 1 << 26
"""Probabilities of decoding steps beyond `detail_limit` that wait to be joined; 128 MiB in half precision."""


class ModelAttention:
    """What is known about one model, and what was captured of it so far."""

    def __init__(self, name: str, model: nn.Module, options: AttentionOptions, tokens: Any) -> None:
        self.name, self.options = name, options
        self.facts = ModuleFacts(model)
        self.axes = AxisFinder(options, tokens)
        self.maps: list[AttentionMap] = []
        self.reasons: dict[str, str] = {}
        self.withdrawn: dict[tuple[str, int], str] = {}
        self.ordinals: dict[tuple[str, int], int] = defaultdict(int)
        self.ran: set[str] = set()
        self.notes: dict[str, None] = {}
        self._step_values = 0

    def reason(self, module_path: str, words: str) -> None:
        """Why the module gave no map; the first reason stays."""
        self.reasons.setdefault(module_path, words)

    def new_map(
        self, source: Source, call: Any, kernel: str, route: Any, dtype: str, mask: str, key_heads: int | None = None
    ) -> AttentionMap | None:
        """An attention was seen; None when the options leave it out."""
        path = call.module_path
        if matches(path, self.options.exclude):
            self.reason(path, "left out by AttentionOptions.exclude")
            return None
        self.facts.knows(path)
        ordinal = self.ordinals[path, call.ordinal]
        self.ordinals[path, call.ordinal] += 1
        made = AttentionMap(
            path,
            call.ordinal,
            ordinal,
            source.heads,
            min(key_heads or source.key_heads, source.heads),
            source.queries,
            source.keys,
            self.facts.relation(path, source.queries, source.keys),
            route,
            kernel,
            dtype,
            mask,
            "",
        )
        window = self.facts.window(path)
        if window is not None and window[0] * window[1] == source.keys == source.queries:
            made.window = window
        self.maps.append(made)
        return made

    def summarize_all(self, made: AttentionMap, source: Source, blocks: int = 1) -> None:
        """Every wanted example. Windows of an image, which lie in the batch, are laid over the image; of other blocks
        the first one is taken."""
        batch, windows = source.batch, 1
        images = self.axes.batch or batch
        is_windowed = made.window is not None and batch % images == 0 and self.axes.batch is not None
        if blocks > 1 and not self.options.keep_maps:
            windows, batch = blocks, batch // blocks
            made.exactness += f"; block 1 of {blocks} (local attention)"
        elif is_windowed and made.window is not None and not self.options.keep_maps:
            number, shift = batch // images, self.facts.shift(made.module_path)
            words = f"{made.window[0]} x {made.window[1]}" + (f", shifted by {shift}" if shift else "")
            grid = grid_of(number, made.window, self.axes.grids)
            batch = images
            if grid is None:
                windows = number
                made.exactness += f"; window 1 of {number}, {words}"
            else:
                strided = self.facts.is_strided(made.module_path)
                source = WindowedSource(source, grid, made.window, shift, strided)
                made.window, made.grid = None, grid
                made.query_length = made.key_length = source.queries
                made.exactness += f"; {number} windows of {words}, laid over the image"
        for example in self.options.examples(batch):
            self.summarize(made, source, example, example * windows)
        self.stack_probabilities(made)

    def summarize(self, made: AttentionMap, source: Source, example: int, position: int) -> None:
        options = self.options
        heads = options.heads_of(made.module_path, made.heads)
        rows = options.rows_of(len(heads), made.query_length, made.key_length)
        full_heads = [] if options.keep_maps else self._full_heads(made, heads)
        summary = summarize(
            source,
            position,
            heads,
            rows,
            full_heads=full_heads,
            self_attention=made.relation == "self",
            float32=options.keep_maps,
        )
        if not options.keep_maps:
            summary.kept = self._kept(made, source, position, heads, rows, is_short=bool(full_heads))
        if not made.summaries:
            if rows is not None:
                made.exactness += f"; {len(rows):,} of {made.query_length:,} query rows"
            if len(heads) < made.heads:
                made.exactness += f"; heads {', '.join(map(str, heads))} of {made.heads}"
            if not made.mask:
                made.mask = summary.pattern or ("masked" if bool(summary.padding.size) else "none")
            elif summary.pattern and summary.pattern not in made.mask:
                made.mask += f": {summary.pattern}"
        made.summaries[example] = summary

    def _full_heads(self, made: AttentionMap, heads: list[int]) -> list[int]:
        """Heads whose full matrix is kept: all of a short sequence, and of a decoding step until memory is full."""
        options, queries, keys = self.options, made.query_length, made.key_length
        short = options.full_heads(heads, queries, keys)
        if short or made.relation != "self" or not queries < keys or queries * keys > options.detail_limit**2:
            return short
        if self._step_values + len(heads) * queries * keys > _MOST_STEP_VALUES:
            self.notes.setdefault(
                f"decoding steps are joined as far as {_MOST_STEP_VALUES:,} probabilities reach; later ones are "
                "recorded each for itself"
            )
            return []
        self._step_values += len(heads) * queries * keys
        return heads

    def _kept(
        self,
        made: AttentionMap,
        source: Source,
        position: int,
        heads: list[int],
        rows: list[int] | None,
        *,
        is_short: bool,
    ) -> list[KeptHead]:
        """Full resolution of watched heads of long sequences; the chosen rows where rows were chosen."""
        options = self.options
        chosen = rows if options.chooses_rows else None
        if is_short and chosen is None:
            return []  # the matrix of every head is kept
        wanted = heads if is_short else options.watched_heads(made.module_path, heads)
        found = (keep_head(source, position, head, chosen) for head in wanted)
        return [kept for kept in found if kept is not None]

    def stack_probabilities(self, made: AttentionMap | None) -> None:
        if made is not None and self.options.keep_maps and made.summaries:
            parts = [summary.probabilities for summary in made.summaries.values()]
            made.probabilities = np.stack([part for part in parts if part is not None])
            for summary in made.summaries.values():
                summary.probabilities = None

    def per_head(
        self, probabilities: torch.Tensor, scores: torch.Tensor | None, path: str
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """[batch, heads, queries, keys], whatever axes the model folded together."""
        heads = self.facts.heads(path)
        shaped = [tensor for tensor in (probabilities, scores) if tensor is not None]
        dim = probabilities.dim()
        if dim == 2:
            shaped = [tensor[None, None] for tensor in shaped]
        elif dim == 3:
            folded = heads is not None and probabilities.shape[0] % heads == 0
            shaped = [
                tensor.reshape(-1, heads or 1, *tensor.shape[1:]) if folded else tensor.unsqueeze(1)
                for tensor in shaped
            ]
        elif dim == 4:
            first, second = probabilities.shape[:2]
            if heads is not None and second != heads and first == heads:
                shaped = [tensor.transpose(0, 1) for tensor in shaped]
        elif heads is not None and probabilities.shape[-3] != heads and probabilities.shape[-4:-2].numel() == heads:
            shaped = [tensor.flatten(-4, -3).flatten(0, -4) for tensor in shaped]  # [.., key heads, group, N, M]
        else:
            at = self._head_axis(probabilities, heads)
            shaped = [tensor.movedim(at, -3).flatten(0, -4) for tensor in shaped]
        return shaped[0], shaped[1] if len(shaped) > 1 else None

    @staticmethod
    def _head_axis(probabilities: torch.Tensor, heads: int | None) -> int:
        """The axis of the heads among those before queries and keys: the third from the end, as a rule; before it where
        blocks of the sequence follow the heads."""
        sizes = probabilities.shape[1:-2]
        if heads is None or sizes[-1] == heads or sizes.count(heads) != 1:
            return -3
        return 1 + sizes.index(heads)

    def blocks(self, probabilities: torch.Tensor, heads: int, path: str) -> int:
        """Into how many blocks a sequence is cut, [batch, .., blocks, .., queries, keys]; 1 where it is not."""
        if probabilities.dim() < 5:
            return 1
        at = self._head_axis(probabilities, self.facts.heads(path))
        moved = probabilities.movedim(at, -3)
        return int(moved.shape[-4]) if moved.shape[-3] == heads else 1

    def is_channel_attention(self, path: str, made: AttentionMap, width: int) -> bool:
        """Cross-covariance attention: rows and keys are channels, and the product sums over the positions.

        Heads times channels is then a width that the module's weights have, heads times positions is not. A module
        without weights of that kind may have got the map of a convolution, channels and positions.
        """
        if made.query_length != made.key_length or not width:
            return False
        if (made.heads * made.query_length, width) in self.axes.maps:
            return True
        widths = self.facts.widths(path)
        return made.heads * made.query_length in widths and made.heads * width not in widths

    def finish(self) -> AttentionCapture:
        """Put together what was captured."""
        kept, missing = sorted_out(self.maps, self.reasons, self.withdrawn, self.ran, self.facts)
        kept = kept if self.options.keep_maps else stitched(kept, self.options)
        return AttentionCapture(self.name, self.options, kept, missing, list(self.notes), self.axes)
