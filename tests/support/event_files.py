"""Reads our records straight from event files, without TensorBoard running."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tensorboard.backend.event_processing import event_file_loader
from tensorboard.compat.proto import event_pb2


class Written(NamedTuple):
    plugin: str
    tag: str
    step: int
    blobs: list[bytes]


def read_records(folder: Path | str) -> list[Written]:
    """Every record of ours below a directory, in the order in which it was written."""
    return list(_read(Path(folder)))


def _read(folder: Path) -> Iterator[Written]:
    for path in sorted(folder.rglob("*tfevents*")):
        for data in event_file_loader.RawEventFileLoader(str(path)).Load():
            event = event_pb2.Event.FromString(data)
            for value in event.summary.value:
                plugin = value.metadata.plugin_data.plugin_name
                if plugin.startswith("structure_"):
                    yield Written(plugin, value.tag, event.step, list(value.tensor.string_val))
