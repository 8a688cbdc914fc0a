"""A tensor's shape, split into what the size of the input decides and what the model decides."""

from __future__ import annotations

from typing import NamedTuple


class Extent(NamedTuple):
    """Rank, width (channels, hidden size) and positions (tokens, height and width) of a tensor; batch left out."""

    rank: int
    width: int
    positions: tuple[int, ...]


NOTHING = Extent(0, 0, ())

Layout = tuple[bool, str]
"""Whether channels come second in [N, C, T], and where they are in images: "second", "last", or "" (the shape says)."""


def layout(kind: str, class_name: str) -> Layout:
    """Where a module of a kind and class has its channels."""
    convolves = kind in ("convolution", "transposed_convolution")
    second = convolves or (kind in ("norm", "pool") and "1d" in class_name.lower())
    return second, "second" if convolves or kind == "pool" else "last" if kind == "linear" else ""


def extent(shape: tuple[int, ...], of_layout: Layout) -> Extent:
    """Split a shape [batch, ...] into width and positions.

    Channels come second in images [N, C, H, W] unless height equals width in the places where a channels-last
    image [N, H, W, C] has them; in [N, T, C] they come last unless a 1-d convolution says otherwise.
    """
    second, in_images = of_layout
    rank = len(shape)
    if rank == 0:
        return NOTHING
    if rank == 1:
        return Extent(1, shape[0], ())
    if rank == 2:
        return Extent(2, shape[1], ())
    if rank == 3:
        return Extent(3, shape[1], (shape[2],)) if second else Extent(3, shape[2], (shape[1],))
    if rank == 4 and (in_images == "last" or (not in_images and shape[1] == shape[2] != shape[3])):
        return Extent(4, shape[3], shape[1:3])
    return Extent(rank, shape[1], shape[2:])
