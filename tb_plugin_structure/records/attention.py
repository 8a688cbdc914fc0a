"""Attention records as objects: overviews of all heads, and full resolution of chosen ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tb_plugin_structure.records import blobs
from tb_plugin_structure.records.schema import ATTENTION_STATISTICS, FORMAT_VERSION
from tb_plugin_structure.records.strings import StringPool, Strings
from tb_plugin_structure.records.table import Array, Table, encode_table
from tb_plugin_structure.v1 import attention_pb2, columns_pb2

MAXIMUM_PLANE_SIDE = 1_024


class AttentionOverview:
    """Statistics and overview planes of every head of a model at one step."""

    def __init__(
        self,
        header: attention_pb2.AttentionOverviewHeader,
        statistics: Table,
        maximum: bytes,
        mass: bytes,
        stored: Sequence[bytes],
        row_states: bytes = b"",
    ) -> None:
        self.header = header
        self.statistics = statistics
        self._planes = {"maximum": np.frombuffer(maximum, np.uint8), "mass": np.frombuffer(mass, np.uint8)}
        self._row_states = np.frombuffer(row_states, np.uint8)
        self._stored = list(stored)

    @classmethod
    def build(
        cls,
        header: attention_pb2.AttentionOverviewHeader,
        statistics: Mapping[str, Any],
        maximum: bytes,
        mass: bytes,
        distances: Sequence[tuple[str, Array, str]] = (),
        row_states: bytes = b"",
    ) -> AttentionOverview:
        """Encode; `statistics` are columns as in ``records.schema.ATTENTION_STATISTICS``, `distances` are (other model,
        [its heads, these heads], resolution), `row_states` a byte for each row of each plane (``records.row_states``;
        stored when one is not 0)."""
        header.format_version = FORMAT_VERSION
        header.minimum_reader_version = 1
        pool = StringPool()
        table = encode_table("statistics", ATTENTION_STATISTICS, statistics, pool)
        del header.parts[:]
        stored: list[bytes] = [b""]
        blobs.add_part(header.parts, stored, "statistics", table.SerializeToString(), columns_pb2.PART_FORMAT_TABLE)
        blobs.add_part(header.parts, stored, "maximum", maximum, columns_pb2.PART_FORMAT_RAW)
        blobs.add_part(header.parts, stored, "mass", mass, columns_pb2.PART_FORMAT_RAW)
        if row_states.strip(b"\0"):
            blobs.add_part(header.parts, stored, "row_states", row_states, columns_pb2.PART_FORMAT_RAW)
        del header.distances[:]
        for number, (model, table_of, resolution) in enumerate(distances):
            part = f"distances{number}"
            header.distances.add(
                model=model, part=part, rows=table_of.shape[0], columns=table_of.shape[1], resolution=resolution
            )
            data = np.ascontiguousarray(table_of, "<f2").tobytes()
            blobs.add_part(header.parts, stored, part, data, columns_pb2.PART_FORMAT_RAW)
        blobs.seal(header, stored)
        return cls(header, Table.from_proto(table, Strings(pool.to_proto())), maximum, mass, stored, row_states)

    def encode(self) -> list[bytes]:
        """The blobs of the event: header, then compressed parts."""
        return self._stored

    @classmethod
    def decode(cls, stored: Sequence[bytes]) -> AttentionOverview:
        """Read a record. Raises :class:`~tb_plugin_structure.records.blobs.RecordError` when it is damaged."""
        header = decode_overview_header(stored)
        try:
            table = Table.from_proto(
                blobs.parse_table(blobs.part_bytes(header.parts, stored, "statistics")),
                Strings(StringPool().to_proto()),
                ATTENTION_STATISTICS,
            )
            maximum = blobs.part_bytes(header.parts, stored, "maximum")
            mass = blobs.part_bytes(header.parts, stored, "mass")
            _check_layers(header, table.rows, min(len(maximum), len(mass)))
            states = b""
            if any(part.name == "row_states" for part in header.parts):
                states = blobs.part_bytes(header.parts, stored, "row_states")
            return cls(header, table, maximum, mass, stored, states)
        except blobs.RecordError:
            raise
        except Exception as error:
            raise blobs.RecordError(f"the attention record of {header.model!r} is damaged: {error}") from error

    def recorded_distances(self, model: str, heads: int) -> tuple[Array, str] | None:
        """Distances to `heads` heads of another model of the same step, [its heads, these heads], and their resolution.

        None when none were recorded, or when they do not fit the two records.
        """
        for entry in self.header.distances:
            if entry.model == model and (entry.rows, entry.columns) == (heads, self.statistics.rows):
                data = blobs.part_bytes(self.header.parts, self._stored, entry.part)
                if len(data) == 2 * entry.rows * entry.columns:
                    values: Array = np.frombuffer(data, "<f2").astype(np.float32).reshape(entry.rows, entry.columns)
                    return values, entry.resolution
        return None

    def plane(self, layer: int, head: int, kind: str = "maximum") -> Array:
        """One overview plane as float32 [rows, columns]; `kind` is "maximum" or "mass"."""
        record = self.header.layers[layer]
        cells = record.overview_rows * record.overview_columns
        begin = record.overview_offset + head * cells
        codes = self._planes[kind][begin : begin + cells].astype(np.float32) / 255.0
        scale = self.statistics[f"{kind}_scale"][record.first_head_row + head]
        plane: Array = codes * codes * scale
        return plane.reshape(record.overview_rows, record.overview_columns)

    def row_states(self, layer: int, head: int) -> Array:
        """What each row of a head's planes shows, one of ``records.row_states``."""
        rows = self.header.layers[layer].overview_rows
        before = sum(entry.heads * entry.overview_rows for entry in self.header.layers[:layer])
        found: Array = self._row_states[before + head * rows : before + (head + 1) * rows]
        return found if len(found) == rows else np.zeros(rows, np.uint8)


def _check_layers(header: attention_pb2.AttentionOverviewHeader, head_rows: int, plane_bytes: int) -> None:
    """Every layer's heads, planes and axes are there, and no two layers share heads (work grows with their number)."""
    heads = 0
    for layer in header.layers:
        if layer.not_captured:
            continue
        where = f"layer {layer.module_path[:200]!r}"
        end = layer.overview_offset + layer.heads * layer.overview_rows * layer.overview_columns
        if end > plane_bytes or layer.first_head_row + layer.heads > head_rows:
            raise ValueError(f"{where} lies outside the stored planes")
        if max(layer.overview_rows, layer.overview_columns) > MAXIMUM_PLANE_SIDE:
            raise ValueError(f"{where} has overview planes of more than {MAXIMUM_PLANE_SIDE} rows or columns")
        if len(header.axes) and max(layer.query_axis, layer.key_axis) >= len(header.axes):
            raise ValueError(f"{where} names a token axis that is not there")
        heads += layer.heads
    if heads > head_rows:
        raise ValueError(f"its layers have {heads} heads, but {head_rows} rows of statistics")


def decode_overview_header(stored: Sequence[bytes]) -> attention_pb2.AttentionOverviewHeader:
    """Read only the header of an overview."""
    data = blobs.check_header(stored, "attention")
    try:
        header = attention_pb2.AttentionOverviewHeader.FromString(data)
    except Exception as error:
        raise blobs.RecordError(f"the header of an attention record is damaged: {error}") from error
    blobs.check_version("attention record", header.minimum_reader_version)
    return header


def encode_detail(header: attention_pb2.AttentionDetailHeader, heads: Sequence[bytes]) -> list[bytes]:
    """The blobs of a detail event; `heads` are all blobs behind the header, as its details number them."""
    header.format_version = FORMAT_VERSION
    # Readers of version 1 know matrices only.
    matrices = all(detail.codec == attention_pb2.ATTENTION_CODEC_MATRIX_F16 for detail in header.details)
    header.minimum_reader_version = 1 if matrices else 2
    return [header.SerializeToString(deterministic=True), *heads]


def encode_matrix(matrix: Array) -> bytes:
    """One head in the codec MATRIX_F16: `matrix` is [queries, keys]; the error is at most 2.5e-4."""
    return blobs.compress(np.ascontiguousarray(matrix, "<f2").tobytes(), level=1)


def decode_detail_header(stored: Sequence[bytes]) -> attention_pb2.AttentionDetailHeader:
    data = blobs.check_header(stored, "attention")
    try:
        header = attention_pb2.AttentionDetailHeader.FromString(data)
    except Exception as error:
        raise blobs.RecordError(f"the header of an attention record is damaged: {error}") from error
    blobs.check_version("attention record", header.minimum_reader_version)
    return header


def decode_matrix(detail: attention_pb2.AttentionDetail, blob: bytes) -> Array:
    """One head as float32 [queries, keys]."""
    cells = detail.query_length * detail.key_length
    data = blobs.decompress(blob, 2 * cells)
    if len(data) != 2 * cells:
        raise blobs.RecordError(f"the stored attention of {detail.module_path!r} is damaged")
    return np.frombuffer(data, "<f2").astype(np.float32).reshape(detail.query_length, detail.key_length)
