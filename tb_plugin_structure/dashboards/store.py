"""Reads records through TensorBoard's data provider, whichever reader is behind it.

The two readers differ in what they keep and in how they name blobs, so records are addressed by (run, tag, step) and,
because a resumed run can hold one step twice, by a hash of the stored header and its time.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from tensorboard import errors
from tensorboard.compat.proto import graph_pb2
from tensorboard.data import provider

from tb_plugin_structure.dashboards.cache import BoundedCache
from tb_plugin_structure.records import names
from tb_plugin_structure.records.attention import AttentionOverview
from tb_plugin_structure.records.blobs import RecordError
from tb_plugin_structure.records.graph_def import structure_of_graph
from tb_plugin_structure.records.structure import Structure

ALL = 1_000_000
"""As `downsample`: every step that the reader kept."""

_DECODED_CACHE_BYTES = 512 << 20
_BLOB_CACHE_BYTES = 64 << 20
_MAXIMUM_GRAPH_BYTES = 32 << 20


class Address(NamedTuple):
    run: str
    tag: str
    step: int
    hash: str = ""


class StoredRecord:
    """One event: its blobs are fetched when asked for."""

    def __init__(self, read: Callable[[str], bytes], datum: Any, run: str, tag: str) -> None:
        self._read = read
        self._keys = [value.blob_key for value in datum.values]
        self.run = run
        self.tag = tag
        self.step = int(datum.step)
        self.wall_time = float(datum.wall_time)

    def __len__(self) -> int:
        return len(self._keys)

    def blob(self, index: int) -> bytes:
        if not 0 <= index < len(self._keys):
            raise errors.NotFoundError(
                f"the record {self.tag!r} of run {self.run!r} at step {self.step} has no blob {index}"
            )
        return self._read(self._keys[index])

    def blobs(self) -> list[bytes]:
        return [self._read(key) for key in self._keys]

    @property
    def identity(self) -> tuple[str, str, int, float]:
        return (self.run, self.tag, self.step, self.wall_time)


class RecordStore:
    """Records of one data provider, with bounded caches that all tabs and requests share."""

    def __init__(self, data_provider: Any) -> None:
        # Weak: the store is kept beside the provider for as long as that lives.
        self._provider: Any = weakref.ref(data_provider)
        self._headers = BoundedCache(_BLOB_CACHE_BYTES)
        self.decoded = BoundedCache(_DECODED_CACHE_BYTES)

    # ---- reading

    def records(self, context: Any, experiment: str, plugin: str, run: str = "", tag: str = "") -> list[StoredRecord]:
        """Every record of a data plugin (of one run and tag, when given), by run, tag and step."""
        data_provider = self._provider()
        filter_ = provider.RunTagFilter(runs=[run], tags=[tag]) if tag else None
        try:
            read = data_provider.read_blob_sequences(
                context, experiment_id=experiment, plugin_name=plugin, downsample=ALL, run_tag_filter=filter_
            )
        except errors.NotFoundError:
            return []

        def read_blob(key: str) -> bytes:
            try:
                return bytes(data_provider.read_blob(context, blob_key=key))
            except errors.NotFoundError:
                raise errors.NotFoundError(
                    "TensorBoard no longer has this record (it was reloaded); refresh the list of records"
                ) from None

        found = [
            StoredRecord(read_blob, datum, run_name, tag_name)
            for run_name, tags in read.items()
            for tag_name, data in tags.items()
            for datum in data
            if datum.values
        ]
        found.sort(key=lambda record: record.identity)
        return found

    def header(self, experiment: str, record: StoredRecord) -> bytes:
        """Blob 0, kept in memory: lists ask for it again and again."""

        def make() -> tuple[bytes, int]:
            data = record.blob(0)
            return data, len(data) + 200

        return self._headers.get((experiment, *record.identity), make)

    def hash(self, experiment: str, record: StoredRecord) -> str:
        digest = hashlib.sha256(self.header(experiment, record))
        digest.update(repr(record.wall_time).encode())
        return digest.hexdigest()[:20]

    def find(self, context: Any, experiment: str, plugin: str, address: Address) -> StoredRecord:
        """The record at an address; of several at one step the last written. Raises NotFoundError (404)."""
        there = self.records(context, experiment, plugin, address.run, address.tag)
        steps = [record for record in there if record.step == address.step]
        if address.hash:
            steps = [record for record in steps if self.hash(experiment, record) == address.hash]
        if steps:
            return max(steps, key=lambda record: record.wall_time)
        where = f"run {address.run!r}, tag {address.tag!r}"
        if not there:
            raise errors.NotFoundError(f"there is no record at {where}; api/records lists those that are there")
        known = ", ".join(str(step) for step in sorted({record.step for record in there})[:20])
        raise errors.NotFoundError(f"there is no record at {where}, step {address.step}; there are steps {known}")

    # ---- decoded records

    def structure(self, context: Any, experiment: str, address: Address) -> tuple[Structure, str]:
        """A decoded structure and its hash; a graph that add_graph wrote is converted."""
        added = address.tag == names.ADD_GRAPH_TAG
        plugin = names.ADD_GRAPH_PLUGIN if added else names.STRUCTURE_PLUGIN
        record = self.find(context, experiment, plugin, address)
        identity = self.hash(experiment, record)
        decode = self._converted if added else self._decoded
        return self.decoded.get(("structure", experiment, *record.identity), lambda: decode(record)), identity

    @staticmethod
    def _decoded(record: StoredRecord) -> tuple[Structure, int]:
        structure = Structure.decode(record.blobs())
        # Decoded columns plus what queries cache beside them: a few times the bytes of the parts.
        return structure, 4 * sum(part.uncompressed_bytes for part in structure.header.parts)

    @staticmethod
    def _converted(record: StoredRecord) -> tuple[Structure, int]:
        data = record.blob(0)
        if len(data) > _MAXIMUM_GRAPH_BYTES:
            raise RecordError(f"the graph of run {record.run!r} has {len(data):,} bytes, too many to convert")
        try:
            structure = structure_of_graph(graph_pb2.GraphDef.FromString(data), "add_graph")
        except Exception as error:
            raise RecordError(f"the graph of run {record.run!r} cannot be shown: {error}") from error
        return structure, 4 * sum(part.uncompressed_bytes for part in structure.header.parts)

    def attention(self, context: Any, experiment: str, address: Address) -> tuple[AttentionOverview, str]:
        """A decoded attention overview and its hash."""
        record = self.find(context, experiment, names.ATTENTION_OVERVIEW_PLUGIN, address)
        identity = self.hash(experiment, record)

        def make() -> tuple[AttentionOverview, int]:
            overview = AttentionOverview.decode(record.blobs())
            return overview, 2 * sum(part.uncompressed_bytes for part in overview.header.parts)

        return self.decoded.get(("attention", experiment, *record.identity), make), identity


_stores: weakref.WeakKeyDictionary[Any, RecordStore] = weakref.WeakKeyDictionary()
_stores_lock = threading.Lock()


def store_of(data_provider: Any) -> RecordStore:
    """The store of a data provider, one for all three tabs."""
    with _stores_lock:
        store = _stores.get(data_provider)
        if store is None:
            store = _stores[data_provider] = RecordStore(data_provider)
        return store
