"""SARIF and workflow commands against the rules of their readers, written down here so that no network is needed:
the properties that the SARIF 2.1.0 schema allows and requires, what GitHub's code scanning requires beyond it, and how
GitHub's runner reads a workflow command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from torch import Tensor, nn, randn

from tb_plugin_structure.analysis.alignment import align
from tb_plugin_structure.analysis.audit import AuditReport, audit
from tb_plugin_structure.capture import capture
from tb_plugin_structure.cli.annotations import Annotation, _location, annotated, github_text, sarif_text

MESSAGE = {"text", "markdown", "id", "arguments", "properties"}
OBJECTS: dict[str, tuple[set[str], set[str]]] = {
    # object: (properties of the schema, of which required by the schema or by code scanning)
    "log": ({"$schema", "version", "runs", "inlineExternalProperties", "properties"}, {"$schema", "version", "runs"}),
    "run": ({"tool", "results", "columnKind", "artifacts", "properties"}, {"tool", "results"}),
    "driver": (
        {"name", "version", "semanticVersion", "informationUri", "rules", "properties"},
        {"name", "rules"},
    ),
    "rule": (
        {"id", "name", "shortDescription", "fullDescription", "help", "helpUri", "defaultConfiguration", "properties"},
        {"id", "shortDescription", "fullDescription", "help"},
    ),
    "result": (
        {"ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints", "fingerprints", "properties"},
        {"ruleId", "message", "locations", "partialFingerprints"},
    ),
    "location": ({"id", "physicalLocation", "logicalLocations", "message", "properties"}, {"physicalLocation"}),
    "physicalLocation": ({"artifactLocation", "region", "contextRegion", "address"}, {"artifactLocation", "region"}),
    "artifactLocation": ({"uri", "uriBaseId", "index", "description"}, {"uri"}),
    "region": ({"startLine", "startColumn", "endLine", "endColumn", "snippet"}, {"startLine"}),
    "logicalLocation": ({"name", "index", "fullyQualifiedName", "decoratedName", "parentIndex", "kind"}, set()),
    "message": (MESSAGE, {"text"}),
}
LEVELS = {"none", "note", "warning", "error"}


def check(kind: str, value: Any) -> Any:
    allowed, required = OBJECTS[kind]
    assert isinstance(value, dict), (kind, value)
    assert set(value) <= allowed, (kind, set(value) - allowed)
    assert required <= set(value), (kind, required - set(value))
    return value


class Faulty(nn.Module):
    """A module that is never called, a view that exchanges dimensions, and a result that nobody uses."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, width, 4, 4)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.forgotten = nn.Linear(width, width)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        x = x.view(x.shape[0], -1, x.shape[1])  # should be flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x.mean(1))  # type: ignore[no-any-return]


class Wide(Faulty):
    def __init__(self) -> None:
        super().__init__(32)
        self.head = nn.Linear(32, 7)


@pytest.fixture(scope="module")
def report() -> AuditReport:
    x = randn(2, 3, 16, 16)
    records = [capture(model, (x,), name=name) for name, model in (("teacher", Wide()), ("student", Faulty(16)))]
    return audit(align(teacher=records[0], student=records[1]))


def test_every_object_of_the_sarif_log_has_what_its_readers_require(report: AuditReport) -> None:
    log = check("log", json.loads(sarif_text(report)))
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = (check("run", run) for run in log["runs"])
    assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    driver = check("driver", run["tool"]["driver"])
    rules = [check("rule", rule) for rule in driver["rules"]]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for rule in rules:
        for description in ("shortDescription", "fullDescription", "help"):
            assert check("message", rule[description])["text"]
            assert len(rule[description]["text"]) <= 1024
        assert rule["defaultConfiguration"]["level"] in LEVELS
        assert rule["properties"]["problem.severity"] in ("error", "warning", "recommendation")
    results = [check("result", result) for result in run["results"]]
    assert {"dead-module", "view-by-accident", "incompatible-pair"} <= {result["ruleId"] for result in results}
    for result in results:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in LEVELS
        assert check("message", result["message"])["text"]
        for location in result["locations"]:
            place = check("physicalLocation", check("location", location)["physicalLocation"])
            uri = check("artifactLocation", place["artifactLocation"])["uri"]
            assert re.fullmatch(r"[A-Za-z0-9._~/%-]+", uri), uri
            assert not urlsplit(uri).scheme
            assert not uri.startswith("/")
            region = check("region", place["region"])
            assert isinstance(region["startLine"], int)
            assert region["startLine"] >= 1
            for logical in location["logicalLocations"]:
                check("logicalLocation", logical)
    prints = [result["partialFingerprints"]["primaryLocationLineHash"] for result in results]
    assert all(re.fullmatch(r"[0-9a-f]+:\d+", text) for text in prints)
    assert len(set(prints)) == len(prints)


def test_a_finding_stands_at_the_line_that_its_message_names(report: AuditReport) -> None:
    """The view of `Faulty.forward` is in this file."""
    log = json.loads(sarif_text(report))
    views = [result for result in log["runs"][0]["results"] if result["ruleId"] == "view-by-accident"]
    place = views[0]["locations"][0]["physicalLocation"]
    source = Path(__file__).read_text().splitlines()
    assert unquote(place["artifactLocation"]["uri"]).endswith(Path(__file__).name)
    assert "x.view(" in source[place["region"]["startLine"] - 1]


def test_a_fingerprint_survives_other_numbers_and_lines(report: AuditReport) -> None:
    first = json.loads(sarif_text(report))["runs"][0]["results"]
    assert first == json.loads(sarif_text(report))["runs"][0]["results"]
    dead = [item for item in annotated(report) if item.rule == "dead-module"]
    assert {item.subject for item in dead} == {"teacher", "student"}
    both = [result for result in first if result["ruleId"] == "dead-module"]
    assert len({result["partialFingerprints"]["primaryLocationLineHash"] for result in both}) == 2


@pytest.mark.parametrize(
    ("file", "uri"),
    [("my models/stu#dent.py", "my%20models/stu%23dent.py"), ("/outside/model.py", "outside/model.py")],
)
def test_files_become_relative_references(file: str, uri: str) -> None:
    location = _location(Annotation("a-rule", "info", "m", "body.0", "e", "f", file, 3))
    assert location["physicalLocation"]["artifactLocation"]["uri"] == uri
    assert location["physicalLocation"]["region"]["startLine"] == 3


def test_workflow_commands_are_read_back_as_they_were_meant(report: AuditReport) -> None:
    """As GitHub's runner parses them: `::name key=value,key=value::message`, one a line, with its escapes."""
    items = list(annotated(report))
    lines = github_text(report).splitlines()
    assert len(lines) == len(items)
    for line, item in zip(lines, items, strict=True):
        found = re.fullmatch(r"::(notice|warning|error) ([^:]*)::(.+)", line)
        assert found is not None, line
        properties = dict(pair.split("=", 1) for pair in found[2].split(","))
        assert set(properties) <= {"title", "file", "line", "endLine", "col", "endColumn"}
        assert unescape(properties["title"]).startswith(item.rule)
        assert unescape(found[3]) == f"{item.message}. {item.fix}"
        assert ("file" in properties) == bool(item.file)


def unescape(text: str) -> str:
    for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, character)
    return text
