"""Pictures of what a convolutional network sees and has learned: tensors in, [height, width, 3] bytes out.

Every function works on the tensor's device and fetches one small picture.
"""

from __future__ import annotations

import math
import struct
import zlib

import torch
from torch import Tensor

Picture = Tensor
"""[height, width, 3], uint8, on the CPU."""

LARGEST_SIDE = 224
"""A single map or input is averaged down to this many pixels a side."""

SMALLEST_SIDE = 24
"""Smaller maps and kernels are enlarged, each value a square of pixels."""

MAXIMUM_TILES = 64
MAXIMUM_COLUMNS = 1_024
"""Kernels with more input channels than this are shown by their mean over input channels: no decomposition."""


def of_inputs(images: Tensor, samples: int) -> Picture:
    """[N, 1 or 3, H, W] -> the first samples side by side, each stretched from its least to its largest value."""
    shown = _finite(images[:samples].expand(-1, 3, -1, -1))
    low, high = shown.amin((1, 2, 3), keepdim=True), shown.amax((1, 2, 3), keepdim=True)
    return _tiled((shown - low) / (high - low).clamp_min(1e-12), columns=samples)


def of_maximum(maps: Tensor, samples: int) -> Picture:
    """[N, C, H, W] -> for each of the first samples, the largest value over channels at each position."""
    shown = _finite(maps[:samples]).amax(1, keepdim=True)
    return _tiled(_stretched(shown).expand(-1, 3, -1, -1), columns=samples)


def of_channels(maps: Tensor, samples: int, channels: int) -> Picture:
    """[N, C, H, W] -> one row a sample, with some channels, evenly spaced; each stretched on its own."""
    count = min(channels, maps.shape[1])
    chosen = torch.linspace(0, maps.shape[1] - 1, count).round().long().to(maps.device)
    shown = _finite(maps[:samples]).index_select(1, chosen).flatten(0, 1).unsqueeze(1)
    return _tiled(_stretched(shown).expand(-1, 3, -1, -1), columns=count)


def of_kernels(weight: Tensor) -> Picture:
    """[out, in, kh, kw] -> one tile an output channel.

    Three input channels are red, green and blue, one is grey; of more, the three directions in which the kernels'
    columns vary most (PCA) are. Zero is middle grey, all tiles share one scale.
    """
    weight = _finite(weight)
    if weight.shape[1] not in (1, 3):
        weight = _principal(weight)
    scale = weight.abs().amax((0, 2, 3), keepdim=True).clamp_min(1e-12)
    if weight.shape[1] == 3:
        scale = scale.amax().reshape(1, 1, 1, 1)
    shown = (0.5 + 0.5 * weight / scale)[:MAXIMUM_TILES].expand(-1, 3, -1, -1)
    return _tiled(shown, columns=math.ceil(math.sqrt(len(shown))))


def _principal(weight: Tensor) -> Tensor:
    """[out, in, kh, kw] -> [out, 3, kh, kw], or [out, 1, kh, kw] where there is nothing to tell apart. The sign of each
    direction is such that its largest part is positive, so that pictures of successive steps can be compared."""
    channels = weight.shape[1]
    if not 3 < channels <= MAXIMUM_COLUMNS:
        return weight.mean(1, keepdim=True)
    columns = weight.transpose(0, 1).reshape(channels, -1).double()
    columns = columns - columns.mean(1, keepdim=True)
    directions = torch.linalg.eigh(columns @ columns.T).eigenvectors[:, -3:].flip(1)
    largest = directions.abs().argmax(0)
    directions = directions * directions[largest, torch.arange(3, device=weight.device)].sign()
    parts: Tensor = directions.T @ columns
    return parts.reshape(3, len(weight), *weight.shape[2:]).transpose(0, 1).float()


def _finite(values: Tensor) -> Tensor:
    return torch.nan_to_num(values.detach().float(), 0.0, 0.0, 0.0)


def _stretched(maps: Tensor) -> Tensor:
    low, high = maps.amin((1, 2, 3), keepdim=True), maps.amax((1, 2, 3), keepdim=True)
    return (maps - low) / (high - low).clamp_min(1e-12)


def _tiled(tiles: Tensor, columns: int) -> Picture:
    """[n, 3, h, w] in 0..1 -> tiles in rows of `columns`, one pixel of black between them."""
    side = max(tiles.shape[2:])
    if side > LARGEST_SIDE:
        size = [max(1, round(length * LARGEST_SIDE / side)) for length in tiles.shape[2:]]
        tiles = torch.nn.functional.interpolate(tiles, size, mode="area")
    elif side < SMALLEST_SIDE:
        enlarged = math.ceil(SMALLEST_SIDE / side)
        tiles = tiles.repeat_interleave(enlarged, 2).repeat_interleave(enlarged, 3)
    tiles = torch.nn.functional.pad(tiles, (0, 1, 0, 1))
    rows = math.ceil(len(tiles) / columns)
    tiles = torch.nn.functional.pad(tiles, (0, 0, 0, 0, 0, 0, 0, rows * columns - len(tiles)))
    _, _, height, width = tiles.shape
    joined = tiles.reshape(rows, columns, 3, height, width).permute(0, 3, 1, 4, 2)
    return (joined.reshape(rows * height, columns * width, 3)[:-1, :-1] * 255).round().to(torch.uint8).cpu()


def png(picture: Picture) -> bytes:
    """A picture as a PNG file (PNG specification, 8-bit RGB, no filter)."""
    height, width, _ = picture.shape
    rows = torch.nn.functional.pad(picture.reshape(height, 3 * width), (1, 0))  # a zero before each row: no filter
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.contiguous().numpy().tobytes(), 6)), (b"IEND", b""))
    parts = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)
