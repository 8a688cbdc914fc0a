"""Reads records through TensorBoard's data provider, whichever reader is behind it.

The two readers differ in what they keep and in how they name blobs, so records are addressed by (run, tag, step) and,
because a resumed run can hold one step twice, by a hash of the stored header and its time.

They differ most where training was resumed from an earlier step. The data server drops what the second attempt
overwrites; the Python reader keeps both attempts and hands out the first one. Here both give the second.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import threading
import weakref
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from tensorboard import errors
from tensorboard.compat.proto import graph_pb2
from tensorboard.data import provider

from tb_plugin_structure.dashboards.cache import BoundedCache
from tb_plugin_structure.dashboards.turns import Turns, give_back_memory
from tb_plugin_structure.records import names
from tb_plugin_structure.records.attention import AttentionOverview, decode_overview_header
from tb_plugin_structure.records.blobs import RecordError
from tb_plugin_structure.records.graph_def import structure_of_graph
from tb_plugin_structure.records.structure import Structure, decode_header
from tb_plugin_structure.v1 import attention_pb2, structure_pb2

ALL = 1_000_000
"""As `downsample`: every step that the reader kept."""

_DECODED_CACHE_BYTES = 32 << 20
_BLOB_CACHE_BYTES = 64 << 20
_ANSWER_CACHE_BYTES = 64 << 20
_KEPT_DECODED_BYTES = _DECODED_CACHE_BYTES // 2
"""What takes more in memory is decoded when it is needed, which takes 0.1 s for 50,000 operators."""
_MAXIMUM_GRAPH_BYTES = 32 << 20
_DECODED_BYTES_OF_A_GRAPH_BYTE = 8
_FETCHERS = 8
_LARGE_DECODED_BYTES = 8 << 20
"""Of two structures together, in memory: what a model of 2,000 operators takes."""
_DESCRIPTION_BYTES = 2_000
"""What a description takes in memory, about."""


class Address(NamedTuple):
    run: str
    tag: str
    step: int
    hash: str = ""


class StoredRecord:
    """One event: its blobs are fetched when asked for.

    Args:
        sources: What `read` takes to give each blob.
    """

    def __init__(
        self, run: str, tag: str, step: int, wall_time: float, sources: Sequence[Any], read: Callable[[Any], bytes]
    ) -> None:
        self._read = read
        self._sources = sources
        self.run = run
        self.tag = tag
        self.step = int(step)
        self.wall_time = float(wall_time) if math.isfinite(wall_time) else 0.0

    def __len__(self) -> int:
        return len(self._sources)

    def blob(self, index: int) -> bytes:
        if not 0 <= index < len(self._sources):
            raise errors.NotFoundError(
                f"the record {self.tag!r} of run {self.run!r} at step {self.step} has no blob {index}"
            )
        return self._read(self._sources[index])

    def blobs(self) -> list[bytes]:
        return [self._read(source) for source in self._sources]

    @property
    def identity(self) -> tuple[str, str, int, float]:
        return (self.run, self.tag, self.step, self.wall_time)


def _hash(header: bytes, record: StoredRecord) -> str:
    digest = hashlib.sha256(header)
    digest.update(repr(record.wall_time).encode())
    return digest.hexdigest()[:20]


class StoredStructure(NamedTuple):
    """A structure that is decoded when it is needed; `decoded_bytes` is the memory that it takes then, about."""

    hash: str
    decoded_bytes: int
    decode: Callable[[], Structure]


class StoredAttention(NamedTuple):
    """An attention overview that is decoded when it is needed; its header is there, as it was stored."""

    hash: str
    header: attention_pb2.AttentionOverviewHeader
    decode: Callable[[], AttentionOverview]


def decoded_bytes(header: structure_pb2.StructureHeader) -> int:
    """Memory of a decoded structure, about: its columns, and what queries keep beside them."""
    return 4 * sum(part.uncompressed_bytes for part in header.parts)


Describe = Callable[[bytes], tuple[dict[str, Any], dict[str, Any]]]


class RecordStore:
    """Records of one data provider, with bounded caches that all tabs and requests share."""

    def __init__(self, data_provider: Any, multiplexer: Any = None) -> None:
        # Weak: the store is kept beside the provider for as long as that lives.
        self._provider: Any = weakref.ref(data_provider)
        self._multiplexer = multiplexer
        self._fetchers = ThreadPoolExecutor(_FETCHERS, thread_name_prefix="structure-records")
        self._headers = BoundedCache(_BLOB_CACHE_BYTES)
        self._descriptions = BoundedCache(_BLOB_CACHE_BYTES)
        self.listed = BoundedCache(_BLOB_CACHE_BYTES)
        self.decoded = BoundedCache(_DECODED_CACHE_BYTES)
        self.answers = BoundedCache(_ANSWER_CACHE_BYTES)
        self._turns = Turns()
        self._attention_turns = Turns()

    # ---- reading

    def series(self, context: Any, experiment: str, plugin: str) -> dict[tuple[str, str], Hashable]:
        """Each (run, tag) of a data plugin with something that changes whenever records are added to it."""
        try:
            listed = self._provider().list_blob_sequences(context, experiment_id=experiment, plugin_name=plugin)
        except errors.NotFoundError:
            return {}
        return {
            (run, tag): (series.max_step, series.max_wall_time, series.max_length)
            for run, tags in listed.items()
            for tag, series in tags.items()
        }

    def records(
        self, context: Any, experiment: str, plugin: str, wanted: Collection[tuple[str, str]]
    ) -> list[StoredRecord]:
        """Every record of some (run, tag) of a data plugin, by run, tag and step."""
        data_provider = self._provider()
        filter_ = provider.RunTagFilter(
            runs=sorted({run for run, _ in wanted}), tags=sorted({tag for _, tag in wanted})
        )
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

        found: list[StoredRecord] = []
        for run_name, tags in read.items():
            for tag_name, data in tags.items():
                if (run_name, tag_name) not in wanted:
                    continue
                found += self._loaded(run_name, tag_name) or (
                    StoredRecord(
                        run_name,
                        tag_name,
                        datum.step,
                        datum.wall_time,
                        [value.blob_key for value in datum.values],
                        read_blob,
                    )
                    for datum in data
                    if datum.values
                )
        found.sort(key=lambda record: record.identity)
        return found

    def _loaded(self, run: str, tag: str) -> list[StoredRecord]:
        """Under the Python reader, the records of a tag as TensorBoard holds them in memory; to give one blob, its data
        provider copies all blobs of a record. Where steps went back, each attempt overwrites what the one before wrote
        from its first step on. Empty under the data server."""
        if self._multiplexer is None:
            return []
        try:
            events = self._multiplexer.Tensors(run, tag)
        except KeyError:  # reloaded meanwhile, or not stored as tensors
            return []
        kept: list[Any] = []
        for event in events:
            while kept and kept[-1].step >= event.step:
                kept.pop()
            kept.append(event)
        return [
            StoredRecord(run, tag, event.step, event.wall_time, event.tensor_proto.string_val, bytes)
            for event in kept
            if len(event.tensor_proto.string_val)
        ]

    def described(
        self, experiment: str, record: StoredRecord, describe: Describe
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """What `describe` says of a record's header, with the record's address; kept.

        `describe`: header -> (what all steps of the series share, what belongs to this step).
        """

        def make() -> tuple[tuple[dict[str, Any], dict[str, Any]], int]:
            header = self.header(experiment, record)
            try:
                shared, step = describe(header)
            except RecordError:
                raise
            except Exception as error:
                raise RecordError(f"the record is damaged: {error}") from error
            address = {"step": record.step, "wall_time": record.wall_time, "hash": _hash(header, record)}
            return (shared, {**address, **step}), _DESCRIPTION_BYTES

        return self._descriptions.get((experiment, *record.identity), make)

    def read_ahead(self, experiment: str, records: Sequence[StoredRecord]) -> None:
        """Fetch headers side by side: the data server takes a millisecond or more for each."""

        def attempt(record: StoredRecord) -> None:
            with contextlib.suppress(Exception):  # who asks for this record later gets the reason
                self.header(experiment, record)

        unknown = [record for record in records if self._descriptions.peek((experiment, *record.identity)) is None]
        if len(unknown) > 1 and self._multiplexer is None:
            list(self._fetchers.map(attempt, unknown))

    def header(self, experiment: str, record: StoredRecord) -> bytes:
        """Blob 0, kept in memory: lists ask for it again and again."""

        def make() -> tuple[bytes, int]:
            data = record.blob(0)
            return data, len(data) + 200

        return self._headers.get((experiment, *record.identity), make)

    def hash(self, experiment: str, record: StoredRecord) -> str:
        return _hash(self.header(experiment, record), record)

    def find(self, context: Any, experiment: str, plugin: str, address: Address) -> StoredRecord:
        """The record at an address; of several at one step the last written. Raises NotFoundError (404)."""
        there = self.records(context, experiment, plugin, {(address.run, address.tag)})
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

    @contextlib.contextmanager
    def computing(self, *decoded_bytes: int, is_gone: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Around decoding structures of these sizes and a computation over them: of large ones one runs at a time.
        Not to be nested.

        Raises:
            Gone: When `is_gone` says, before it begins, that nobody wants the answer any more.
        """
        if sum(decoded_bytes) <= _LARGE_DECODED_BYTES:
            yield
            return
        with self._turns.turn(is_gone):
            try:
                yield
            finally:
                give_back_memory()

    @contextlib.contextmanager
    def comparing_attention(self, is_gone: Callable[[], bool]) -> Iterator[None]:
        """Around decoding two overviews and comparing them: one at a time too, but they do not wait for structures."""
        with self._attention_turns.turn(is_gone):
            try:
                yield
            finally:
                give_back_memory()

    # ---- decoded records

    def structure(self, context: Any, experiment: str, address: Address) -> tuple[Structure, str]:
        """A decoded structure and its hash; a graph that add_graph wrote is converted."""
        found = self.stored_structure(context, experiment, address)
        return found.decode(), found.hash

    def stored_structure(self, context: Any, experiment: str, address: Address) -> StoredStructure:
        """A structure that is decoded when it is needed.

        Raises:
            NotFoundError: When there is none.
            RecordError: When its header is damaged.
        """
        added = address.tag == names.ADD_GRAPH_TAG
        plugin = names.ADD_GRAPH_PLUGIN if added else names.STRUCTURE_PLUGIN
        record = self.find(context, experiment, plugin, address)
        header = self.header(experiment, record)
        if added:
            size = _DECODED_BYTES_OF_A_GRAPH_BYTE * len(header)
            return StoredStructure(_hash(header, record), size, lambda: self.added_graph(experiment, record)[0])
        size = decoded_bytes(decode_header([header]))
        return StoredStructure(_hash(header, record), size, lambda: self._kept_structure(experiment, record, size))

    def _kept_structure(self, experiment: str, record: StoredRecord, size: int) -> Structure:
        if size > _KEPT_DECODED_BYTES:
            return self._decoded(record)[0]
        return self.decoded.get(("structure", experiment, *record.identity), lambda: self._decoded(record))

    def added_graph(self, experiment: str, record: StoredRecord) -> tuple[Structure, str]:
        """A graph that add_graph wrote, as a structure, and its hash."""
        key = ("structure", experiment, *record.identity)
        return self.decoded.get(key, lambda: self._converted(record)), self.hash(experiment, record)

    @staticmethod
    def _decoded(record: StoredRecord) -> tuple[Structure, int]:
        structure = Structure.decode(record.blobs())
        return structure, decoded_bytes(structure.header)

    @staticmethod
    def _converted(record: StoredRecord) -> tuple[Structure, int]:
        data = record.blob(0)
        if len(data) > _MAXIMUM_GRAPH_BYTES:
            raise RecordError(f"the graph of run {record.run!r} has {len(data):,} bytes, too many to convert")
        try:
            structure = structure_of_graph(graph_pb2.GraphDef.FromString(data), "add_graph")
        except Exception as error:
            raise RecordError(f"the graph of run {record.run!r} cannot be shown: {error}") from error
        return structure, _DECODED_BYTES_OF_A_GRAPH_BYTE * len(data)

    def attention(self, context: Any, experiment: str, address: Address) -> tuple[AttentionOverview, str]:
        """A decoded attention overview and its hash."""
        found = self.stored_attention(context, experiment, address)
        return found.decode(), found.hash

    def stored_attention(self, context: Any, experiment: str, address: Address) -> StoredAttention:
        """An attention overview that is decoded when it is needed.

        Raises:
            NotFoundError: When there is none.
            RecordError: When its header is damaged.
        """
        record = self.find(context, experiment, names.ATTENTION_OVERVIEW_PLUGIN, address)
        header = self.header(experiment, record)

        def make() -> tuple[AttentionOverview, int]:
            overview = AttentionOverview.decode(record.blobs())
            return overview, 2 * sum(part.uncompressed_bytes for part in overview.header.parts)

        def decode() -> AttentionOverview:
            return self.decoded.get(("attention", experiment, *record.identity), make)

        return StoredAttention(_hash(header, record), decode_overview_header([header]), decode)


_stores: weakref.WeakKeyDictionary[Any, RecordStore] = weakref.WeakKeyDictionary()
_stores_lock = threading.Lock()


def store_of(data_provider: Any, multiplexer: Any = None) -> RecordStore:
    """The store of a data provider, one for all three tabs; `multiplexer` is the Python reader's, when it reads."""
    with _stores_lock:
        store = _stores.get(data_provider)
        if store is None:
            store = _stores[data_provider] = RecordStore(data_provider, multiplexer)
        return store
