"""What was measured of a model, as a report holds it: the answers of ``api/measurements`` and ``api/measurement``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from tb_plugin_structure.cli.event_files import EventFiles, Key
from tb_plugin_structure.records import names

MOST_MEASUREMENTS = 200
"""Of the measurements of one model so many are kept, evenly over the steps. ``report_answers.ts`` keeps as many."""

_PARTS = ("strings", "measurements")


class Answer(NamedTuple):
    """One answer of the server. `data` is stored already compressed when `is_packed`."""

    route: str
    parameters: dict[str, str | int]
    data: bytes
    is_packed: bool


class Measured(NamedTuple):
    """The answers, the entries of ``api/records``, and a sentence when some records are left out."""

    answers: list[Answer]
    entries: list[dict[str, Any]]
    left_out: str


def measured(files: EventFiles, stored: Key, shown: Key, model: str) -> Measured | None:
    """All that was measured of a model of the run of `stored`, under the run of `shown`; None where nothing was.

    Damaged records are left out.
    """
    from tb_plugin_structure.dashboards.serve_measurements import described, listing, tags_of  # loads TensorBoard

    variant = names.variant_of(stored.tag)
    tags = {key.tag for key in files.records if key.run == stored.run and key.tag.startswith("measurement/")}
    chosen = set(tags_of(sorted(tags), model, variant))
    found = []
    for key in sorted((key for key in files.records if key.run == stored.run and key.tag in chosen), key=_by_step):
        blobs = files.records[key]
        try:
            found.append((key, blobs, described(blobs[0], lambda blobs=blobs: blobs)))  # type: ignore[misc]
        except Exception:  # as the server does
            continue
    if not found:
        return None
    count = len(found)
    kept = [found[position] for position in _evenly(count)]
    left_out = f"Of {count} measurements of {model} this report holds {len(kept)}, evenly over the steps."
    listed = listing(
        ({"tag": key.tag, "step": key.step, "wall_time": files.wall_times[key], "hash": ""}, about)
        for key, _, about in kept
    )
    parameters: dict[str, str | int] = {"run": shown.run, "model": model}
    if variant:
        parameters["variant"] = variant
    answers = [Answer("api/measurements", parameters, json.dumps(listed).encode(), is_packed=False)]
    entries: dict[str, dict[str, Any]] = {}
    for key, blobs, (header, _) in kept:
        address: dict[str, str | int] = {"run": shown.run, "tag": key.tag, "step": key.step}
        for part, blob in zip(header.parts, blobs[1:], strict=False):
            if part.name in _PARTS:
                answers.append(Answer("api/measurement", {**address, "part": part.name}, blob, is_packed=True))
        entry = entries.setdefault(key.tag, {"run": shown.run, "tag": key.tag, "model": model, "steps": []})
        step = {"step": key.step, "wall_time": files.wall_times[key], "hash": ""}
        entry["steps"].append({**step, "structure_hash": header.structure_hash})
    return Measured(answers, list(entries.values()), left_out if count > len(kept) else "")


def _by_step(key: Key) -> tuple[int, str]:
    return key.step, key.tag


def _evenly(count: int) -> Iterator[int]:
    """Positions of those that are kept, the first and the last among them."""
    if count <= MOST_MEASUREMENTS:
        yield from range(count)
    else:
        last = MOST_MEASUREMENTS - 1
        yield from (round(index * (count - 1) / last) for index in range(MOST_MEASUREMENTS))
