"""Every route in a real TensorBoard, under the Python reader and under the data server."""

from __future__ import annotations

import gzip
import json
from urllib.parse import quote, urlencode

import numpy as np
import pytest

from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import alignment_pb2, audit_pb2, columns_pb2, structure_pb2
from tests.support.small_records import small_structure
from tests.support.tensorboard_server import TensorBoardServer

TAB = "structure_graph_diff"
PAIR = {
    "t_run": "kd",
    "t_tag": "structure/teacher",
    "t_step": "0",
    "s_run": "kd",
    "s_tag": "structure/student",
    "s_step": "0",
}


def _entry(listing: dict, kind: str, run: str, tag: str) -> dict:  # type: ignore[type-arg]
    return next(entry for entry in listing[kind] if (entry["run"], entry["tag"]) == (run, tag))


def test_the_three_tabs_are_listed_and_active(server: TensorBoardServer) -> None:
    listing = server.json("/data/plugins_listing")
    for tab, name in (
        ("structure_graph_diff", "Graph diff"),
        ("structure_shape_audit", "Shape audit"),
        ("structure_attention", "Attention"),
    ):
        assert listing[tab]["tab_name"] == name
        assert listing[tab]["enabled"] is True
        assert listing[tab]["loading_mechanism"]["type"] == "IFRAME"
    order = [tab for tab in listing if tab.startswith("structure_")]
    assert order == ["structure_graph_diff", "structure_shape_audit", "structure_attention"]


def test_every_step_is_kept_not_a_sample_of_ten(server: TensorBoardServer) -> None:
    teacher = _entry(server.records(), "structures", "kd", "structure/teacher")
    assert [step["step"] for step in teacher["steps"]] == list(range(0, 300, 10))
    first, last = teacher["steps"][0], teacher["steps"][-1]
    assert (first["totals"]["parameters"], last["totals"]["parameters"]) == (26, 38)
    assert first["structure_hash"] != last["structure_hash"]
    assert (first["model_class"], first["error"], teacher["kind"]) == ("Small", None, "structure")


def test_partial_and_damaged_records_are_listed_as_such(server: TensorBoardServer) -> None:
    listing = server.records()
    partial = _entry(listing, "structures", "broken", "structure/partial")
    assert partial["steps"][0]["error"] == "RuntimeError: shapes do not meet"
    problems = [(problem["run"], problem["tag"]) for problem in listing["problems"]]
    assert ("broken", "structure/garbage") in problems
    # A damaged file hides neither the other runs nor what came before the damage in its own.
    assert _entry(listing, "structures", "truncated", "structure/teacher")["steps"]
    assert _entry(listing, "structures", "flipped", "structure/teacher")["steps"]


def test_attention_and_plans_are_listed(server: TensorBoardServer) -> None:
    listing = server.records()
    attention = _entry(listing, "attention", "kd", "overview/teacher")
    assert (attention["steps"][0]["layers"], attention["steps"][0]["heads"]) == (1, 2)
    plan = _entry(listing, "plans", "kd", "plan/teacher/student")
    assert (plan["teacher"], plan["student"]) == ("teacher", "student")
    assert plan["steps"][0]["pins"] == {"first": "second", "activation": None}


def test_parts_put_together_are_the_record_that_was_written(server: TensorBoardServer) -> None:
    address = "run=kd&tag=structure/teacher&step=0"
    header = structure_pb2.StructureHeader.FromString(server.get(f"{TAB}/api/structure?{address}&part=header"))
    blobs = [header.SerializeToString(deterministic=True)]
    for part in header.parts:
        # urllib asks for no compression, so TensorBoard unpacks the stored gzip on the way.
        blobs.append(gzip.compress(server.get(f"{TAB}/api/structure?{address}&part={part.name}"), mtime=0))
    structure = Structure.decode(blobs)
    assert structure.module_paths == ["", "first", "activation", "second"]
    assert structure.config == {"hidden": 4}


def test_stored_bytes_are_sent_as_they_are_and_cached_only_with_a_hash(server: TensorBoardServer) -> None:
    address = "run=kd&tag=structure/student&step=0&part=modules"
    stored = small_structure("student", hidden=2).encode()
    status, headers, body = server.request(f"{TAB}/api/structure?{address}", headers={"Accept-Encoding": "gzip"})
    assert (status, headers["Content-Encoding"]) == (200, "gzip")
    assert body in stored
    assert "no-cache" in headers["Cache-Control"]
    digest = _entry(server.records(), "structures", "kd", "structure/student")["steps"][0]["hash"]
    _, headers, _ = server.request(f"{TAB}/api/structure?{address}&hash={digest}")
    assert headers["Cache-Control"] == "private, max-age=86400"


def test_a_graph_of_add_graph_is_listed_and_served_as_a_structure(server: TensorBoardServer) -> None:
    entry = _entry(server.records(at_least=7), "structures", "added", "__run_graph__")
    assert (entry["kind"], entry["steps"][0]["model_class"], entry["steps"][0]["totals"]["operators"]) == (
        "graph",
        "Net",
        2,
    )
    address = "run=added&tag=__run_graph__&step=0"
    data = server.get(f"{TAB}/api/structure?{address}&part=operators")
    assert columns_pb2.Table.FromString(data).rows == 2


def test_alignment_and_audit_answer_with_their_messages(server: TensorBoardServer) -> None:
    alignment = alignment_pb2.Alignment.FromString(server.get(f"{TAB}/api/alignment?{urlencode(PAIR)}"))
    assert (alignment.teacher, alignment.student) == ("teacher", "student")
    assert alignment.teacher_totals.parameters == 26
    pairs = {column.name: column for column in alignment.pairs.columns}
    teacher = np.frombuffer(pairs["teacher"].values, "<i4").tolist()
    student = np.frombuffer(pairs["student"].values, "<i4").tolist()
    assert sorted(zip(teacher, student, strict=True)) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    report = audit_pb2.Audit.FromString(server.get(f"structure_shape_audit/api/audit?{urlencode(PAIR)}"))
    assert report.rows.rows >= 4
    assert isinstance(report.rows, columns_pb2.Table)


def test_a_post_computes_the_same_alignment(server: TensorBoardServer) -> None:
    body = {
        "teacher": {"run": "kd", "tag": "structure/teacher", "step": 0},
        "student": {"run": "kd", "tag": "structure/student", "step": 0},
    }
    status, _, posted = server.request(
        f"{TAB}/api/alignment",
        method="POST",
        body=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    assert status == 200
    assert posted == server.get(f"{TAB}/api/alignment?{urlencode(PAIR)}")


def test_pins_move_a_pair_and_unknown_pins_name_the_nearest_path(server: TensorBoardServer) -> None:
    query = urlencode({**PAIR, "pins": json.dumps({"activation": None})})
    alignment = alignment_pb2.Alignment.FromString(server.get(f"{TAB}/api/alignment?{query}"))
    student = np.frombuffer(next(c for c in alignment.pairs.columns if c.name == "student").values, "<i4").tolist()
    teacher = np.frombuffer(next(c for c in alignment.pairs.columns if c.name == "teacher").values, "<i4").tolist()
    assert teacher[student.index(2)] == -1
    query = urlencode({**PAIR, "pins": json.dumps({"secnd": "second"})})
    status, _, text = server.request(f"{TAB}/api/alignment?{query}")
    assert status == 400
    assert b"second" in text


@pytest.mark.parametrize("format_", ["markdown", "csv", "json"])
def test_the_audit_can_be_downloaded(server: TensorBoardServer, format_: str) -> None:
    status, headers, body = server.request(f"{TAB}/api/audit?{urlencode({**PAIR, 'format': format_})}")
    assert status == 200
    assert headers["Content-Disposition"].startswith("attachment")
    assert b"second" in body


def test_attention_routes(server: TensorBoardServer) -> None:
    tab = "structure_attention"
    address = "run=kd&tag=overview/teacher&step=0"
    assert len(server.get(f"{tab}/api/attention/overview?{address}&part=maximum")) == 2 * 9
    assert server.json(f"{tab}/api/attention/stored?{address}")["heads"] == [[1]]
    matrix = np.frombuffer(server.get(f"{tab}/api/attention/detail?{address}&layer=0&head=1"), "<f2")
    assert matrix.reshape(3, 3).tolist() == [[1, 0, 0]] * 3
    status, _, text = server.request(f"{tab}/api/attention/detail?{address}&layer=0&head=0")
    assert status == 404
    assert b"overview only" in text
    pair = "t_run=kd&t_tag=overview/teacher&t_step=0&s_run=kd&s_tag=overview/student&s_step=0"
    comparison = server.json(f"{tab}/api/attention/comparison?{pair}")
    assert comparison["layer_distances"][0][0] == pytest.approx(0.0, abs=1e-3)
    assert comparison["pairing"] == "least distance"
    # The structures of this run have no module around the attention, so their alignment says nothing of it.
    assert server.json(f"{tab}/api/attention/comparison?{pair}&policy=copy")["pairing"] == "least distance"


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("api/structure", 400, "'run' is missing"),
        ("api/structure?run=kd&run=kd&tag=t&step=0&part=header", 400, "2 times"),
        ("api/structure?run=kd&tag=structure/teacher&step=x&part=header", 400, "whole number"),
        (f"api/structure?run=kd&tag=structure/teacher&step={'9' * 30}&part=header", 400, "whole number"),
        ("api/structure?run=kd&tag=structure/teacher&step=5&part=header", 404, "there are steps 0, 10"),
        ("api/structure?run=nowhere&tag=structure/teacher&step=0&part=header", 404, "no record at run 'nowhere'"),
        ("api/structure?run=../../etc&tag=../passwd&step=0&part=header", 404, "no record"),
        ("api/structure?run=kd&tag=structure/teacher&step=0&part=nonsense", 404, "it has header, strings"),
        ("api/structure?run=kd&tag=structure/teacher&step=0&part=header&hash=0", 404, "no record"),
        (f"api/structure?run={'x' * 5000}&tag=t&step=0&part=header", 400, "5,000 characters"),
        ("api/structure?run=%00&tag=%ff&step=0&part=header", 404, "no record"),
        ("api/structure?run=broken&tag=structure/garbage&step=0&part=strings", 422, "damaged"),
        ("api/alignment?t_run=kd&t_tag=structure/teacher&t_step=0", 400, "'s_run' is missing"),
        ("api/variants?t_run=kd&t_tag=structure/teacher&t_step=0", 400, "'s_run' is missing"),
        (f"api/variants?{urlencode({**PAIR, 't_run': 'broken', 't_tag': 'structure/damaged'})}", 422, "damaged"),
        (f"api/alignment?{urlencode({**PAIR, 'pins': '[1]'})}", 400, "expected an object"),
        (f"api/alignment?{urlencode({**PAIR, 'pins': '{'})}", 400, "not valid JSON"),
        (f"api/alignment?{urlencode({**PAIR, 'pins': json.dumps({'first': 3})})}", 400, "teacher path"),
        (f"api/alignment?{urlencode({**PAIR, 'policy': 'sideways'})}", 400, "copy"),
        (f"api/alignment?{urlencode({**PAIR, 't_run': 'broken', 't_tag': 'structure/damaged'})}", 422, "damaged"),
        (f"api/audit?{urlencode({**PAIR, 'format': 'exe'})}", 400, "markdown"),
        ("api/attention/detail?run=kd&tag=overview/teacher&step=0&layer=7&head=0", 400, "layers 0 to 0"),
        ("api/attention/detail?run=kd&tag=overview/teacher&step=0&layer=0&head=-1", 400, "heads 0 to 1"),
        ("static/nothing.js", 404, "no file"),
        ("static/%2e%2e/py.typed", 404, "no file"),
        ("static/../plugin.py", 404, "no file"),
    ],
)
def test_wrong_requests_get_a_sentence(server: TensorBoardServer, query: str, status: int, words: str) -> None:
    got, headers, body = server.request(f"{TAB}/{quote(query, safe='/?=&%+.:')}")
    if "static/" in query and got == 404 and words.encode() not in body:
        return  # TensorBoard itself refused the path
    assert (got, words in body.decode()) == (status, True), body.decode()[:500]
    assert headers["Content-Type"].startswith("text/plain")
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "POST"])
def test_other_methods_are_refused(server: TensorBoardServer, method: str) -> None:
    status, headers, body = server.request(f"{TAB}/api/records", method=method, body=b"")
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert b"answers GET" in body


@pytest.mark.parametrize(
    ("content_type", "body", "words"),
    [
        ("text/plain", b"{}", b"application/json"),
        ("application/json", b"[]", b"expected an object"),
        ("application/json", b"\xff", b"not valid JSON"),
        ("application/json", b"{}", b"'teacher'"),
        ("application/json", b'{"teacher": {"run": 1}}', b"run and tag as text"),
        ("application/json", b"[" * 100_000, b"not valid JSON"),
    ],
)
def test_wrong_bodies_get_a_sentence(server: TensorBoardServer, content_type: str, body: bytes, words: bytes) -> None:
    status, _, text = server.request(
        f"{TAB}/api/alignment", method="POST", body=body, headers={"Content-Type": content_type}
    )
    assert status == 400
    assert words in text


def test_nothing_in_the_log_went_wrong(server: TensorBoardServer) -> None:
    """Runs last in this file: no request above left a trace of an unhandled fault."""
    assert server.alive
    assert not [line for line in server.log if "Traceback" in line or "failed" in line.lower()]
