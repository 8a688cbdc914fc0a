"""Framing: a record is a list of blobs, a header message and then gzip-compressed parts."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from tb_plugin_structure.records.schema import READER_VERSION
from tb_plugin_structure.v1 import columns_pb2

MAXIMUM_PART_BYTES = 1 << 30
"""A part that claims to be larger is refused before anything is decompressed."""


class RecordError(ValueError):
    """A stored record cannot be read: it is damaged, or a newer reader is needed. The message says which."""


def compress(data: bytes, level: int = 6) -> bytes:
    """gzip with no time stamp, so that equal data gives equal bytes."""
    return gzip.compress(data, compresslevel=level, mtime=0)


def decompress(data: bytes, limit: int) -> bytes:
    """The inverse, refusing output beyond `limit` bytes (a damaged or hostile record)."""
    if limit > MAXIMUM_PART_BYTES:
        raise RecordError(f"the record has a part of {limit:,} bytes; at most {MAXIMUM_PART_BYTES:,} are read")
    stream = zlib.decompressobj(wbits=31)
    try:
        out = stream.decompress(data, limit + 1)
    except zlib.error as error:
        raise RecordError(f"a part of the record is damaged: {error}") from error
    if len(out) > limit or not stream.eof:
        raise RecordError("a part of the record is damaged: its size differs from what the header says")
    return out


def check_version(kind: str, minimum_reader_version: int) -> None:
    """Raise RecordError when a record asks for a newer reader."""
    if minimum_reader_version > READER_VERSION:
        raise RecordError(
            f"this {kind} was written by a newer tb_plugin_structure (it needs reader {minimum_reader_version}, "
            f"this is reader {READER_VERSION}); upgrade the package that serves TensorBoard"
        )


def add_part(
    parts: Any,
    blobs: list[bytes],
    name: str,
    data: bytes,
    format: columns_pb2.PartFormat,
    level: int = 6,
) -> None:
    """Append a part to `parts` (the header's repeated field) and its compressed bytes to `blobs`."""
    parts.add(name=name, format=format, uncompressed_bytes=len(data))
    blobs.append(compress(data, level))


def part_bytes(parts: Iterable[columns_pb2.Part], blobs: Sequence[bytes], name: str) -> bytes:
    """Decompress one part. `blobs` includes the header as its first element."""
    for position, part in enumerate(parts):
        if part.name == name:
            if position + 1 >= len(blobs):
                break
            return decompress(blobs[position + 1], part.uncompressed_bytes)
    raise RecordError(f"the record has no part {name!r}")
