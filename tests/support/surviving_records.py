"""What must be left of trainings that were killed: everything flushed, nothing damaged, one history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tensorboard.backend.event_processing import event_file_loader

from tb_plugin_structure.records import names
from tb_plugin_structure.records.attention import AttentionOverview, decode_detail_header
from tb_plugin_structure.records.measurement import Measurement
from tb_plugin_structure.records.structure import Structure
from tests.support.tensorboard_server import TensorBoardServer

_DECODE = {
    names.STRUCTURE_PLUGIN: Structure.decode,
    names.MEASUREMENT_PLUGIN: Measurement.decode,
    names.ATTENTION_OVERVIEW_PLUGIN: AttentionOverview.decode,
    names.ATTENTION_DETAIL_PLUGIN: decode_detail_header,
}


class Attempt(NamedTuple):
    """One process: the step it began with, and the steps that it flushed for certain."""

    begin: int
    steps: list[int]


def flushed(folder: Path, run: str) -> list[Attempt]:
    """The notes of a run's processes; a last line that was cut off is left out."""
    attempts: list[Attempt] = []
    for line in (folder / f"{run}.flushed").read_text().split("\n")[:-1]:
        if line.startswith("begin "):
            attempts.append(Attempt(int(line[6:]), []))
        else:
            attempts[-1].steps.append(int(line))
    return attempts


def values(path: Path) -> Iterator[tuple[str, str, int, list[bytes]]]:
    """(data plugin, tag, step, blobs) of an event file, up to its end or to where the killed process was."""
    for data in event_file_loader.RawEventFileLoader(str(path)).Load():
        event = event_file_loader.event_pb2.Event.FromString(data)
        for value in event.summary.value:
            yield value.metadata.plugin_data.plugin_name, value.tag, event.step, list(value.tensor.string_val)


def check_files(folder: Path) -> int:
    """Every record of every file decodes, and what an attempt flushed is in its file. Returns the records read."""
    read = 0
    for notes in sorted(folder.glob("*.flushed")):
        attempts = [attempt for attempt in flushed(folder, notes.stem) if attempt.steps]
        files = sorted((folder / notes.stem).glob("*tfevents*")) if (folder / notes.stem).exists() else []
        there: list[set[int]] = []
        for path in files:
            there.append(set())
            for plugin, tag, step, blobs in values(path):
                _DECODE[plugin](blobs)
                read += 1
                if tag == "overview/student":
                    there[-1].add(step)
        for attempt in attempts:
            assert any(set(attempt.steps) <= steps for steps in there), f"{notes.stem}: {attempt} is not in {there}"
    return read


def check_reader(folder: Path, *, fast: bool) -> int:
    """TensorBoard shows each run as one history of ascending steps. Returns how many runs it shows."""
    runs = {notes.stem: flushed(folder, notes.stem) for notes in folder.glob("*.flushed")}
    runs = {run: attempts for run, attempts in runs.items() if any(attempt.steps for attempt in attempts)}
    with TensorBoardServer(folder, fast=fast) as server:
        required = {}
        for run, attempts in runs.items():
            kept: set[int] = set()
            for attempt in attempts:
                # What a later process may have written again, it may also have been killed in the middle of.
                kept = {step for step in kept if step < attempt.begin} | set(attempt.steps)
            required[run] = kept
        listing = server.records(at_least=len(runs), kind="attention")
        for _ in range(60):
            shown = {e["run"]: e["steps"] for e in listing["attention"] if e["tag"] == "overview/student"}
            if all(required[run] <= {step["step"] for step in shown.get(run, [])} for run in runs):
                break
            listing = server.records(at_least=len(runs), kind="attention")
        assert listing["problems"] == []
        for run, steps in required.items():
            numbers = [step["step"] for step in shown[run]]
            assert numbers == sorted(set(numbers)), f"{run}: {numbers}"
            assert steps <= set(numbers), f"{run} shows {numbers}, flushed were {sorted(steps)}"
        assert server.alive
        return len(required)
