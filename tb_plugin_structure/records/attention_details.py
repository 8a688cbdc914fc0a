"""One head in full resolution, in whichever form it is stored: any rows of it on demand.

Four forms, by what is smallest at a guaranteed error: the half-precision matrix, query and key with the log-sum-exp of
each row (linear in the number of positions), tiles of square-root codes, and single rows.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from tb_plugin_structure.records import blobs
from tb_plugin_structure.records.attention import decode_matrix
from tb_plugin_structure.records.table import Array
from tb_plugin_structure.v1 import attention_pb2

TILE_SIDE = 256
MAXIMUM_POSITIONS = 1 << 20
MAXIMUM_WIDTH = 4_096
QUERY_KEY_ERROR = 1e-3
"""Heads whose rows come out of query and key with a larger error are stored in another form."""

ReadBlob = Callable[[int], bytes]


class StoredHead(ABC):
    """Probabilities of one head.

    Attributes:
        queries, keys: Positions.
        guarantee: How exact the values are, in words.
        rows_stored: Query positions that can be read; None for all.
    """

    rows_stored: Array | None = None

    def __init__(self, detail: attention_pb2.AttentionDetail) -> None:
        self.queries, self.keys = detail.query_length, detail.key_length
        self.guarantee = guarantee_of(detail)
        if max(self.queries, self.keys) > MAXIMUM_POSITIONS:
            raise blobs.RecordError(f"{_name(detail)} has more than {MAXIMUM_POSITIONS:,} positions")

    @abstractmethod
    def window(self, rows: slice, columns: slice) -> Array:
        """Probabilities of consecutive queries and keys, float32; rows that are not stored are NaN."""

    def cost(self, rows: int, columns: int) -> int:
        """About how many values are touched to read a window of this size."""
        return rows * columns

    def pooled(self, rows: slice, columns: slice, row_cells: int, column_cells: int) -> Array:
        """The largest probability of each of row_cells x column_cells blocks of a window, float32.

        Cell c of n covers positions [c · length // n, (c + 1) · length // n), as in the overviews.
        """
        height, width = rows.stop - rows.start, columns.stop - columns.start
        row_cells, column_cells = max(1, min(row_cells, height)), max(1, min(column_cells, width))
        begins = np.arange(column_cells) * width // column_cells
        result = np.empty((row_cells, column_cells), np.float32)
        bounds = np.arange(row_cells + 1) * height // row_cells
        # Cells of a block of rows at a time: a window of a long sequence never exists as a whole.
        block = max(1, (1 << 22) // max(1, width * max(1, height // row_cells)))
        for first in range(0, row_cells, block):
            last = min(row_cells, first + block)
            begin, end = int(bounds[first]), int(bounds[last])
            values = self.window(slice(rows.start + begin, rows.start + end), columns)
            with np.errstate(invalid="ignore"):
                narrow = np.fmax.reduceat(values, begins, axis=1) if column_cells < width else values
                result[first:last] = np.fmax.reduceat(narrow, bounds[first:last] - begin, axis=0)
        return result


class MatrixHead(StoredHead):
    def __init__(self, detail: attention_pb2.AttentionDetail, blob: bytes) -> None:
        super().__init__(detail)
        self._matrix = decode_matrix(detail, blob)

    def window(self, rows: slice, columns: slice) -> Array:
        return self._matrix[rows, columns]


class QueryKeyHead(StoredHead):
    """softmax(scale · q kᵀ) row by row, from the stored log-sum-exp."""

    def __init__(self, detail: attention_pb2.AttentionDetail, position: int, read: ReadBlob) -> None:
        super().__init__(detail)
        form = detail.form
        width = form.width
        if not 0 < width <= MAXIMUM_WIDTH or form.dtype not in ("float16", "bfloat16"):
            raise blobs.RecordError(f"{_name(detail)} is stored in a form that is not known")
        query_bytes, key_bytes = 2 * width * self.queries, 2 * width * self.keys
        stored = _exactly(detail, read(detail.first_blob + position), query_bytes + 4 * self.queries)
        self._query = _sixteen_bits(stored[:query_bytes], form.dtype).reshape(self.queries, width)
        self._log_sum_exp = np.frombuffer(stored[query_bytes:], "<f4")
        if position >= len(form.key_blobs):
            raise blobs.RecordError(f"{_name(detail)} has no keys for a head")
        keys = _exactly(detail, read(form.key_blobs[position]), key_bytes)
        self._key = _sixteen_bits(keys, form.dtype).reshape(self.keys, width)
        self._form = form
        self._slope = form.alibi_slopes[position] if position < len(form.alibi_slopes) else 0.0
        self._begin = self._end = self._seen = None
        if form.mask_blob:
            mask = _exactly(detail, read(form.mask_blob), 8 * self.queries + self.keys)
            bounds = np.frombuffer(mask[: 8 * self.queries], "<i4").reshape(2, self.queries)
            self._begin, self._end = bounds
            self._seen = np.frombuffer(mask[8 * self.queries :], np.uint8) != 0

    def cost(self, rows: int, columns: int) -> int:
        return rows * columns * max(1, self._form.width // 16)

    def window(self, rows: slice, columns: slice) -> Array:
        form = self._form
        with np.errstate(over="ignore", invalid="ignore"):
            scores: Array = (self._query[rows] @ self._key[columns].T) * np.float32(form.scale)
            if form.softcap:
                scores = np.tanh(scores / form.softcap) * np.float32(form.softcap)
            row = np.arange(rows.start, rows.stop)[:, None]
            column = np.arange(columns.start, columns.stop)[None, :]
            if self._slope:
                scores -= np.float32(self._slope) * np.abs(row + form.alibi_offset - column).astype(np.float32)
            scores -= self._log_sum_exp[rows, None]
            probabilities: Array = np.exp(scores, out=scores)
        if self._begin is not None and self._end is not None and self._seen is not None:
            hidden = (column < self._begin[rows, None]) | (column >= self._end[rows, None]) | ~self._seen[columns]
            probabilities[hidden] = 0.0
        return probabilities


class TiledHead(StoredHead):
    def __init__(self, detail: attention_pb2.AttentionDetail, blob: bytes) -> None:
        super().__init__(detail)
        down, across = -(-self.queries // TILE_SIDE), -(-self.keys // TILE_SIDE)
        count = 1 + down * across
        if len(blob) < 4 + 4 * count or struct.unpack_from("<I", blob)[0] != count:
            raise blobs.RecordError(f"the stored attention of {_name(detail)} is damaged")
        ends = 4 + 4 * count + np.cumsum(np.frombuffer(blob, "<u4", count, 4), dtype=np.int64)
        if ends[-1] != len(blob):
            raise blobs.RecordError(f"the stored attention of {_name(detail)} is damaged")
        self._detail, self._blob, self._ends, self._across = detail, blob, ends, across
        self._maxima = np.frombuffer(_exactly(detail, self._piece(0), 4 * self.queries), "<f4")
        self._tile = lru_cache(maxsize=16)(self._read_tile)

    def _piece(self, position: int) -> bytes:
        begin = 4 + 4 * len(self._ends) if position == 0 else int(self._ends[position - 1])
        return self._blob[begin : int(self._ends[position])]

    def _read_tile(self, down: int, across: int) -> Array:
        height = min(TILE_SIDE, self.queries - down * TILE_SIDE)
        width = min(TILE_SIDE, self.keys - across * TILE_SIDE)
        codes = _exactly(self._detail, self._piece(1 + down * self._across + across), height * width)
        return np.frombuffer(codes, np.uint8).reshape(height, width)

    def window(self, rows: slice, columns: slice) -> Array:
        codes = np.zeros((rows.stop - rows.start, columns.stop - columns.start), np.uint8)
        for down in range(rows.start // TILE_SIDE, -(-rows.stop // TILE_SIDE)):
            for across in range(columns.start // TILE_SIDE, -(-columns.stop // TILE_SIDE)):
                tile = self._tile(down, across)
                top, left = down * TILE_SIDE, across * TILE_SIDE
                r = slice(max(rows.start, top), min(rows.stop, top + len(tile)))
                c = slice(max(columns.start, left), min(columns.stop, left + tile.shape[1]))
                codes[r.start - rows.start : r.stop - rows.start, c.start - columns.start : c.stop - columns.start] = (
                    tile[r.start - top : r.stop - top, c.start - left : c.stop - left]
                )
        result: Array = _SQUARES[codes] * self._maxima[rows, None]
        return result


class RowsHead(StoredHead):
    def __init__(self, detail: attention_pb2.AttentionDetail, blob: bytes) -> None:
        super().__init__(detail)
        rows = np.asarray(detail.rows, np.int64)
        if len(rows) and (rows.max() >= self.queries or (np.diff(rows) <= 0).any()):
            raise blobs.RecordError(f"the stored attention of {_name(detail)} is damaged")
        data = _exactly(detail, blob, 2 * len(rows) * self.keys)
        self._values = np.frombuffer(data, "<f2").reshape(len(rows), self.keys)
        self.rows_stored = rows

    def window(self, rows: slice, columns: slice) -> Array:
        assert self.rows_stored is not None
        result = np.full((rows.stop - rows.start, columns.stop - columns.start), np.nan, np.float32)
        inside = (self.rows_stored >= rows.start) & (self.rows_stored < rows.stop)
        result[self.rows_stored[inside] - rows.start] = self._values[inside, columns]
        return result


_SQUARES = (np.arange(256, dtype=np.float32) / 255.0) ** 2


FORMS = {
    attention_pb2.ATTENTION_CODEC_MATRIX_F16: "matrix",
    attention_pb2.ATTENTION_CODEC_QUERY_KEY: "query and key",
    attention_pb2.ATTENTION_CODEC_TILES_U8: "tiles",
    attention_pb2.ATTENTION_CODEC_ROWS_F16: "rows",
}
"""Codec -> its name for people."""


def guarantee_of(detail: attention_pb2.AttentionDetail) -> str:
    """How exact the stored values are, in words."""
    match detail.codec:
        case attention_pb2.ATTENTION_CODEC_MATRIX_F16:
            return "within 0.00025 of float32"
        case attention_pb2.ATTENTION_CODEC_QUERY_KEY:
            error = max(detail.form.checked_error, 1e-6)
            return f"from query and key, within {error:.1g} of float32 (compared when written)"
        case attention_pb2.ATTENTION_CODEC_TILES_U8:
            return "within 0.4 % of the row's largest probability"
        case attention_pb2.ATTENTION_CODEC_ROWS_F16:
            return "within 0.00025 of float32, chosen queries only"
    return "not known"


def open_head(detail: attention_pb2.AttentionDetail, head: int, read: ReadBlob) -> StoredHead:
    """The stored head with number `head`; `read` gives the record's blobs by index.

    Raises:
        RecordError: When the record is damaged, or has no such head.
    """
    if head not in detail.heads:
        raise blobs.RecordError(f"{_name(detail)} has no head {head}")
    position = list(detail.heads).index(head)
    if detail.codec == attention_pb2.ATTENTION_CODEC_QUERY_KEY:
        return QueryKeyHead(detail, position, read)
    kinds: dict[int, Callable[[attention_pb2.AttentionDetail, bytes], StoredHead]] = {
        attention_pb2.ATTENTION_CODEC_MATRIX_F16: MatrixHead,
        attention_pb2.ATTENTION_CODEC_TILES_U8: TiledHead,
        attention_pb2.ATTENTION_CODEC_ROWS_F16: RowsHead,
    }
    kind = kinds.get(detail.codec)
    if kind is None:
        raise blobs.RecordError(f"the attention of {_name(detail)} is stored in a form that this version does not know")
    return kind(detail, read(detail.first_blob + position))


def encode_query(query: Array, log_sum_exp: Array) -> bytes:
    """Blob of a head in the codec QUERY_KEY: `query` is [queries, width] in any 16-bit type, `log_sum_exp` float32."""
    return blobs.compress(query.tobytes() + np.ascontiguousarray(log_sum_exp, "<f4").tobytes(), level=1)


def encode_key(key: Array) -> bytes:
    return blobs.compress(key.tobytes(), level=1)


def encode_visible(begin: Array, end: Array, seen: Array) -> bytes:
    """Which keys each row sees: [begin, end) but for those where `seen` is False."""
    bounds = np.stack([begin, end]).astype("<i4")
    return blobs.compress(bounds.tobytes() + np.asarray(seen, np.uint8).tobytes())


def encode_tiles(queries: int, keys: int, rows: Callable[[int, int], Array]) -> bytes:
    """Blob of a head in the codec TILES_U8; `rows(begin, end)` gives float32 rows, asked for 256 at a time."""
    maxima = np.zeros(queries, np.float32)
    pieces: list[bytes] = [b""]
    for begin in range(0, queries, TILE_SIDE):
        end = min(queries, begin + TILE_SIDE)
        values = np.nan_to_num(rows(begin, end), nan=0.0, posinf=0.0, neginf=0.0).clip(0)
        largest = values.max(1, initial=0.0)
        maxima[begin:end] = largest
        codes = np.rint(np.sqrt(values / np.where(largest > 0, largest, 1.0)[:, None]) * 255).astype(np.uint8)
        for left in range(0, keys, TILE_SIDE):
            pieces.append(blobs.compress(codes[:, left : left + TILE_SIDE].tobytes(), level=1))
    pieces[0] = blobs.compress(maxima.astype("<f4").tobytes(), level=1)
    return b"".join([struct.pack(f"<I{len(pieces)}I", len(pieces), *map(len, pieces)), *pieces])


def encode_rows(rows: Array) -> bytes:
    """Blob of a head in the codec ROWS_F16: `rows` is [rows, keys]."""
    return blobs.compress(np.ascontiguousarray(rows, "<f2").tobytes(), level=1)


def _exactly(detail: attention_pb2.AttentionDetail, blob: bytes, size: int) -> bytes:
    data = blobs.decompress(blob, size)
    if len(data) != size:
        raise blobs.RecordError(f"the stored attention of {_name(detail)} is damaged")
    return data


def _sixteen_bits(data: bytes, dtype: str) -> Array:
    if dtype == "float16":
        return np.frombuffer(data, "<f2").astype(np.float32)
    # bfloat16 is the upper half of float32
    return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)


def _name(detail: attention_pb2.AttentionDetail) -> str:
    return repr(detail.module_path[:200]) if detail.module_path else "the model"


__all__: Sequence[str] = [
    "FORMS",
    "QUERY_KEY_ERROR",
    "TILE_SIDE",
    "MatrixHead",
    "QueryKeyHead",
    "RowsHead",
    "StoredHead",
    "TiledHead",
    "encode_key",
    "encode_query",
    "encode_rows",
    "encode_tiles",
    "encode_visible",
    "guarantee_of",
    "open_head",
]
