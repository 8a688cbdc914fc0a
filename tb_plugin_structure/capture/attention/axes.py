"""What the positions of an attention are: tokens, patches of an image, frames of audio.

Images and audio are recognised by the convolutions that ran before: a sequence of k + h·w positions after a
convolution that gave an h × w map is that map's patches behind k special tokens.
"""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any

import numpy as np
import torch

from tb_plugin_structure.capture.attention.aside import aside
from tb_plugin_structure.capture.attention.labels import TokenLabels
from tb_plugin_structure.capture.attention.options import AttentionOptions
from tb_plugin_structure.records.table import Array
from tb_plugin_structure.v1 import attention_pb2

_MOST_SPECIAL_TOKENS = 16
_MOST_BEFORE_LABELLED_PATCHES = 5
"""A class token and four registers."""
_THUMBNAIL_WIDTH = 96


class AxisFinder:
    """Collects what one model's pass says about its positions."""

    def __init__(self, options: AttentionOptions, tokens: Any) -> None:
        self._options = options
        self.labels = TokenLabels(tokens if tokens is not None else options.tokens, options.redact)
        self._grids: list[tuple[int, int]] = []
        self._frames: set[int] = set()
        self._image: Array | None = None
        self.batch: int | None = None
        self.maps: set[tuple[int, int]] = set()
        """Channels and positions of the maps that convolutions gave."""

    def after_convolution(self, image: torch.Tensor, result: torch.Tensor) -> None:
        """A convolution ran: [batch, channels, height, width] or [batch, channels, length]."""
        if result.dim() > 2:
            self.maps.add((int(result.shape[1]), int(result.shape[2:].numel())))
        if result.dim() == 4:
            grid = (int(result.shape[-2]), int(result.shape[-1]))
            if not self._grids or self._grids[-1] != grid:
                self._grids.append(grid)
            if self.batch is None:
                self.batch = int(image.shape[0])
            if self._image is None and self._options.thumbnail and image.shape[1] in (1, 3):
                examples = self._options.examples(int(image.shape[0]))
                if examples and not image.is_meta and min(image.shape[-2:]) > 0:
                    with aside():
                        self._image = _shrunk(image[examples[0]].detach())
        elif result.dim() == 3:
            self._frames.add(int(result.shape[-1]))

    @property
    def grids(self) -> list[tuple[int, int]]:
        """Sizes of the maps that convolutions gave, the last first."""
        return [self._options.grid] if self._options.grid is not None else self._grids[::-1]

    def image_axis(self, grid: tuple[int, int]) -> attention_pb2.TokenAxis:
        """The axis of the positions of an image without special tokens."""
        return attention_pb2.TokenAxis(
            kind="image",
            length=grid[0] * grid[1],
            grid_height=grid[0],
            grid_width=grid[1],
            thumbnail_png=b"" if self._image is None else encode_png(self._image),
        )

    def axis(self, length: int, module_path: str, example: int) -> attention_pb2.TokenAxis:
        """The axis of `length` positions of an example."""
        tokens = self.labels.of(length, module_path, example)
        found = self._grid(length)
        # Patches may have labels, too; but a text may happen to be as long as a map and some tokens.
        is_image = found is not None and (
            tokens is None or length - found[0] * found[1] <= _MOST_BEFORE_LABELLED_PATCHES
        )
        if tokens is not None and not is_image:
            return attention_pb2.TokenAxis(kind="text", length=length, tokens=tokens)
        if found is not None:
            height, width = found
            return attention_pb2.TokenAxis(
                kind="image",
                length=length,
                grid_height=height,
                grid_width=width,
                special_tokens=length - height * width,
                tokens=tokens or [],
                thumbnail_png=b"" if self._image is None else encode_png(self._image),
            )
        return attention_pb2.TokenAxis(kind="audio" if length in self._frames else "positions", length=length)

    def _grid(self, length: int) -> tuple[int, int] | None:
        best: tuple[int, int] | None = None
        for height, width in self.grids:
            special = length - height * width
            if self._options.special_tokens is not None and special != self._options.special_tokens:
                continue
            # A 1 x 1 map fits any short sequence.
            fits = 0 <= special <= _MOST_SPECIAL_TOKENS and height * width > 1 and height * width >= special
            if fits and (best is None or height * width > best[0] * best[1]):
                best = (height, width)
        return best


def _shrunk(image: torch.Tensor) -> Array:
    """[channels, height, width] of any range as uint8 [height, width, 1 or 3], at most 96 pixels wide or high."""
    step = max(1, math.ceil(max(image.shape[-2:]) / _THUMBNAIL_WIDTH))
    pixels = image[..., ::step, ::step].float().cpu().numpy()
    finite = pixels[np.isfinite(pixels)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    scaled = np.nan_to_num((pixels - low) / ((high - low) or 1.0), nan=0.0, posinf=1.0, neginf=0.0)
    coded: Array = np.rint(scaled * 255).clip(0, 255).astype(np.uint8).transpose(1, 2, 0)
    return coded


def encode_png(pixels: Array) -> bytes:
    """uint8 [height, width, 1 or 3] as PNG (RFC 2083)."""
    height, width, channels = pixels.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = np.zeros((height, 1 + width * channels), np.uint8)  # filter type 0 before each row
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", header),
            chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
            chunk(b"IEND", b""),
        ]
    )
