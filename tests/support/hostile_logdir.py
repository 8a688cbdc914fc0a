"""A log directory that means harm, and requests that do: for a real TensorBoard under either reader."""

from __future__ import annotations

import contextlib
import json
import math
import random
import struct
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

from google.protobuf.message import DecodeError
from tensorboard.compat.proto import event_pb2

from tb_plugin_structure import event_file
from tb_plugin_structure.checksum import masked_crc32c
from tb_plugin_structure.records import names
from tb_plugin_structure.v1 import structure_pb2
from tests.support.exercised_records import GOOD
from tests.support.fuzzed_records import BYTES, HOSTILE_NAMES, fuzzed
from tests.support.small_records import small_attention, small_structure
from tests.support.tensorboard_server import TensorBoardServer

PLUGINS = {
    "structure": names.STRUCTURE_PLUGIN,
    "attention": names.ATTENTION_OVERVIEW_PLUGIN,
    "measurement": names.MEASUREMENT_PLUGIN,
}
PARTS = {
    "structures": ("api/structure", ("header", "strings", "modules", "operators", "tensors", "config")),
    "attention": ("api/attention/overview", ("header", "statistics", "maximum", "mass")),
    "measurements": ("api/measurement", ("header", "strings", "measurements")),
}
TABS = ("structure_graph_diff", "structure_shape_audit", "structure_attention")


def framed(data: bytes) -> bytes:
    """One record of an event file, its checksums valid whatever the data."""
    header = struct.pack("<Q", len(data))
    return b"".join((header, struct.pack("<I", masked_crc32c(header)), data, struct.pack("<I", masked_crc32c(data))))


def write_logdir(folder: Path, count: int, seed: int = 0) -> None:
    """A good run, `count` fuzzed records in one run, `count` files of fuzzed events, hostile names, NaN totals."""
    good = event_file.OwnEventFile(folder / "good")
    for model in ("teacher", "student"):
        structure = small_structure(model, hidden=4 if model == "teacher" else 2)
        overview, detail = small_attention(model)
        for plugin, tag, blobs in (
            (names.STRUCTURE_PLUGIN, names.structure_tag(model), structure.encode()),
            (names.ATTENTION_OVERVIEW_PLUGIN, names.attention_overview_tag(model), overview.encode()),
            (names.ATTENTION_DETAIL_PLUGIN, names.attention_detail_tag(model, "attention"), detail),
            (names.MEASUREMENT_PLUGIN, names.measurement_tag(model), GOOD["measurement"][0]),
        ):
            good.add_event(event_file.record_event(plugin, tag, blobs, 0))
    good.close()

    records = event_file.OwnEventFile(folder / "fuzzed")
    for number in range(count):
        kind = ("structure", "structure", "attention", "measurement")[number % 4]
        blobs, header_type, _ = GOOD[kind]
        stored = fuzzed(blobs, header_type, seed + number)
        records.add_event(event_file.record_event(PLUGINS[kind], f"{kind}/{number}", stored, 0))
    records.close()

    hostile = event_file.OwnEventFile(folder / "hostile <b>name</b>")
    for number, name in enumerate(HOSTILE_NAMES):
        proto = structure_pb2.StructureHeader(model=name, model_class=name, notes=[name])
        proto.totals.macs = (math.nan, math.inf, -1.0)[number % 3]
        structure = small_structure(name, notes=[name])
        structure.header.totals.macs = proto.totals.macs
        blobs = [structure.header.SerializeToString(), *structure.encode()[1:]]
        hostile.add_event(
            event_file.record_event(names.STRUCTURE_PLUGIN, names.structure_tag(name or "empty"), blobs, 0)
        )
    for tag in ("../../etc/passwd", "structure/\u202e", "", "structure/%2e%2e", "x" * 10_000):
        hostile.add_event(event_file.record_event(names.STRUCTURE_PLUGIN, tag, small_structure().encode(), 0))
    for wall_time, step in ((math.nan, 0), (math.inf, 1 << 62), (-1e300, (1 << 63) - 1)):
        event = event_file.record_event(names.STRUCTURE_PLUGIN, "structure/times", small_structure().encode(), step)
        event.wall_time = wall_time
        hostile.add_event(event)
    hostile.close()

    random_ = random.Random(seed)
    start = framed(event_pb2.Event(wall_time=0, file_version="brain.Event:2").SerializeToString())
    event = event_file.record_event(names.STRUCTURE_PLUGIN, "structure/teacher", small_structure().encode(), 0)
    whole = event.SerializeToString()
    for number in range(count):
        run = folder / f"events{number:03}"
        run.mkdir(parents=True)
        damage = random_.choice(BYTES)
        if number % 2:  # a damaged event with valid checksums, between good ones
            data = start + framed(whole) + framed(_damaged_event(whole, random_)) + framed(whole)
        else:  # a damaged file
            data = damage(start + framed(whole) * 3, random_)
        (run / "events.out.tfevents.1700000000.host").write_bytes(data)


def _damaged_event(data: bytes, random_: random.Random) -> bytes:
    """A damaged event that is still an Event message: of one that is none, TensorBoard's Python reader dies for all
    runs that it has not read yet, whatever plugins there are."""
    while True:
        damaged = random_.choice(BYTES)(data, random_)
        with contextlib.suppress(DecodeError, UnicodeDecodeError):  # the latter: protobuf in pure Python
            event_pb2.Event.FromString(damaged)
            return damaged


def wait_until_read(server: TensorBoardServer) -> None:
    """The good run and the hostile one are there; TensorBoard reads runs one after the other."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        runs = {(entry["run"], entry["tag"]) for entry in server.records()["structures"]}
        if {("good", "structure/student"), ("hostile <b>name</b>", "structure/constructor")} <= runs:
            return
        time.sleep(0.5)
    raise AssertionError(f"read so far: {sorted(run for run, _ in runs)}")


def ask_for_records(server: TensorBoardServer, share: float = 1.0) -> Counter[int]:
    """Every listed record through every route that takes it, or a share of these requests.

    Returns the statuses; none may be a 5xx.
    """
    statuses: Counter[int] = Counter()
    random_ = random.Random(0)

    def ask(path: str) -> None:
        if random_.random() > share or len(path) > 30_000:
            return
        status, headers, body = server.request(path)
        assert status < 500, f"{status} for {path[:300]}: {body[:300]!r}"
        assert headers["Content-Type"].startswith(("text/plain", "application/")), headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        statuses[status] += 1

    listing = server.records()
    good = {"t_run": "good", "t_tag": "structure/teacher", "t_step": 0}
    for kind, (route, parts) in PARTS.items():
        for entry in listing[kind]:
            for step in entry["steps"]:
                address = {"run": entry["run"], "tag": entry["tag"], "step": step["step"]}
                for part in parts:
                    ask(f"{TABS[0]}/{route}?{urlencode({**address, 'part': part})}")
                other = {f"s_{name}": value for name, value in address.items()}
                if kind == "structures":
                    for query in (other | good, {f"t_{name}": value for name, value in address.items()} | other):
                        ask(f"{TABS[0]}/api/alignment?{urlencode(query)}")
                        ask(f"{TABS[1]}/api/audit?{urlencode({**query, 'format': 'json'})}")
                if kind == "attention":
                    query = other | {**good, "t_tag": "overview/teacher"}
                    ask(f"{TABS[2]}/api/attention/comparison?{urlencode(query)}")
                    ask(f"{TABS[2]}/api/attention/stored?{urlencode(address)}")
                    ask(f"{TABS[2]}/api/attention/detail?{urlencode({**address, 'layer': 0, 'head': 1})}")
    return statuses


ROUTES = {
    "api/records": (),
    "api/structure": ("run", "tag", "step", "part", "hash"),
    "api/measurement": ("run", "tag", "step", "part", "hash"),
    "api/measurements": ("run", "model", "variant"),
    "api/measurements/values": ("run", "model", "variant", "quantity", "step", "hash"),
    "api/attention/overview": ("run", "tag", "step", "part", "hash"),
    "api/attention/detail": ("run", "tag", "step", "layer", "head", "hash"),
    "api/attention/stored": ("run", "tag", "step", "hash"),
    "api/attention/comparison": ("t_run", "t_tag", "t_step", "s_run", "s_tag", "s_step"),
    "api/alignment": ("t_run", "t_tag", "t_step", "s_run", "s_tag", "s_step", "policy", "policies", "pins"),
    "api/audit": ("t_run", "t_tag", "t_step", "s_run", "s_tag", "s_step", "policy", "policies", "pins", "format"),
    "static/graph_diff.js": ("v",),
    "static/../../secret": (),
    "nothing": (),
}
VALUES = (
    *("good", "structure/teacher", "overview/teacher", "measurement/teacher", "0", "header", "modules", "copy", "json"),
    *("", "-1", "1e9", "NaN", str(1 << 63), "9" * 4_000, "x" * 5_000, "../..", "%00", "\x00", "\ud800", "\u202e"),
    *(
        "<script>alert(1)</script>",
        "{}",
        "[]",
        "null",
        "[[[[",
        '{"a": "\\ud800"}',
        '{"first": 3}',
        '{"first": ["second"]}',
    ),
    *('{"": "copy"}', '{"blocks": [99999999999999999999]}', '{"a": [true]}', "0 OR 1=1", "٣", "1_0", " 0 ", "+0"),
)
METHODS = ("GET",) * 8 + ("HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND")
BODIES = (
    *(
        b"",
        b"{}",
        b"[]",
        b"\xff\xfe",
        b"[" * 50_000,
        b'{"teacher": {"run": "good", "tag": "structure/teacher", "step": 0}}',
    ),
    *(
        b'{"teacher": {"run": "\\ud800", "tag": "a", "step": 0}, "student": {"run": "a", "tag": "b", "step": 0}}',
        b"x" * 2_000_000,
    ),
    json.dumps({s: {"run": "good", "tag": f"structure/{s}", "step": 0} for s in ("teacher", "student")}).encode(),
)


def requests(count: int, seed: int = 0) -> Iterator[tuple[str, str, bytes | None, dict[str, str]]]:
    """(method, path below data/plugin, body, headers)."""
    random_ = random.Random(seed)
    for _ in range(count):
        route, parameters = random_.choice(list(ROUTES.items()))
        method = random_.choice(METHODS)
        chosen: list[tuple[str, str]] = []
        for name in parameters:
            for _ in range(random_.choice((0, 1, 1, 1, 1, 1, 1, 2))):
                chosen.append((name, _sensible(name) if random_.random() < 0.7 else random_.choice(VALUES)))
        query = "&".join(f"{name}={quote(value, errors='surrogatepass')}" for name, value in chosen)
        body = random_.choice(BODIES) if method not in ("GET", "HEAD", "OPTIONS") else None
        kind = random_.choice(("application/json", "text/plain", "application/json; charset=latin-1", ""))
        yield method, f"{random_.choice(TABS)}/{route}?{query}", body, {"Content-Type": kind} if body else {}


def _sensible(name: str) -> str:
    side = "student" if name.startswith("s_") else "teacher"
    plain = name.partition("_")[2] or name
    return {
        "run": "good",
        "model": side,
        "quantity": "gradient_norm",
        "tag": f"structure/{side}",
        "step": "0",
        "part": "header",
        "hash": "",
        "policy": "copy",
        "policies": "{}",
        "pins": "{}",
        "format": "csv",
    }.get(plain, "0")


def send(server: TensorBoardServer, count: int, seed: int = 0) -> Counter[int]:
    """Wrong requests. Returns the statuses; none may be a 5xx."""
    statuses: Counter[int] = Counter()
    for method, path, body, headers in requests(count, seed):
        status, _, answer = server.request(path, method=method, body=body, headers=headers)
        assert status < 500, f"{status} for {method} {path[:300]}: {answer[:300]!r}"
        assert status < 400 or status == 404 or answer or method == "HEAD", f"{status} without a word for {path[:300]}"
        statuses[status] += 1
    return statuses
