"""Framing: a record is a list of blobs, a header message and then gzip-compressed parts."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from tb_plugin_structure.records.schema import READER_VERSION
from tb_plugin_structure.v1 import columns_pb2

MAXIMUM_RECORD_BYTES = 512 << 20
"""A record whose parts together claim to be larger is refused before anything is decompressed."""

MAXIMUM_HEADER_BYTES = 2 << 20
MAXIMUM_JSON_BYTES = 8 << 20
"""Messages and JSON of many tiny pieces take up to a hundred times their size in memory."""

MAXIMUM_TABLE_FIELDS = 1_000

_CHECKED_AT_ONCE = 1 << 16


class RecordError(ValueError):
    """A stored record cannot be read: it is damaged, or a newer reader is needed. The message says which."""


def compress(data: bytes, level: int = 3) -> bytes:
    """gzip with no time stamp, so that equal data gives equal bytes.

    Level 3 takes half the time of level 6 on a record's columns, for 6 % more bytes.
    """
    return gzip.compress(data, compresslevel=level, mtime=0)


def decompress(data: bytes, limit: int) -> bytes:
    """The inverse, refusing output beyond `limit` bytes (a damaged or hostile record)."""
    if limit > MAXIMUM_RECORD_BYTES:
        raise RecordError(f"the record has a part of {limit:,} bytes; at most {MAXIMUM_RECORD_BYTES:,} are read")
    stream = zlib.decompressobj(wbits=31)
    try:
        out = stream.decompress(data, limit + 1)
    except zlib.error as error:
        raise RecordError(f"a part of the record is damaged: {error}") from error
    if len(out) > limit or not stream.eof or stream.unused_data:
        raise RecordError("a part of the record is damaged: its size differs from what the header says")
    return out


def check_compressed(data: bytes, limit: int) -> None:
    """Raises RecordError where :func:`decompress` would, in little memory: the bytes can be passed on as they are."""
    if limit > MAXIMUM_RECORD_BYTES:
        raise RecordError(f"the record has a part of {limit:,} bytes; at most {MAXIMUM_RECORD_BYTES:,} are read")
    stream = zlib.decompressobj(wbits=31)
    size, position = 0, 0
    try:
        while position < len(data) and not stream.eof and size <= limit:
            rest = data[position : position + _CHECKED_AT_ONCE]
            position += len(rest)
            # Behind the stream's end the rest stays what it is (`unused_data`), however often it is handed in.
            while rest and not stream.eof and size <= limit:
                size += len(stream.decompress(rest, _CHECKED_AT_ONCE))
                rest = stream.unconsumed_tail
        if size <= limit:  # else flush() would put all that is left into memory
            size += len(stream.flush())
    except zlib.error as error:
        raise RecordError(f"a part of the record is damaged: {error}") from error
    if size > limit or not stream.eof or stream.unused_data or position < len(data):
        raise RecordError("a part of the record is damaged: its size differs from what the header says")


def check_version(kind: str, minimum_reader_version: int) -> None:
    """Raise RecordError when a record asks for a newer reader."""
    if minimum_reader_version > READER_VERSION:
        raise RecordError(
            f"this {kind} was written by a newer tb_plugin_structure (it needs reader {minimum_reader_version}, "
            f"this is reader {READER_VERSION}); upgrade the package that serves TensorBoard"
        )


def check_header(stored: Sequence[bytes], kind: str) -> bytes:
    """Blob 0 of a record, when it is there and of a sensible size."""
    if not stored:
        raise RecordError(f"the {kind} record is empty")
    if len(stored[0]) > MAXIMUM_HEADER_BYTES:
        raise RecordError(
            f"the header of a {kind} record has {len(stored[0]):,} bytes; at most {MAXIMUM_HEADER_BYTES:,} are read"
        )
    return stored[0]


def parse_table(data: bytes) -> columns_pb2.Table:
    """A Table message; one of millions of empty columns would take gigabytes and is refused unparsed."""
    fields, position = 0, 0
    while position < len(data):
        fields += 1
        if fields > MAXIMUM_TABLE_FIELDS:
            raise RecordError(f"a table of the record has more than {MAXIMUM_TABLE_FIELDS:,} columns")
        key, position = _varint(data, position)
        if key & 7 == 2:
            length, position = _varint(data, position)
            position += length
        elif key & 7 == 0:
            _, position = _varint(data, position)
        else:
            raise RecordError("a table of the record is damaged: it is not a Table message")
    return columns_pb2.Table.FromString(data)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """(value, position after it) of a base-128 number."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise RecordError("a table of the record is damaged: it is not a Table message")


def add_part(
    parts: Any,
    blobs: list[bytes],
    name: str,
    data: bytes,
    format: columns_pb2.PartFormat,
) -> None:
    """Append a part to `parts` (the header's repeated field) and its compressed bytes to `blobs`."""
    parts.add(name=name, format=format, uncompressed_bytes=len(data))
    blobs.append(compress(data))


def seal(header: Any, blobs: list[bytes]) -> None:
    """Put the header, complete now, in front of its parts.

    Raises ValueError when the record would be too large to be read.
    """
    blobs[0] = header.SerializeToString(deterministic=True)
    total = sum(part.uncompressed_bytes for part in header.parts)
    if len(blobs[0]) > MAXIMUM_HEADER_BYTES or total > MAXIMUM_RECORD_BYTES:
        raise ValueError(
            f"the record of {header.model[:80]!r} has a header of {len(blobs[0]):,} bytes and parts of {total:,}; "
            f"at most {MAXIMUM_HEADER_BYTES:,} and {MAXIMUM_RECORD_BYTES:,} can be read; record a part of the model"
        )


def part_bytes(
    parts: Iterable[columns_pb2.Part], blobs: Sequence[bytes], name: str, limit: int = MAXIMUM_RECORD_BYTES
) -> bytes:
    """Decompress one part of at most `limit` bytes. `blobs` includes the header as its first element."""
    parts = list(parts)
    total = sum(part.uncompressed_bytes for part in parts)
    if total > MAXIMUM_RECORD_BYTES:
        raise RecordError(f"the record's parts have {total:,} bytes; at most {MAXIMUM_RECORD_BYTES:,} are read")
    for position, part in enumerate(parts):
        if part.name == name:
            if position + 1 >= len(blobs):
                break
            if part.uncompressed_bytes > limit:
                raise RecordError(
                    f"the part {name!r} has {part.uncompressed_bytes:,} bytes; at most {limit:,} are read"
                )
            return decompress(blobs[position + 1], part.uncompressed_bytes)
    raise RecordError(f"the record has no part {name!r}")
