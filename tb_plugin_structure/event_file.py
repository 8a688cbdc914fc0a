"""Puts records into event files: TensorBoard's own writer, with a fast checksum, per instance."""

from __future__ import annotations

import contextlib
import os
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tensorboard.compat import tf
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2
from tensorboard.summary.writer import event_file_writer, record_writer

from tb_plugin_structure.checksum import masked_crc32c

_CONTENT = b"\x08\x01"
"""plugin_data.content of every value: one varint field, the version of this layout. What changes with the step is in
the record's header, since the readers keep the first content they see."""

_SUFFIX = ".structure"
"""Of the names of our own event files."""

MAXIMUM_EVENT_BYTES = 128 << 20
"""A larger event would take minutes to load and can end TensorBoard's data server."""


class FastRecordWriter(record_writer.RecordWriter):  # type: ignore[misc]
    """Writes records with the checksum of :mod:`tb_plugin_structure.checksum`.

    With `keep_failure` a failure is put into `failure` and nothing more is written, instead of ending the writing
    thread with a stack trace on the user's screen.
    """

    def __init__(self, writer: Any, keep_failure: bool = False) -> None:
        super().__init__(writer)
        self.failure: Exception | None = None
        self._keep_failure = keep_failure

    def write(self, data: bytes) -> None:
        if self.failure is not None:
            return
        header = struct.pack("<Q", len(data))
        header += struct.pack("<I", masked_crc32c(header))
        try:
            self._writer.write(b"".join((header, data, struct.pack("<I", masked_crc32c(data)))))
        except Exception as error:
            if not self._keep_failure:
                raise
            self.failure = error


def use_fast_checksum(
    writer: event_file_writer.EventFileWriter, *, keep_failure: bool = False
) -> FastRecordWriter | None:
    """Speed up one EventFileWriter; None when its inside is not as expected, and then nothing is changed."""
    pending = getattr(writer, "_async_writer", None)
    worker = getattr(pending, "_worker", None)
    plain = getattr(pending, "_writer", None)
    if type(plain) is not record_writer.RecordWriter or getattr(worker, "_record_writer", None) is not plain:
        return None
    fast = FastRecordWriter(plain._writer, keep_failure)  # type: ignore[union-attr]
    pending._writer = fast  # type: ignore[union-attr]
    worker._record_writer = fast  # type: ignore[union-attr]
    return fast


def record_event(plugin: str, tag: str, blobs: Sequence[bytes], step: int, description: str = "") -> event_pb2.Event:
    """One record as an event: a blob sequence, a rank-1 string tensor (the only form both readers serve), with full
    metadata (one reader drops a tag whose metadata comes later).

    Raises:
        ValueError: When the record is larger than :data:`MAXIMUM_EVENT_BYTES`.
    """
    size = sum(len(blob) for blob in blobs)
    if size > MAXIMUM_EVENT_BYTES:
        raise ValueError(
            f"the record {tag!r} has {size / 2**20:.0f} MiB, at most {MAXIMUM_EVENT_BYTES >> 20} are written; "
            "record a part of the model, or fewer attention heads"
        )
    metadata = summary_pb2.SummaryMetadata(
        data_class=summary_pb2.DATA_CLASS_BLOB_SEQUENCE,
        summary_description=description,
        plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name=plugin, content=_CONTENT),
    )
    tensor = tensor_pb2.TensorProto(
        dtype=types_pb2.DT_STRING,
        string_val=blobs,
        tensor_shape=tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=len(blobs))]),
    )
    value = summary_pb2.Summary.Value(tag=tag, tensor=tensor, metadata=metadata)
    return event_pb2.Event(wall_time=time.time(), step=step, summary=summary_pb2.Summary(value=[value]))


def summary_event(summary: summary_pb2.Summary, step: int) -> event_pb2.Event:
    """TensorBoard's own summaries as an event."""
    return event_pb2.Event(wall_time=time.time(), step=step, summary=summary)


SECONDS_BETWEEN_ATTEMPTS = 60.0
"""After a failure to write, a new file is tried this much later at the earliest."""


class OwnEventFile:
    """An event file of our own. Opened at the first event, so that a writer that writes nothing leaves nothing.

    After a failure (a full disk, a lost directory) the file may end within a record, so it is left and, later, a new
    one is begun.
    """

    def __init__(self, logdir: str | os.PathLike[str]) -> None:
        self._wanted = os.fspath(logdir)
        self._writer: event_file_writer.EventFileWriter | None = None
        self._logdir = ""
        self._fast: FastRecordWriter | None = None
        self._failed: tuple[float, Exception] | None = None

    @property
    def logdir(self) -> str:
        """The directory of the events; settled by the first of them."""
        return self._logdir or free_run_directory(self._wanted)

    def add_event(self, event: event_pb2.Event) -> None:
        if self._failed is not None:
            when, error = self._failed
            if time.monotonic() - when < SECONDS_BETWEEN_ATTEMPTS:
                raise error
            self._failed = None
        with self._leave_on_failure():
            if self._writer is None:
                self._logdir = self.logdir
                self._writer = event_file_writer.EventFileWriter(self._logdir, filename_suffix=_SUFFIX)
                self._fast = use_fast_checksum(self._writer, keep_failure=True)
            self._writer.add_event(event)
            self._check()

    def flush(self) -> None:
        if self._writer is not None:
            with self._leave_on_failure():
                self._writer.flush()
                self._check()

    def _check(self) -> None:
        if self._fast is not None and self._fast.failure is not None:
            raise self._fast.failure

    @contextlib.contextmanager
    def _leave_on_failure(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            writer, self._writer = self._writer, None
            self._failed = (time.monotonic(), error)
            if writer is not None:
                with contextlib.suppress(Exception):
                    writer.close()  # ends its thread
            raise

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class SharedEventFile:
    """The event file of a user's SummaryWriter, which stays the user's: close() only flushes."""

    def __init__(self, summary_writer: Any) -> None:
        self._summary_writer = summary_writer
        self._fast: set[int] = set()
        self.logdir = str(getattr(summary_writer, "log_dir", "") or self._file_writer().get_logdir())

    def _file_writer(self) -> Any:
        """The FileWriter behind a torch SummaryWriter; it opens a new one after the user closed it."""
        get = getattr(self._summary_writer, "_get_file_writer", None)
        return get() if get is not None else self._summary_writer.file_writer

    def add_event(self, event: event_pb2.Event) -> None:
        writer = getattr(self._file_writer(), "event_writer", None)
        if not isinstance(writer, event_file_writer.EventFileWriter):
            raise TypeError(
                f"{type(self._summary_writer).__module__}.{type(self._summary_writer).__name__} does not write "
                "TensorBoard's own event files; use torch.utils.tensorboard.SummaryWriter, or give "
                "StructureWriter a directory"
            )
        if id(writer) not in self._fast:
            self._fast.add(id(writer))
            use_fast_checksum(writer)
        writer.add_event(event)

    def flush(self) -> None:
        self._file_writer().flush()

    def close(self) -> None:
        self.flush()


def free_run_directory(logdir: str) -> str:
    """`logdir`, or its sub-run ``structure`` when event files of another writer are already there: TensorBoard's
    Python reader stops following the older of two files in one directory. Files of our own do not count: they are of
    an earlier attempt, which a resumed training continues in the same run."""
    gfile = tf.io.gfile
    try:
        names = gfile.listdir(logdir) if gfile.isdir(logdir) else []
    except Exception:
        names = []
    if any("tfevents" in Path(name).name and not name.endswith(_SUFFIX) for name in names):
        return os.path.join(logdir, "structure")
    return logdir


def check_writable(logdir: str) -> None:
    """Raises OSError with a sentence when `logdir` cannot be made or written."""
    if "://" in logdir:
        return  # remote: the first write tells
    try:
        os.makedirs(logdir, exist_ok=True)
        probe = os.path.join(logdir, f".structure-{os.getpid()}")
        with open(probe, "wb"):
            pass
        os.remove(probe)
    except OSError as error:
        raise OSError(
            error.errno or 0,
            f"the log directory {logdir!r} cannot be written ({error.strerror or error}); give StructureWriter a "
            "directory that you may write",
        ) from error
