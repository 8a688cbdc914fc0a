"""Windows of an image become one map over the image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tb_plugin_structure.capture.attention.sources import MatrixSource
from tb_plugin_structure.capture.attention.windows import WindowedSource, grid_of
from tests.unit.attention.capturing import captured


def cut(image: torch.Tensor, window: int, shift: int) -> torch.Tensor:
    """[batch, height, width, channels] -> [windows, window², channels], as Swin does it."""
    batch, height, width, channels = image.shape
    rolled = torch.roll(image, (-shift, -shift), (1, 2))
    parts = rolled.view(batch, height // window, window, width // window, window, channels)
    return parts.permute(0, 1, 3, 2, 4, 5).reshape(-1, window * window, channels)


class WindowAttention(nn.Module):
    """A patch convolution, then attention of one head within windows of 2 x 2, the image rolled by `shift_size`."""

    def __init__(self, shift: int) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 4, 4, 4)
        self.window_size, self.shift_size, self.num_heads = 2, shift, 1
        self.query, self.key = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        parts = cut(self.patch(image).permute(0, 2, 3, 1), 2, self.shift_size).unsqueeze(1)
        result: torch.Tensor = nn.functional.scaled_dot_product_attention(self.query(parts), self.key(parts), parts)
        return result


def expected(model: WindowAttention, image: torch.Tensor, shift: int) -> np.ndarray:
    """The map over a 4 x 6 image, computed position by position."""
    with torch.no_grad():
        patches = model.patch(image).permute(0, 2, 3, 1)[0]
        query, key = model.query(patches).double().numpy(), model.key(patches).double().numpy()
    height, width = 4, 6
    result = np.zeros((height * width, height * width))
    for y in range(height):
        for x in range(width):
            window = ((y - shift) % height // 2, (x - shift) % width // 2)
            same = [
                (v, u)
                for v in range(height)
                for u in range(width)
                if ((v - shift) % height // 2, (u - shift) % width // 2) == window
            ]
            scores = np.exp([query[y, x] @ key[v, u] / 2 for v, u in same])
            for (v, u), score in zip(same, scores / scores.sum(), strict=True):
                result[y * width + x, v * width + u] = score
    return result


@pytest.mark.parametrize("shift", [0, 1])
def test_windows_are_laid_over_the_image_with_the_shift_undone(shift: int) -> None:
    torch.manual_seed(0)
    model = WindowAttention(shift).eval()
    image = 3 * torch.randn(2, 3, 16, 24)
    got = captured(model, image, options={"example": 0, "keep_maps": False})
    (made,) = got.maps
    assert made.shape == (1, 24, 24)
    words = "6 windows of 2 x 2, shifted by 1, laid over" if shift else "6 windows of 2 x 2, laid over the image"
    assert words in made.exactness
    overview = got.overview()
    truth = expected(model, image, shift)
    assert np.abs(overview.plane(0, 0) - truth).max() <= truth.max() / 255
    (axis,) = overview.header.axes
    assert (axis.kind, axis.grid_height, axis.grid_width, axis.special_tokens) == ("image", 4, 6, 0)
    assert axis.thumbnail_png
    # Four keys a query: the largest entropy of a row is log 4.
    rows = truth[truth > 0].reshape(24, 4)
    entropy = -(rows * np.log(rows)).sum(1).mean()
    assert overview.statistics["entropy"][0] == pytest.approx(entropy, rel=1e-4)
    assert overview.statistics["normalized_entropy"][0] == pytest.approx(entropy / np.log(4), rel=1e-4)


def test_every_kth_position_is_a_window_in_grid_attention() -> None:
    matrix = torch.eye(4).roll(1, 1).expand(4, 1, 4, 4)  # each query looks at the next key of its window
    source: Any = WindowedSource(MatrixSource(matrix), (4, 4), (2, 2), strided=True)
    rows = source.rows(0, [0], torch.arange(16))
    # Position (0, 0) is the first of window 0, whose second is two positions to the right.
    assert rows.probabilities[0, 0].nonzero().flatten().tolist() == [2]
    assert rows.visible[0, 0].nonzero().flatten().tolist() == [0, 2, 8, 10]


@pytest.mark.parametrize(
    ("number", "known", "grid"),
    [
        (64, [(56, 56)], (56, 56)),
        (16, [(56, 56)], (28, 28)),
        (6, [(14, 21)], (14, 21)),
        (4, [(10, 12)], (14, 14)),  # padded to whole windows
        (9, [], (21, 21)),
        (6, [], None),
    ],
)
def test_the_image_is_told_from_the_number_of_windows(
    number: int, known: list[tuple[int, int]], grid: tuple[int, int] | None
) -> None:
    assert grid_of(number, (7, 7), known) == grid
