"""Attention within windows of an image, laid out over the whole image again.

A model with windows attends to many small squares, which lie in the batch. Here they become one map over all positions
of the image: 0 between positions of different windows, cyclic shifts undone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

from tb_plugin_structure.capture.attention.sources import Rows, Source

Size = tuple[int, int]


class WindowedSource:
    """The windows of an image as one map, positions in reading order.

    Args:
        inner: Probabilities of every window; windows of an image follow one another in its batch, in reading order.
        grid: Height and width of the image in positions, a multiple of the window's.
        window: Height and width of a window.
        shift: By how many positions the image was rolled up and left before it was cut.
        strided: A window holds every k-th position of the image ("grid attention") instead of neighbours.
    """

    def __init__(self, inner: Source, grid: Size, window: Size, shift: int = 0, strided: bool = False) -> None:
        self.inner = inner
        self.heads, self.key_heads, self.width, self.device = inner.heads, inner.key_heads, inner.width, inner.device
        self.queries = self.keys = grid[0] * grid[1]
        number = self.keys // (window[0] * window[1])
        self.batch = inner.batch // number
        self._number = number
        position = torch.arange(self.keys)
        y = (position // grid[1] - shift) % grid[0]
        x = (position % grid[1] - shift) % grid[1]
        down, across = grid[0] // window[0], grid[1] // window[1]
        if strided:
            row, column, inner_y, inner_x = y % down, x % across, y // down, x // across
        else:
            row, column, inner_y, inner_x = y // window[0], x // window[1], y % window[0], x % window[1]
        self._window = row * across + column
        self._place = inner_y * window[1] + inner_x
        # Positions of each window, in the window's own order.
        order = torch.argsort(self._window * window[0] * window[1] + self._place)
        self._positions = order.view(number, window[0] * window[1]).to(self.device)

    def rows(self, example: int, heads: list[int], rows: torch.Tensor) -> Rows:
        """Rows of the map; keys in other windows are masked."""
        probabilities = torch.zeros(len(heads), len(rows), self.keys, device=self.device)
        visible = torch.zeros(1, len(rows), self.keys, dtype=torch.bool, device=self.device)
        asked = rows.cpu()
        windows = self._window[asked]
        for window in torch.unique(windows).tolist():
            at = (windows == window).nonzero().squeeze(1)
            part = self.inner.rows(example * self._number + window, heads, self._place[asked[at]].to(self.device))
            keys = self._positions[window]
            at = at.to(self.device)
            probabilities[:, at[:, None], keys] = part.probabilities
            # The first head's: masks of windows do not depend on the head.
            visible[0, at[:, None], keys] = True if part.visible is None else part.visible[0]
        return Rows(probabilities, visible)


def grid_of(number: int, window: Size, known: Iterable[Size]) -> Size | None:
    """Height and width, in positions, of an image that was cut into `number` windows; None when it cannot be told.

    Args:
        number: Windows of one image.
        window: Height and width of a window.
        known: Sizes of maps that the model made before; halves, quarters, … of them, rounded up to whole windows, fit.
    """
    for height, width in known:
        for halvings in range(8):
            down, across = (
                -(-max(1, -(-side // 2**halvings)) // edge) for side, edge in zip((height, width), window, strict=True)
            )
            if down * across == number:
                return down * window[0], across * window[1]
    side = math.isqrt(number)
    return (side * window[0], side * window[1]) if side * side == number else None
