"""The Graph diff of two recorded structures, or of one alone, as one HTML file, which opens from disk without a server.

The file is what the tab itself exports: the script ``static/report.js`` and, as JSON in front of it, the answers that
it would ask TensorBoard for, by address, gzipped and in base64. The reader is ``dashboards/graph_diff/report_file.ts``.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any
from urllib.parse import quote

from tb_plugin_structure.analysis.alignment import POLICIES, align
from tb_plugin_structure.analysis.audit import audit
from tb_plugin_structure.analysis.compared_features import compared_features
from tb_plugin_structure.analysis.variants import compare_variants
from tb_plugin_structure.cli.event_files import EventFiles, Key
from tb_plugin_structure.cli.report_measured import Measured, measured
from tb_plugin_structure.records import names
from tb_plugin_structure.records.blobs import compress
from tb_plugin_structure.records.structure import Structure

Pins = Mapping[str, str | None]

_TAB = "structure_graph_diff"
_ELEMENT = "tb-structure-report"
_READABLE = "/:,@$!~*'()"


class NotBuiltError(RuntimeError):
    """The package has no built frontend, so there is no script for a report."""


@dataclass(frozen=True)
class Side:
    """One of the two records of a report: what it is, and where it stands."""

    files: EventFiles
    key: Key
    structure: Structure
    folder: str = ""
    """In front of the run's name, where the same run of two log directories would be one."""
    step: int | None = None
    """The step that was asked for; None for the latest."""

    @property
    def shown(self) -> Key:
        """Where it stands in the report."""
        run = "/".join(filter(None, (self.folder, self.key.run)))
        return self.key._replace(run=run)


def report_html(teacher: Side, student: Side | None, *, policy: str = "copy", pins: Pins | None = None) -> str:
    """The page, opened on the pairs of `policy` and `pins`. The other policies can be chosen in it.

    Without a student it shows one model alone.

    Raises:
        NotBuiltError: When the frontend is not built.
        ValueError: When a pin or the policy does not fit the structures; the message lists what would.
    """
    script = _script()
    pins = pins or {}
    both = (teacher,) if student is None else (teacher, student)
    answers: dict[str, str] = {}
    found = {(side.shown, side.structure.name): _measured(side) for side in both}
    measurements = [each for each in found.values() if each is not None]
    listing = _listing(both, measurements)
    answers[_answer_key("api/records")] = _packed(json.dumps(listing).encode())
    for side in both:
        header, *parts = side.structure.encode()
        address = side.shown._asdict()
        answers[_answer_key("api/structure", **address, part="header")] = _packed(header)
        for part, stored in zip(side.structure.header.parts, parts, strict=False):
            answers[_answer_key("api/structure", **address, part=part.name)] = _base64(stored)
    for each in measurements:
        for route, parameters, data, is_packed in each.answers:
            answers[_answer_key(route, **parameters)] = _base64(data) if is_packed else _packed(data)
    intent = {"pins": _javascript_json(pins)} if pins else {}
    sides = {
        f"{letter}_{name}": value
        for letter, side in zip("ts", both, strict=False)
        for name, value in side.shown._asdict().items()
    }
    if student is not None:
        outside, measured_beside = student.files.beside(student.key, student.step)
        of_roles = {
            role: measured_beside[side.structure.name]
            for role, side in (("teacher", teacher), ("student", student))
            if side.structure.name in measured_beside
        }
        models = {"teacher": teacher.structure, "student": student.structure}
        for each_policy in dict.fromkeys([policy, *POLICIES]):
            alignment = align(**models, policy=each_policy, pins=dict(pins))
            report = audit(alignment, outside=outside, measurements=of_roles)
            for route, made in (("api/alignment", alignment), ("api/audit", report)):
                key = _answer_key(route, **sides, policy=each_policy, **intent)
                answers[key] = _packed(made.to_proto().SerializeToString())
        passes = compare_variants(teacher.structure, student.structure).to_dict()
        answers[_answer_key("api/variants", **sides)] = _packed(json.dumps(passes).encode())
        if outside is not None:
            pairs = [each.to_dict() for each in compared_features(outside, **models)]
            compared = {"recorded": True, "pairs": pairs}
            answers[_answer_key("api/compared", **sides)] = _packed(json.dumps(compared).encode())
    state = {"t": _side_text(teacher.shown), "s": "-" if student is None else _side_text(student.shown), **intent}
    if policy != "copy":
        state["policy"] = policy
    stored_json = json.dumps({"state": _hash(state), "answers": answers}, ensure_ascii=False)
    title = f"Graph diff of {' and '.join(names.split_tag(side.key.tag)[1] for side in both)}"
    # Names of models and runs stand in the JSON: without "<" none of them can end the element.
    return "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            f"<title>{html.escape(title)}</title></head><body>",
            f'<script type="application/json" id="{_ELEMENT}">' + stored_json.replace("<", "\\u003c") + "</script>",
            f"<script>{script}</script></body></html>",
            "",
        ]
    )


def distinct(teacher: Side, student: Side) -> tuple[Side, Side]:
    """Two sides from different log directories, where run and tag may be equal by chance: then named apart."""
    if teacher.key[:2] != student.key[:2]:
        return teacher, student
    return replace(teacher, folder="teacher"), replace(student, folder="student")


def _measured(side: Side) -> Measured | None:
    return measured(side.files, side.key, side.shown, side.structure.name)


def _script() -> str:
    try:
        script = (resources.files("tb_plugin_structure") / "static" / "report.js").read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise NotBuiltError(
            "the frontend of tensorboard-plugin-structure is not built, and a report needs its report.js; "
            "in the source tree, run: make frontend"
        ) from None
    return re.sub("</(?=script)", r"<\\/", script, flags=re.IGNORECASE)


def _listing(sides: Sequence[Side], measurements: Sequence[Measured]) -> dict[str, list[dict[str, Any]]]:
    """The answer of ``api/records`` with these records, and what was recorded beside them. Two of one model are two
    steps of it."""
    from tb_plugin_structure.dashboards.list_records import totals_dict  # TensorBoard is needed only here

    entries: dict[tuple[str, str], dict[str, Any]] = {}

    def add(key: Key, kind: str, structure: Structure, wall_time: float) -> None:
        header = structure.header
        about = {"kind": kind, "model": header.model, "variant": header.variant}
        entry = entries.setdefault(key[:2], {"run": key.run, "tag": key.tag, **about, "steps": []})
        entry["steps"].append(
            {
                "step": key.step,
                "wall_time": wall_time,
                "hash": header.structure_hash,
                "structure_hash": header.structure_hash,
                "model_class": header.model_class,
                "training": header.provenance.training,
                "error": f"{header.error.type}: {header.error.message}" if header.HasField("error") else None,
                "totals": totals_dict(header.totals),
            }
        )

    for key, side in sorted({side.shown: side for side in sides}.items()):
        add(key, "structure", side.structure, side.files.wall_times[side.key])
    if len(sides) == 2:
        student = sides[1]
        for key, structure in student.files.structures(("outside/",)):
            if key.run == student.key.run:
                add(key._replace(run=student.shown.run), "outside", structure, student.files.wall_times[key])
    problems = [
        {"run": each.entries[0]["run"], "tag": "", "step": 0, "message": each.left_out}
        for each in measurements
        if each.left_out
    ]
    return {
        "structures": list(entries.values()),
        "attention": [],
        "measurements": [entry for each in measurements for entry in each.entries],
        "plans": [],
        "problems": problems,
    }


def _answer_key(route: str, **parameters: str | int) -> str:
    """One name for a request, as the page makes it: the parameters sorted, and not escaped."""
    return f"{route}?{'&'.join(sorted(f'{name}={value}' for name, value in parameters.items()))}"


def _side_text(key: Key) -> str:
    return f"{key.run}:{key.tag}@{key.step}"


def _hash(values: Mapping[str, str]) -> str:
    """The hash of the address of a tab that shows this; escaped is what could split a value."""
    pairs = [f"p.{_TAB}.{name}={quote(value, safe=_READABLE)}" for name, value in values.items()]
    return f"#{'&'.join([_TAB, *pairs])}"


def _javascript_json(pins: Pins) -> str:
    """The pins as the page writes them again: without spaces, and with keys that are numbers first, ascending."""
    numbers = sorted((path for path in pins if re.fullmatch("0|[1-9][0-9]{0,8}", path)), key=int)
    return json.dumps(
        {path: pins[path] for path in dict.fromkeys([*numbers, *pins])}, separators=(",", ":"), ensure_ascii=False
    )


def _packed(data: bytes) -> str:
    return _base64(compress(data))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
