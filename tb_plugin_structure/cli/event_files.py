"""Records of a log directory, read straight from its event files."""

from __future__ import annotations

import contextlib
import difflib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tb_plugin_structure.progress import Progress
from tb_plugin_structure.records import names
from tb_plugin_structure.records.blobs import RecordError
from tb_plugin_structure.records.measurement import Measurement
from tb_plugin_structure.records.steps import step_beside
from tb_plugin_structure.records.structure import Structure, decode_header

_PLUGINS = (names.STRUCTURE_PLUGIN, names.MEASUREMENT_PLUGIN)


class AddressError(ValueError):
    """What was asked for is not in the event files; the message says what is."""


class Key(NamedTuple):
    """Where a record stands: the run (folder below the log directory), the tag, the step."""

    run: str
    tag: str
    step: int


@dataclass
class EventFiles:
    """All structure and measurement records below `path` (a log directory or one event file)."""

    path: Path
    records: dict[Key, list[bytes]] = field(default_factory=dict)
    wall_times: dict[Key, float] = field(default_factory=dict)
    """When each record was written, in s since 1970."""

    @classmethod
    def read(cls, path: str | Path) -> EventFiles:
        """Read event files; of two events of one tag and step (a resumed run) the later one counts.

        Raises:
            AddressError: When there is no such folder or file, or it holds no event file.
        """
        found = cls(Path(path))
        if not found.path.exists():
            raise AddressError(f"there is no log directory or event file {str(path)!r}")
        files = [found.path] if found.path.is_file() else sorted(found.path.rglob("*tfevents*"))
        if not files:
            raise AddressError(f"{str(path)!r} holds no event files")
        with Progress(f"Reading {found.path.name}", unit="files") as progress:
            for number in progress.steps(len(files)):
                file = files[number]
                run = "" if found.path.is_file() else file.parent.relative_to(found.path).as_posix()
                for plugin, tag, step, wall_time, blobs in _events(file):
                    if plugin in _PLUGINS:
                        key = Key("" if run == "." else run, tag, step)
                        found.records[key] = blobs
                        found.wall_times[key] = wall_time
        return found

    def structures(self, kinds: tuple[str, ...] = ("structure/", "outside/")) -> list[tuple[Key, Structure]]:
        """All structure records, by run, tag and step; `kinds` are beginnings of tags. Damaged ones are left out."""
        return [
            (key, structure)
            for key in sorted(self.records)
            if key.tag.startswith(kinds) and (structure := self._decode(key)) is not None
        ]

    def _decode(self, key: Key) -> Structure | None:
        try:
            return Structure.decode(self.records[key])
        except RecordError:
            return None

    def find(self, model: str = "", step: int | None = None) -> tuple[Key, Structure]:
        """The record of a model ("teacher", "run/teacher", "teacher/variant"), at a step or the latest.

        A structure that did not change is not written again: at a recorded step without one the last one before it
        holds.

        Raises:
            AddressError: When no or several models fit; the message lists them.
        """
        keys = [key for key in self.records if key.tag.startswith("structure/")]
        choices = sorted({_model_name(key) for key in keys})
        if not choices:
            raise AddressError(f"{str(self.path)!r} holds no structure records")
        fitting = [name for name in choices if model in (name, name.rpartition("/")[2], _without_run(keys, name))]
        if not model or model in choices:
            fitting = [model] if model else choices  # a full name, as of a model of the log directory itself, is one
        if len(fitting) != 1:
            near = difflib.get_close_matches(model, choices, 3)
            listed = ", ".join(fitting or near or choices)
            problem = "several models fit" if fitting else f"there is no model {model!r}"
            raise AddressError(f"{str(self.path)!r}: {problem}; name one of: {listed}")
        steps = {key.step: key for key in keys if _model_name(key) == fitting[0]}
        if step is None:
            step = max(steps)
        held = max((other for other in steps if other <= step), default=None)
        if held is None or step not in self._recorded_steps(steps[held].run):
            known = sorted(self._recorded_steps(next(iter(steps.values())).run))
            listed = str(known) if len(known) < 10 else f"{known[:3]} … {known[-3:]}".replace("] … [", ", …, ")
            raise AddressError(f"{fitting[0]!r} has no record at step {step}; it has steps {listed}")
        return steps[held], Structure.decode(self.records[steps[held]])

    def pair(self) -> tuple[str, str]:
        """The names of teacher and student: models that are called so, else, of two models, the larger is the teacher,
        as in the tabs; standard error says so."""
        latest = {_model_name(key): key for key in sorted(self.records) if key.tag.startswith("structure/")}
        called = {name.rpartition("/")[2] for name in latest}
        if len(latest) != 2 or {"teacher", "student"} <= called:
            return "teacher", "student"

        def place(name: str) -> tuple[bool, bool, int]:
            model = name.rpartition("/")[2].lower()
            header = decode_header(self.records[latest[name]])
            return "student" in model, "teacher" not in model, -header.totals.parameters

        teacher, student = sorted(latest, key=place)
        print(f"{teacher} is taken as the teacher, {student} as the student", file=sys.stderr)
        return teacher, student

    def _recorded_steps(self, run: str) -> set[int]:
        return {key.step for key in self.records if key.run == run}

    def beside(self, key: Key, step: int | None = None) -> tuple[Structure | None, dict[str, Measurement]]:
        """What was recorded in the same run: what ran between the models, and measurements by model.

        A structure that did not change is not written again: it holds until the next one of its tag. Of the records of
        that time the latest count, or the latest until `step`; where there are none, the nearest.
        """
        outside: Structure | None = None
        measurements: dict[str, Measurement] = {}
        end = min(
            (other.step for other in self.records if other[:2] == key[:2] and other.step > key.step), default=None
        )
        series: dict[str, list[int]] = {}
        for other in self.records:
            if other.run == key.run and other.tag.startswith(("outside/", "measurement/")):
                series.setdefault(other.tag, []).append(other.step)
        nearest = {tag: Key(key.run, tag, step_beside(known, key.step, end, step)) for tag, known in series.items()}
        measured = [tag for tag in nearest if tag.startswith("measurement/")]
        for model, tag in names.of_variant(measured, names.variant_of(key.tag)).items():
            with contextlib.suppress(RecordError):
                measurements[model] = Measurement.decode(self.records[nearest[tag]])
        for tag in sorted(nearest):
            if outside is None and tag.startswith("outside/"):
                with contextlib.suppress(RecordError):
                    outside = Structure.decode(self.records[nearest[tag]])
        return outside, measurements


def _model_name(key: Key) -> str:
    """'run/model' or 'run/model/variant'; without the run when it is the log directory itself."""
    model = "/".join(names.split_tag(key.tag)[1:])
    return f"{key.run}/{model}" if key.run else model


def _without_run(keys: list[Key], name: str) -> str:
    return next("/".join(names.split_tag(key.tag)[1:]) for key in keys if _model_name(key) == name)


def _events(file: Path) -> Iterator[tuple[str, str, int, float, list[bytes]]]:
    """(data plugin, tag, step, wall time, blobs) of each value of one event file; a damaged tail ends the file."""
    from tensorboard.backend.event_processing import event_file_loader

    plugins: dict[str, str] = {}
    for event in event_file_loader.LegacyEventFileLoader(str(file)).Load():
        for value in event.summary.value:
            plugin = plugins.setdefault(value.tag, value.metadata.plugin_data.plugin_name)
            if plugin in _PLUGINS:
                yield plugin, value.tag, int(event.step), float(event.wall_time), list(value.tensor.string_val)


def split_address(address: str) -> tuple[str, str, int | None]:
    """'LOGDIR[:MODEL][@STEP]' as its parts.

    >>> split_address("runs/kd:teacher@500"), split_address("runs/kd")
    (('runs/kd', 'teacher', 500), ('runs/kd', '', None))
    """
    step: int | None = None
    head, at, tail = address.rpartition("@")
    if at and tail.lstrip("-").isdigit():
        address, step = head, int(tail)
    if Path(address).exists():
        return address, "", step
    path, colon, model = address.rpartition(":")
    return (path, model, step) if colon else (address, "", step)
