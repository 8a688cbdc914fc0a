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
from dataclasses import dataclass
from importlib import resources
from typing import Any
from urllib.parse import quote

from tb_plugin_structure.analysis.alignment import POLICIES, align
from tb_plugin_structure.analysis.variants import compare_variants
from tb_plugin_structure.cli.event_files import Key
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
    """One of the two records of a report: where it stands, what it is, and when it was written (in s since 1970)."""

    key: Key
    structure: Structure
    wall_time: float


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
    answers = {_answer_key("api/records"): _packed(json.dumps(_listing(both)).encode())}
    for side in both:
        header, *parts = side.structure.encode()
        address = side.key._asdict()
        answers[_answer_key("api/structure", **address, part="header")] = _packed(header)
        for part, stored in zip(side.structure.header.parts, parts, strict=False):
            answers[_answer_key("api/structure", **address, part=part.name)] = _base64(stored)
    intent = {"pins": _javascript_json(pins)} if pins else {}
    sides = {
        f"{letter}_{name}": value
        for letter, side in zip("ts", both, strict=False)
        for name, value in side.key._asdict().items()
    }
    if student is not None:
        for each in dict.fromkeys([policy, *POLICIES]):
            alignment = align(teacher=teacher.structure, student=student.structure, policy=each, pins=dict(pins))
            key = _answer_key("api/alignment", **sides, policy=each, **intent)
            answers[key] = _packed(alignment.to_proto().SerializeToString())
        passes = compare_variants(teacher.structure, student.structure).to_dict()
        answers[_answer_key("api/variants", **sides)] = _packed(json.dumps(passes).encode())
    state = {"t": _side_text(teacher.key), "s": "-" if student is None else _side_text(student.key), **intent}
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
    return _in_run(teacher, "teacher"), _in_run(student, "student")


def _in_run(side: Side, folder: str) -> Side:
    run = f"{folder}/{side.key.run}" if side.key.run else folder
    return Side(side.key._replace(run=run), side.structure, side.wall_time)


def _script() -> str:
    try:
        script = (resources.files("tb_plugin_structure") / "static" / "report.js").read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise NotBuiltError(
            "the frontend of tensorboard-plugin-structure is not built, and a report needs its report.js; "
            "in the source tree, run: make frontend"
        ) from None
    return re.sub("</(?=script)", r"<\\/", script, flags=re.IGNORECASE)


def _listing(sides: Sequence[Side]) -> dict[str, list[dict[str, Any]]]:
    """The answer of ``api/records`` with nothing but these records. Two of one model are two steps of it."""
    from tb_plugin_structure.dashboards.list_records import totals_dict  # TensorBoard is needed only here

    entries: dict[tuple[str, str], dict[str, Any]] = {}
    for key, side in sorted({side.key: side for side in sides}.items()):
        header = side.structure.header
        entry = entries.setdefault(
            key[:2],
            {
                "run": key.run,
                "tag": key.tag,
                "kind": "structure",
                "model": header.model,
                "variant": header.variant,
                "steps": [],
            },
        )
        entry["steps"].append(
            {
                "step": key.step,
                "wall_time": side.wall_time,
                "hash": header.structure_hash,
                "structure_hash": header.structure_hash,
                "model_class": header.model_class,
                "training": header.provenance.training,
                "error": f"{header.error.type}: {header.error.message}" if header.HasField("error") else None,
                "totals": totals_dict(header.totals),
            }
        )
    return {"structures": list(entries.values()), "attention": [], "measurements": [], "plans": [], "problems": []}


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
