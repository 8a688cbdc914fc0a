"""Damaged and hostile records, made from good ones: at the level of blobs, gzip, messages and columns.

Every case is a pure function of its seed, so that a failure can be repeated: ``fuzzed(good, seed)``.
"""

from __future__ import annotations

import gzip
import random
import struct
import zlib
from collections.abc import Callable, Sequence

from tb_plugin_structure.records import blobs
from tb_plugin_structure.v1 import columns_pb2

HOSTILE_NAMES = (
    "",
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "line\nbreak\r\n",
    "\u202eright to left\u202c",
    "nul\x00nul",
    "../../../../etc/passwd",
    "%2e%2e%2f",
    "a/b/c",
    "\ufeff\u200b",
    "\U0001f9e8" * 50,
    "constructor",
    "__proto__",
    "x" * 100_000,
)

_EXTREMES = (
    0,
    1,
    2,
    0x7F,
    0x80,
    0xFF,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# ---- bytes


def flip(data: bytes, random_: random.Random) -> bytes:
    """Some bits, chosen at random."""
    out = bytearray(data)
    for _ in range(random_.choice((1, 1, 1, 2, 8, 64))):
        if out:
            out[random_.randrange(len(out))] ^= 1 << random_.randrange(8)
    return bytes(out)


def cut(data: bytes, random_: random.Random) -> bytes:
    return data[: random_.randrange(len(data) + 1)]


def splice(data: bytes, random_: random.Random) -> bytes:
    """A piece of the data copied over, or into, another place; or an extreme number put in."""
    begin, end = sorted(random_.randrange(len(data) + 1) for _ in range(2))
    place = random_.randrange(len(data) + 1)
    piece = random_.choice((data[begin : min(end, begin + 64)], _varint(random_.choice(_EXTREMES)), b"\x00" * 16))
    return data[:place] + piece + data[place + random_.choice((0, len(piece))) :]


BYTES: tuple[Callable[[bytes, random.Random], bytes], ...] = (flip, cut, splice)


# ---- gzip


def _bomb(data: bytes, random_: random.Random) -> bytes:
    """Far more zeros than any header announces, in a few kilobytes."""
    return gzip.compress(b"\x00" * (8 << 20), compresslevel=9, mtime=0)


def _members(data: bytes, random_: random.Random) -> bytes:
    return data + random_.choice((data, b"trailing", gzip.compress(b"more", mtime=0)))


def _wrong_checksum(data: bytes, random_: random.Random) -> bytes:
    return data[:-8] + struct.pack("<II", random_.randrange(1 << 32), random_.choice(_EXTREMES) & 0xFFFFFFFF)


def _other_framing(data: bytes, random_: random.Random) -> bytes:
    plain = zlib.decompress(data, wbits=31)
    return random_.choice((plain, zlib.compress(plain), b"", b"\x1f\x8b", b"\x1f\x8b\x08" + b"\x00" * 40))


GZIP: tuple[Callable[[bytes, random.Random], bytes], ...] = (*BYTES, _bomb, _members, _wrong_checksum, _other_framing)


# ---- columns


def _numbers(data: bytes, random_: random.Random) -> bytes:
    """One or all of the 4-byte numbers replaced."""
    out = bytearray(data[: len(data) // 4 * 4])
    value = random_.choice((*_EXTREMES, random_.randrange(16))) & 0xFFFFFFFF
    positions = range(0, len(out), 4)
    for position in random_.sample(positions, min(len(positions), random_.choice((1, 1, 2, 1000)))):
        out[position : position + 4] = struct.pack("<I", value)
    return bytes(out)


def _damage_column(column: columns_pb2.Column, random_: random.Random) -> None:
    field = random_.choice(("values", "values", "offsets"))
    data = getattr(column, field)
    choice = random_.randrange(7)
    if choice <= 2:
        setattr(column, field, _numbers(data, random_))
    elif choice == 3:
        setattr(column, field, random_.choice(BYTES)(data, random_))
    elif choice == 4:
        setattr(column, field, data + data[-random_.randrange(1, 9) :] or b"\x00\x00\x00\x00")
    elif choice == 5:
        column.type = random_.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 99))
    else:
        column.name = random_.choice(("", "parent", "values", *HOSTILE_NAMES[:8]))


def _damage_table(data: bytes, random_: random.Random) -> bytes:
    table = columns_pb2.Table.FromString(data)
    choice = random_.randrange(8)
    if choice == 0:
        table.rows = random_.choice(_EXTREMES)
    elif choice == 1:
        del table.columns[random_.randrange(len(table.columns))]
    elif choice == 2:
        table.columns.add().CopyFrom(random_.choice(list(table.columns)))
    else:
        for _ in range(random_.choice((1, 1, 2, 5))):
            _damage_column(random_.choice(table.columns), random_)
    return table.SerializeToString()


def _damage_strings(data: bytes, random_: random.Random) -> bytes:
    pool = columns_pb2.StringPool.FromString(data)
    choice = random_.randrange(4)
    if choice == 0:
        pool.offsets = _numbers(pool.offsets, random_)
    elif choice == 1:
        pool.offsets = random_.choice(BYTES)(pool.offsets, random_)
    elif choice == 2:
        pool.utf8 = random_.choice(BYTES)(pool.utf8, random_)
    else:
        # The same number of strings, all hostile.
        count = max(len(pool.offsets) // 4 - 1, 1)
        texts = [b"", *(random_.choice(HOSTILE_NAMES).encode() for _ in range(count - 1))]
        ends = [sum(map(len, texts[: index + 1])) for index in range(len(texts))]
        pool.utf8, pool.offsets = b"".join(texts), struct.pack(f"<{len(ends) + 1}I", 0, *ends)
    return pool.SerializeToString()


# ---- records


def fuzzed(good: Sequence[bytes], header_type: type, seed: int) -> list[bytes]:
    """A damaged copy of a record (header, then gzip-compressed parts)."""
    random_ = random.Random(seed)
    stored = list(good)
    header = header_type.FromString(stored[0])
    parts = list(header.parts)
    choice = random_.randrange(10)
    if choice == 0:  # header bytes
        stored[0] = random_.choice(BYTES)(stored[0], random_)
    elif choice == 1:  # header fields
        _damage_header(header, random_)
        stored[0] = header.SerializeToString()
    elif choice == 2:  # blobs missing, doubled, exchanged
        random_.shuffle(stored) if random_.random() < 0.5 else stored.pop(random_.randrange(len(stored)))
    elif choice == 3:  # gzip bytes
        index = random_.randrange(1, len(stored))
        stored[index] = random_.choice(GZIP)(stored[index], random_)
    elif choice == 4:  # message bytes within a part whose size is announced as it is
        _replace_part(header, stored, random_.randrange(len(parts)), lambda data: random_.choice(BYTES)(data, random_))
    else:  # columns
        tables = [i for i, part in enumerate(parts) if part.format == columns_pb2.PART_FORMAT_TABLE]
        strings = [i for i, part in enumerate(parts) if part.format == columns_pb2.PART_FORMAT_STRINGS]
        if strings and random_.random() < 0.15:
            _replace_part(header, stored, strings[0], lambda data: _damage_strings(data, random_))
        else:
            _replace_part(header, stored, random_.choice(tables), lambda data: _damage_table(data, random_))
    return stored


def fuzzed_blobs(good: Sequence[bytes], header_type: type, seed: int) -> list[bytes]:
    """A damaged copy of a record whose blobs have no names: attention in full resolution, or a plan."""
    random_ = random.Random(seed)
    stored = list(good)
    choice = random_.randrange(6)
    if choice == 0 and len(stored) > 1:
        random_.shuffle(stored) if random_.random() < 0.5 else stored.pop(random_.randrange(len(stored)))
    elif choice <= 2 and len(stored) > 1:
        index = random_.randrange(1, len(stored))
        stored[index] = random_.choice(GZIP if stored[index][:2] == b"\x1f\x8b" else BYTES)(stored[index], random_)
    elif choice == 3:
        stored[0] = random_.choice(BYTES)(stored[0], random_)
    else:
        header = header_type.FromString(stored[0])
        _damage_header(header, random_)
        stored[0] = header.SerializeToString()
    return stored


def _replace_part(header: object, stored: list[bytes], index: int, change: Callable[[bytes], bytes]) -> None:
    data = change(zlib.decompress(stored[index + 1], wbits=31))
    stored[index + 1] = blobs.compress(data, level=1)
    header.parts[index].uncompressed_bytes = len(data)  # type: ignore[attr-defined]
    stored[0] = header.SerializeToString()  # type: ignore[attr-defined]


def _damage_header(message: object, random_: random.Random) -> None:
    """Some scalar fields, at any depth, get extreme or hostile values."""
    descriptor = message.DESCRIPTOR  # type: ignore[attr-defined]
    for field in descriptor.fields:
        value = getattr(message, field.name)
        repeated = hasattr(value, "__len__") and not isinstance(value, (str, bytes))
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue
        if field.message_type is not None:
            for item in value if repeated else [value] if message.HasField(field.name) else []:  # type: ignore[attr-defined]
                _damage_header(item, random_)
        elif random_.random() < 0.2:
            if repeated and len(value):
                value[random_.randrange(len(value))] = _extreme(field, random_)
            elif not repeated:
                setattr(message, field.name, _extreme(field, random_))


def _extreme(field: object, random_: random.Random) -> object:
    cpp = field.cpp_type  # type: ignore[attr-defined]
    if cpp == 9:
        kind = field.type  # type: ignore[attr-defined]
        return b"\x89PNG<script>" if kind == 12 else random_.choice(HOSTILE_NAMES)
    if cpp == 7:
        return bool(random_.getrandbits(1))
    if cpp in (5, 6):
        return random_.choice((float("nan"), float("inf"), -float("inf"), -1.0, 1e308))
    bits = {1: 31, 2: 63, 3: 32, 4: 64}.get(cpp)
    if bits is None:
        return random_.choice((0, 1, 2))  # an enum
    return min(random_.choice(_EXTREMES), (1 << bits) - 1)
