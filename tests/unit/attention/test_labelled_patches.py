"""Patches of an image may carry labels and stay patches."""

from __future__ import annotations

import torch
from torch import nn

from tests.unit.attention.capturing import captured


class TinyVision(nn.Module):
    """An 8 x 8 image as 4 x 4 patches behind `special` learned tokens, and one attention over them."""

    def __init__(self, special: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, 8, 2, stride=2)
        self.special = nn.Parameter(torch.randn(1, special, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.special.expand(len(x), -1, -1), x], dim=1)
        return self.attention(x, x, x)[0]  # type: ignore[no-any-return]


def axis_of(special: int) -> tuple[str, int, int, list[str]]:
    labels = [f"token {number}" for number in range(16 + special)]
    options = {"example": 0, "keep_maps": False, "tokens": labels}
    (axis,) = captured(TinyVision(special), torch.randn(2, 1, 8, 8), options=options).overview().header.axes
    return axis.kind, axis.grid_height, axis.special_tokens, list(axis.tokens)


def test_labelled_patches_keep_their_grid() -> None:
    kind, grid_height, special_tokens, tokens = axis_of(special=1)
    assert (kind, grid_height, special_tokens) == ("image", 4, 1)
    assert tokens[:2] == ["token 0", "token 1"]


def test_a_labelled_text_that_is_a_little_longer_than_a_map_is_text() -> None:
    assert axis_of(special=9)[:3] == ("text", 0, 0)
