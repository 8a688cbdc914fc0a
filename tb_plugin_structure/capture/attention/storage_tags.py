"""Tags on storages: what the observer knows about a tensor it has seen before, without keeping it alive.

A tag holds for a storage, so that views and in-place operators keep it; where its values lie is given by strides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

_MOST_TAGS = 256


@dataclass(frozen=True)
class Tag:
    """What a storage holds.

    Attributes:
        kind: "weight" (a parameter or a copy of one), "noise" (random numbers, such as a dropout mask), "scores",
            "probabilities", or "context" (values summed with a softmax whose scores are no product: the inner half of
            linear attention).
        offset: Position of the tagged values in the storage.
        stride, size: Of the key axis; size 0 when the axis is no longer known.
        start, keys: Keys are [start, start + keys) of that axis; the rest are columns of no key (learned sinks).
        width: Over how many values the product of query and key summed.
        row_stride, row_size: Of the query axis; size 0 when it is not known.
        product_rows: Rows of the product that the scores come from; 0 when it is not known. It stays when a view folds
            the rows into another axis.
        shape: Shape of the tagged tensor, as the model had it.
        candidate: The softmax, for probabilities.
        combined: Further softmaxes that went into the same values.
        altered: Probabilities after arithmetic other than dropout (a gate, a power, a new normalisation).
        exponential: Scores after exp; "divided" once a number of each row divided them.
    """

    kind: str
    offset: int = 0
    stride: int = 1
    size: int = 0
    start: int = 0
    keys: int = 0
    width: int = 0
    row_stride: int = 1
    row_size: int = 0
    shape: tuple[int, ...] = ()
    candidate: Candidate | None = None
    combined: tuple[Candidate, ...] = ()
    product_rows: int = 0
    altered: bool = False
    exponential: str = ""


@dataclass(eq=False)
class Candidate:
    """A softmax whose result may be attention.

    Attributes:
        scored: Its scores are a product of two activations.
        width: As in Tag.
        extra: Columns that belong to no key.
        record: What was computed from it right away, an object of the listener; None when nothing was.
        call: The module call in which the softmax ran.
        product_rows: As in Tag.
        lacking: Of the row that sums to least, how much it lacks to 1; for what is normalised without a softmax.
        state: "" until a product reads it, then "whole"; "pieces" (a band or blocks of it), "factor" (multiplied with
            other probabilities), "weight" (multiplied with a parameter), "mixed" (heads are mixed first), "combined"
            (with another softmax), "altered" (scaled or gated first), "absorbed" (what became of it is recorded).
    """

    scored: bool
    width: int
    extra: int
    call: Any
    record: Any = None
    state: str = ""
    product_rows: int = 0
    lacking: float = 0.0


WEIGHT = Tag("weight")
NOISE = Tag("noise")


class TagTable:
    """Storage -> tag. Entries of storages that are gone are dropped; at most 256 are kept.

    Args:
        weights: The parameters of the observed models, tagged for good.
    """

    def __init__(self, weights: Iterable[torch.Tensor]) -> None:
        self._tags: dict[int, tuple[StorageWeakRef, Tag]] = {}
        self._weights: set[int] = set()
        for weight in weights:
            key = storage_key(weight)
            if key is not None:
                self._weights.add(key)

    def __bool__(self) -> bool:
        return bool(self._tags)

    def get(self, tensor: torch.Tensor) -> Tag | None:
        """What is known about the tensor's storage."""
        key = storage_key(tensor)
        if key is None:
            return None
        if key in self._weights:
            return WEIGHT
        entry = self._tags.get(key)
        if entry is None:
            return None
        if _gone(entry[0]):
            del self._tags[key]
            return None
        return entry[1]

    def put(self, tensor: torch.Tensor, tag: Tag) -> None:
        key = storage_key(tensor)
        if key is None:
            return
        if len(self._tags) >= _MOST_TAGS:
            self._tags = {at: entry for at, entry in self._tags.items() if not _gone(entry[0])}
            while len(self._tags) >= _MOST_TAGS:
                self._tags.pop(next(iter(self._tags)))
        self._tags[key] = (_weak(tensor), tag)

    def put_foreign_weight(self, weight: torch.Tensor) -> None:
        """A parameter of a module that is no part of the observed models."""
        key = storage_key(weight)
        if key is not None and key not in self._weights and key not in self._tags:
            self.put(weight, WEIGHT)

    def put_weight_copy(self, output: torch.Tensor, weight: torch.Tensor) -> None:
        if storage_key(output) != storage_key(weight):
            self.put(output, WEIGHT)


def storage_key(tensor: torch.Tensor) -> int | None:
    """Identity of a tensor's storage; None for tensors without one (nested, sparse, quantised by others)."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError, AttributeError):
        return None


def _weak(tensor: torch.Tensor) -> StorageWeakRef:
    """Keeps the storage's identity from being given to another one, but not its memory."""
    return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]


def _gone(reference: StorageWeakRef) -> bool:
    return bool(reference.expired())  # type: ignore[no-untyped-call]


def key_axis(tag: Tag, view: torch.Tensor) -> int | None:
    """The axis of a view of the tagged storage that runs over keys."""
    if not tag.size:
        return None
    for axis in range(view.dim() - 1, -1, -1):
        if view.shape[axis] == tag.size and (view.stride(axis) == tag.stride or tag.size == 1):
            return axis
    for axis in range(view.dim() - 1, -1, -1):
        if 1 < view.shape[axis] < tag.size and view.stride(axis) == tag.stride:
            return axis
    return None


def row_axis(tag: Tag, view: torch.Tensor, keys_at: int | None) -> int | None:
    """The axis of a view of the tagged storage that runs over queries."""
    if not tag.row_size:
        return None
    for axis in range(view.dim() - 1, -1, -1):
        if axis != keys_at and view.shape[axis] == tag.row_size and view.stride(axis) == tag.row_stride:
            return axis
    return None


def queries_of_product(tag: Tag, scores: torch.Tensor, dim: int) -> int:
    """How many queries each product behind these scores has, when a softmax runs over `dim`; 0 when it is not known."""
    keys_at = key_axis(tag, scores)
    runs_over_rows = keys_at != dim and row_axis(tag, scores, keys_at) == dim
    return tag.size if runs_over_rows else tag.product_rows


def rows_and_keys_last(tag: Tag | None, scores: torch.Tensor, dim: int) -> list[int]:
    """Order of the axes that brings the queries to the last but one and `dim`, the keys, to the last place.

    A product has two axes of its own; the softmax runs over one of them, the other one are the queries.
    """
    rest = [axis for axis in range(scores.dim()) if axis != dim]
    if tag is not None and tag.kind == "scores":
        keys_at = key_axis(tag, scores)
        rows_at = row_axis(tag, scores, keys_at)
        queries = keys_at if rows_at == dim else rows_at
        if queries is not None and queries != dim:
            rest.remove(queries)
            rest.append(queries)
    return [*rest, dim]
