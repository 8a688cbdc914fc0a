"""``tb-structure export RUN --out report.html``: what the file holds, and that names in it stay names."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

import tb_plugin_structure
from tb_plugin_structure.cli.main import main
from tb_plugin_structure.v1 import alignment_pb2, structure_pb2

MODELS = "tests.unit.cli.toy_models"
PACKAGE = Path(tb_plugin_structure.__file__).parent
HOSTILE = '</script><script>alert(1)</script><!--&"'

needs_frontend = pytest.mark.skipif(
    not (PACKAGE / "static" / "report.js").is_file(), reason="the frontend is not built; run `make frontend`"
)


def record(logdir: Path, factory: str, name: str) -> None:
    command = ["capture", f"{MODELS}:{factory}", "--input", "2,3,16,16", "--name", name, "--logdir", str(logdir)]
    assert main(command) == 0


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "kd"
    for name in ("teacher", "student"):
        record(path, name, name)
    return path


class Reader(HTMLParser):
    """What a browser makes of the page: its elements with their attributes and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.text.append("")

    def handle_data(self, data: str) -> None:
        if self.text:
            self.text[-1] += data

    def stored(self) -> Any:
        return next(
            json.loads(text)
            for (_, attributes), text in zip(self.elements, self.text, strict=True)
            if attributes.get("id") == "tb-structure-report"
        )


def export(target: Path, *arguments: str) -> str:
    assert main(["export", *arguments, "--out", str(target)]) == 0
    return target.read_text(encoding="utf-8")


def answer(stored: Any, key: str) -> bytes:
    return gzip.decompress(base64.b64decode(stored["answers"][key]))


@needs_frontend
def test_the_page_holds_both_records_and_every_policy(logdir: Path, tmp_path: Path) -> None:
    stored = Reader(export(tmp_path / "report.html", str(logdir))).stored()
    assert stored["state"] == (
        "#structure_graph_diff&p.structure_graph_diff.t=:structure/teacher@0"
        "&p.structure_graph_diff.s=:structure/student@0"
    )
    sides = "s_run=&s_step=0&s_tag=structure/student&t_run=&t_step=0&t_tag=structure/teacher"
    parts = ("header", "strings", "modules", "parameters", "module_calls", "operators", "kernels", "tensors")
    assert set(stored["answers"]) == {
        "api/records?",
        *(f"api/structure?part={part}&run=&step=0&tag=structure/{m}" for m in ("teacher", "student") for part in parts),
        *(
            f"api/{route}?policy={policy}&{sides}"
            for route in ("alignment", "audit")
            for policy in ("copy", "uniform", "skip", "first", "last")
        ),
        f"api/variants?{sides}",
    }
    header = structure_pb2.StructureHeader.FromString(
        answer(stored, "api/structure?part=header&run=&step=0&tag=structure/student")
    )
    assert header.model_class == "Classifier"
    assert header.totals.parameters == 3 * 8 * 9 + 8 + 8 * 10 + 10
    alignment = alignment_pb2.Alignment.FromString(answer(stored, f"api/alignment?policy=copy&{sides}"))
    assert alignment.pairs.rows == 7  # the model, body with its four layers, head


@needs_frontend
def test_one_model_alone_is_a_report_of_it(logdir: Path, tmp_path: Path) -> None:
    stored = Reader(export(tmp_path / "report.html", f"{logdir}:student")).stored()
    assert stored["state"] == (
        "#structure_graph_diff&p.structure_graph_diff.t=:structure/student@0&p.structure_graph_diff.s=-"
    )
    assert not [key for key in stored["answers"] if key.startswith("api/alignment")]
    records = json.loads(answer(stored, "api/records?"))
    assert [entry["tag"] for entry in records["structures"]] == ["structure/student"]


@needs_frontend
def test_the_list_of_records_is_what_a_server_would_answer(logdir: Path, tmp_path: Path) -> None:
    records = json.loads(answer(Reader(export(tmp_path / "report.html", str(logdir))).stored(), "api/records?"))
    assert [(entry["run"], entry["tag"], entry["kind"]) for entry in records["structures"]] == [
        ("", "structure/student", "structure"),
        ("", "structure/teacher", "structure"),
    ]
    (step,) = records["structures"][1]["steps"]
    assert step["totals"]["parameters"] == 3 * 32 * 9 + 32 + 32 * 10 + 10
    assert step["wall_time"] > 1_700_000_000
    assert step["error"] is None
    assert [records[kind] for kind in ("attention", "measurements", "plans", "problems")] == [[], [], [], []]


@needs_frontend
def test_measurements_and_the_loss_are_in_the_file(tmp_path: Path) -> None:
    """Monitored for two steps; of a log directory of its own, so that its run is named after the side."""
    from torch import nn

    from tb_plugin_structure import StructureMonitor, StructureWriter

    torch.manual_seed(0)
    teacher, student = nn.Linear(4, 2).requires_grad_(False), nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    with StructureWriter(tmp_path / "kd") as writer:
        models = {"teacher": teacher, "student": student}
        monitor = StructureMonitor(writer, models, optimizer=optimizer, every=1, record_every=100)
        for _ in range(2):
            with monitor.observe():
                loss = nn.functional.mse_loss(student(torch.ones(3, 4)), teacher(torch.ones(3, 4)))
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            monitor.step(loss)
    stored = Reader(export(tmp_path / "r.html", f"{tmp_path}:teacher", f"{tmp_path}:student")).stored()
    listing = json.loads(answer(stored, "api/measurements?model=student&run=kd"))
    assert {record["step"] for record in listing["records"]} == {0, 1}
    gradient = next(quantity for quantity in listing["quantities"] if quantity["name"] == "gradient_norm")
    assert (gradient["scale"], gradient["modules"]) == ("log", 3)  # the model and its two layers
    for record in listing["records"]:
        for part in ("strings", "measurements"):
            assert answer(stored, f"api/measurement?part={part}&run=kd&step={record['step']}&tag={record['tag']}")
    records = json.loads(answer(stored, "api/records?"))
    assert {entry["model"] for entry in records["measurements"]} == {"teacher", "student"}
    assert [entry["kind"] for entry in records["structures"]].count("outside") == 1
    (key,) = [key for key in stored["answers"] if key.startswith("api/compared?")]
    (pair,) = json.loads(answer(stored, key))["pairs"]
    assert (pair["operator"], pair["student"]["shape"]) == ("mse_loss", [3, 2])


@needs_frontend
def test_of_many_measured_steps_some_are_kept_evenly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch import nn

    from tb_plugin_structure import StructureWriter

    monkeypatch.setattr("tb_plugin_structure.cli.report_measured.MOST_MEASUREMENTS", 3)
    model = nn.Linear(4, 2)
    with StructureWriter(tmp_path) as writer:
        writer.add_structure("net", model, (torch.ones(1, 4),))
        for step in range(5):
            writer.add_measurement("net", "distance", {"": float(step)}, step=step)
    stored = Reader(export(tmp_path / "r.html", f"{tmp_path}:net")).stored()
    listing = json.loads(answer(stored, "api/measurements?model=net&run="))
    assert [record["step"] for record in listing["records"]] == [0, 2, 4]
    (problem,) = json.loads(answer(stored, "api/records?"))["problems"]
    assert problem["message"] == "Of 5 measurements of net this report holds 3, evenly over the steps."


@needs_frontend
def test_nothing_is_fetched_from_anywhere(logdir: Path, tmp_path: Path) -> None:
    page = export(tmp_path / "report.html", str(logdir))
    loading = {"src", "href", "srcset", "data", "action", "style"}
    assert not [element for element in Reader(page).elements if loading & element[1].keys()]
    # Names of the SVG, HTML and MathML vocabularies, which nobody asks for.
    assert set(re.findall(r"https?://([^/\"'`\s]*)", page)) == {"www.w3.org"}
    assert str(tmp_path) not in page
    assert str(logdir.parent) not in page


@needs_frontend
def test_names_of_models_are_no_markup(tmp_path: Path) -> None:
    record(tmp_path, "teacher", HOSTILE)
    record(tmp_path, "student", "small")
    page = export(tmp_path / "report.html", f"{tmp_path}:{HOSTILE}", f"{tmp_path}:small")
    reader = Reader(page)
    assert [tag for tag, _ in reader.elements] == ["html", "head", "meta", "title", "body", "script", "script"]
    assert len(re.findall("</script", page, re.IGNORECASE)) == 2
    assert f"<title>Graph diff of {HOSTILE} and small</title>" not in page
    records = json.loads(answer(reader.stored(), "api/records?"))
    assert HOSTILE in [entry["model"] for entry in records["structures"]]


@needs_frontend
def test_policy_and_pins_are_in_the_address_and_the_answers(logdir: Path, tmp_path: Path) -> None:
    pins = ["--pin", "head=head", "--pin", "body.1="]
    stored = Reader(export(tmp_path / "report.html", str(logdir), "--policy", "last", *pins)).stored()
    assert stored["state"].endswith(
        "&p.structure_graph_diff.pins=%7B%22head%22:%22head%22,%22body.1%22:null%7D&p.structure_graph_diff.policy=last"
    )
    keys = [key for key in stored["answers"] if key.startswith("api/alignment?")]
    assert len(keys) == 5
    assert all(key.startswith('api/alignment?pins={"head":"head","body.1":null}&policy=') for key in keys)


@needs_frontend
def test_equal_names_in_two_log_directories_stay_two_records(tmp_path: Path) -> None:
    for factory in ("teacher", "student"):
        record(tmp_path / factory, factory, "net")
    stored = Reader(export(tmp_path / "r.html", str(tmp_path / "teacher"), str(tmp_path / "student"))).stored()
    records = json.loads(answer(stored, "api/records?"))
    sizes = {entry["run"]: entry["steps"][0]["totals"]["parameters"] for entry in records["structures"]}
    assert sizes == {"teacher": 3 * 32 * 9 + 32 + 32 * 10 + 10, "student": 3 * 8 * 9 + 8 + 8 * 10 + 10}


@pytest.mark.parametrize("arguments", [[], ["--out", "plan.json"]])
def test_what_is_exported_must_be_said(logdir: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(["export", str(logdir), *arguments]) == 2
    error = capsys.readouterr().err
    assert "--output FILE.html" in error
    assert "--framework NAME" in error


@needs_frontend
def test_a_pin_that_does_not_fit_is_refused(logdir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "report.html"
    assert main(["export", str(logdir), "--out", str(target), "--pin", "nowhere=head"]) == 2
    assert "nowhere" in capsys.readouterr().err
    assert not target.exists()


def test_without_the_built_frontend_the_error_says_how_to_build_it(logdir: Path, tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / PACKAGE.name, ignore=shutil.ignore_patterns("static", "__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "tb_plugin_structure.cli.main", "export", str(logdir), "--out", "report.html"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "make frontend" in done.stderr
    assert not (tmp_path / "report.html").exists()
