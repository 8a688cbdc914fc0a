"""What an event file holds, read by TensorBoard's own reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing import event_file_loader
from tensorboard.util import tensor_util

from tb_plugin_structure.records.measurement import Measurement
from tb_plugin_structure.records.plan import decode_plan
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import plan_pb2


def _values(folder: Path) -> Iterator[tuple[int, Any]]:
    for path in sorted(folder.rglob("*tfevents*")):
        for event in event_file_loader.EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                yield event.step, value


def scalars(folder: Path) -> dict[str, dict[int, float]]:
    """Tag -> step -> value."""
    found: dict[str, dict[int, float]] = {}
    for step, value in _values(folder):
        if value.metadata.plugin_data.plugin_name == "scalars":
            found.setdefault(value.tag, {})[step] = float(tensor_util.make_ndarray(value.tensor))
    return found


def histograms(folder: Path) -> dict[str, list[int]]:
    """Tag -> steps."""
    return records(folder, plugin="histograms")


def records(folder: Path, plugin: str = "structure") -> dict[str, list[int]]:
    """Tag -> steps of the values of a plugin, or of all whose name begins so."""
    found: dict[str, list[int]] = {}
    for step, value in _values(folder):
        if value.metadata.plugin_data.plugin_name.startswith(plugin):
            found.setdefault(value.tag, []).append(step)
    return found


def plans_in(folder: Path, tag: str) -> list[tuple[int, plan_pb2.Plan]]:
    """(step, plan) of the plans that were written, in order."""
    return [(step, decode_plan(list(value.tensor.string_val))) for step, value in _values(folder) if value.tag == tag]


def pictures_in(folder: Path) -> dict[str, dict[int, tuple[int, int, bytes]]]:
    """Tag -> step -> (height, width, PNG), as TensorBoard's own images tab gets them."""
    found: dict[str, dict[int, tuple[int, int, bytes]]] = {}
    for step, value in _values(folder):
        if value.metadata.plugin_data.plugin_name == "images":
            width, height, *images = value.tensor.string_val
            found.setdefault(value.tag, {})[step] = (int(height), int(width), images[0])
    return found


def structures_in(folder: Path) -> dict[str, Structure]:
    """Tag -> the last structure."""
    plugin = "structure_record"
    found = ((value.tag, value) for _, value in _values(folder) if value.metadata.plugin_data.plugin_name == plugin)
    return {tag: Structure.decode(list(value.tensor.string_val)) for tag, value in found}


def measurements_in(folder: Path) -> dict[str, list[tuple[int, Measurement]]]:
    """Tag -> (step, measurement) of each record, in order."""
    found: dict[str, list[tuple[int, Measurement]]] = {}
    for step, value in _values(folder):
        if value.metadata.plugin_data.plugin_name == "structure_measurement":
            found.setdefault(value.tag, []).append((step, Measurement.decode(list(value.tensor.string_val))))
    return found
