"""The records of one writer in one event file: ascending steps, nothing twice, and no failure that ends a training."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from tb_plugin_structure import event_file
from tb_plugin_structure.records import names
from tb_plugin_structure.records.structure import Structure

_OBSERVED = "What a model executed in one pass, recorded by tensorboard-plugin-structure."


class RecordLog:
    """Where a writer's records go.

    Args:
        target: A log directory, or a ``torch.utils.tensorboard.SummaryWriter``. None: nothing is written.
        subdirectory: Of a log directory; nothing is added to a SummaryWriter's.

    Raises:
        OSError: When the log directory cannot be written.
        TypeError: When `target` is neither.
    """

    def __init__(self, target: str | os.PathLike[str] | Any, subdirectory: str = "") -> None:
        self._last_step: dict[str, int] = {}
        self._fingerprints: dict[str, tuple[str, str]] = {}
        """Tag of a structure -> its hash and its error, as last written."""
        self._warned: set[str] = set()
        self._file: event_file.OwnEventFile | event_file.SharedEventFile | None = None
        if target is None:
            return
        if isinstance(target, (str, os.PathLike)):
            directory = os.path.join(os.fspath(target), subdirectory) if subdirectory else os.fspath(target)
            event_file.check_writable(directory)
            self._file = event_file.OwnEventFile(directory)
        elif hasattr(target, "file_writer") or hasattr(target, "_get_file_writer"):
            self._file = event_file.SharedEventFile(target)
        else:
            raise TypeError(
                f"StructureWriter got {type(target).__name__}, expected a log directory or a "
                "torch.utils.tensorboard.SummaryWriter"
            )

    @property
    def logdir(self) -> str:
        """The directory of the event file; empty when nothing is written."""
        return self._file.logdir if self._file is not None else ""

    def next_step(self, tag: str) -> int:
        """0, or the step after the last one written under a tag."""
        return self._last_step.get(tag, -1) + 1

    def structure_hash(self, tag: str) -> str:
        """Of the structure that was written last under a tag; "" for none."""
        return self._fingerprints.get(tag, ("", ""))[0]

    # ---- writing

    def add_structure(self, structure: Structure, step: int, *, tag: str = "", quiet: bool = False) -> None:
        """A structure, unless it is equal to the last one of its tag."""
        header = structure.header
        tag = tag or names.structure_tag(header.model, header.variant)
        fingerprint = header.structure_hash, repr(header.error.SerializeToString())
        # Times differ each time; who asks for them wants to see them.
        measured = header.totals.duration_ns or header.totals.peak_bytes or header.HasField("symbolic")
        if self._fingerprints.get(tag) == fingerprint and not measured:
            return
        if self.add(names.STRUCTURE_PLUGIN, tag, structure.encode(), step, quiet=quiet):
            self._fingerprints[tag] = fingerprint

    def add(self, plugin: str, tag: str, blobs: Sequence[bytes], step: int, *, quiet: bool = False) -> bool:
        """One record as an event; whether it was written.

        Steps of a tag must ascend, as the readers disagree about everything else: a step that does not is a warning
        when `quiet`, else a ValueError.
        """
        if self._file is None:
            return False
        last = self._last_step.get(tag)
        if last is not None and step <= last:
            text = f"{tag!r} was already written at step {last}; a further record needs a later step, not {step}"
            if not quiet:
                raise ValueError(text)
            self._warn("steps", f"{text}. It is left out.")
            return False
        with self.harmless("writing to the event file"):
            self._file.add_event(event_file.record_event(plugin, tag, blobs, step, _OBSERVED))
            self._last_step[tag] = step
            return True
        return False

    def add_summary(self, summary: Any, step: int) -> None:
        """TensorBoard's own summaries; None writes nothing."""
        if self._file is not None and summary is not None:
            with self.harmless("writing to the event file"):
                self._file.add_event(event_file.summary_event(summary, step))

    def flush(self) -> None:
        """Put everything written so far on disk."""
        if self._file is not None:
            with self.harmless("writing to the event file"):
                self._file.flush()

    def close(self) -> None:
        """Flush and close. A shared SummaryWriter stays open."""
        if self._file is not None:
            with self.harmless("closing the event file"):
                self._file.close()

    # ---- failures

    @contextlib.contextmanager
    def harmless(self, doing: str) -> Iterator[None]:
        """A full disk, a lost permission or a fault of ours must not end a training run: warn once and go on."""
        try:
            yield
        except Exception as error:
            self._warn(doing, f"{doing} failed and is left out ({type(error).__name__}: {error}); training goes on")

    def _warn(self, topic: str, text: str) -> None:
        if topic not in self._warned:
            self._warned.add(topic)
            warnings.warn(f"tb_plugin_structure: {text}", stacklevel=3)
