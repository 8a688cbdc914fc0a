"""``api/structure``, ``api/measurement``, ``api/attention/overview``: one part of a record, as it is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorboard import errors
from werkzeug import wrappers

from tb_plugin_structure.dashboards.http import DAY, Query, respond_bytes
from tb_plugin_structure.dashboards.store import Address, RecordStore
from tb_plugin_structure.records import names
from tb_plugin_structure.records.attention import decode_overview_header
from tb_plugin_structure.records.blobs import RecordError, check_compressed
from tb_plugin_structure.records.structure import decode_header
from tb_plugin_structure.v1 import measurement_pb2

_DECODE: dict[str, Callable[[bytes], Any]] = {
    names.STRUCTURE_PLUGIN: lambda blob: decode_header([blob]),
    names.MEASUREMENT_PLUGIN: measurement_pb2.MeasurementHeader.FromString,
    names.ATTENTION_OVERVIEW_PLUGIN: lambda blob: decode_overview_header([blob]),
}


def address_of(query: Query, prefix: str = "") -> Address:
    """The address in a query; `prefix` is "t_" or "s_" where a request names two records."""
    return Address(
        query.text(prefix + "run"),
        query.text(prefix + "tag"),
        query.integer(prefix + "step"),
        query.text(prefix + "hash", ""),
    )


def handler(store: RecordStore, plugin: str) -> Callable[[Query], wrappers.Response]:
    def handle(query: Query) -> wrappers.Response:
        address = address_of(query)
        read: Callable[[int], bytes]
        if plugin == names.STRUCTURE_PLUGIN and address.tag == names.ADD_GRAPH_TAG:
            structure, _ = store.structure(query.context, query.experiment, address)
            read = structure.encode().__getitem__
            header_blob = read(0)
        else:
            record = store.find(query.context, query.experiment, plugin, address)
            read = record.blob
            header_blob = store.header(query.experiment, record)
        return _respond_part(query, plugin, header_blob, read)

    return handle


def _respond_part(query: Query, plugin: str, header_blob: bytes, read: Callable[[int], bytes]) -> wrappers.Response:
    name = query.text("part")
    expires = DAY if query.text("hash", "") else 0
    if name == "header":
        return respond_bytes(query, header_blob, gzipped=False, expires=expires)
    try:
        header = _DECODE[plugin](header_blob)
    except RecordError:
        raise
    except Exception as error:
        raise RecordError(f"the record's header is damaged: {error}") from error
    parts = [part.name for part in header.parts]
    if name not in parts:
        known = ", ".join(["header", *parts])
        raise errors.NotFoundError(f"the record has no part {name[:80]!r}; it has {known}")
    position = parts.index(name)
    blob = read(1 + position)
    # Sent as it is stored: what is damaged, or grows without end, must not fail halfway or in the browser.
    check_compressed(blob, header.parts[position].uncompressed_bytes)
    return respond_bytes(query, blob, gzipped=True, expires=expires)
