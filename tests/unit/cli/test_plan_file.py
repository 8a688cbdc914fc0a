"""``tb-structure plan FILE --logdir RUN``: what was decided in the page gets into the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tb_plugin_structure.cli.main import main
from tb_plugin_structure.records.plan import plan_pins, plan_policies
from tests.support.read_summaries import plans_in

MODELS = "tests.unit.cli.toy_models"


@pytest.fixture
def logdir(tmp_path: Path) -> Path:
    path = tmp_path / "kd"
    for name in ("teacher", "student"):
        command = ["capture", f"{MODELS}:{name}", "--meta", "--input", "2,3,16,16", "--name", name]
        assert main([*command, "--logdir", str(path)]) == 0
    return path


def plan_file(folder: Path, **plan: Any) -> str:
    path = folder / "plan.json"
    path.write_text(json.dumps(plan))
    return str(path)


def test_pins_and_policies_are_written_into_the_run(logdir: Path, tmp_path: Path) -> None:
    pins = {"body.0": "body.0", "head": None}
    file = plan_file(tmp_path, teacher="teacher", student="student", policy="uniform", policies={}, pins=pins)
    assert main(["plan", file, "--logdir", str(logdir)]) == 0
    [(step, plan)] = plans_in(logdir, "plan/teacher/student")
    assert (step, plan.policy, plan_pins(plan)) == (0, "uniform", pins)


def test_chosen_blocks_of_a_stack_are_written_into_the_run(tmp_path: Path) -> None:
    file = plan_file(tmp_path, policies={"encoder.layer": [0, 6, 11], "decoder": "last"})
    assert main(["plan", file, "--logdir", str(tmp_path / "run")]) == 0
    [(_, plan)] = plans_in(tmp_path / "run", "plan/teacher/student")
    assert plan_policies(plan) == {"encoder.layer": [0, 6, 11], "decoder": "last"}


def test_a_later_plan_follows_the_ones_before(logdir: Path, tmp_path: Path) -> None:
    for policy in ("uniform", "last"):
        assert main(["plan", plan_file(tmp_path, policy=policy), "--logdir", str(logdir)]) == 0
    written = plans_in(logdir, "plan/teacher/student")
    assert [(step, plan.policy) for step, plan in written] == [(0, "uniform"), (1, "last")]


def test_a_pin_of_an_unknown_module_is_refused(
    logdir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = plan_file(tmp_path, pins={"heaad": "head"})
    assert main(["plan", file, "--logdir", str(logdir)]) == 2
    assert "'heaad'" in capsys.readouterr().err
    assert plans_in(logdir, "plan/teacher/student") == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is not JSON"),
        ("[]", 'a plan is an object with "pins"'),
        ('{"pins": {"a": 3}}', "the pin of 'a' must be a path"),
        ('{"policies": {"a": [0, "2"]}}', "the policy of 'a' must be a name or a list of block numbers"),
        ('{"policies": {"a": 2}}', "the policy of 'a' must be a name or a list of block numbers"),
    ],
)
def test_a_file_that_is_no_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, complaint: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    assert main(["plan", str(tmp_path / "plan.json"), "--logdir", str(tmp_path / "run")]) == 2
    assert complaint in capsys.readouterr().err


def test_models_that_are_not_there_are_said_not_to_be_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = plan_file(tmp_path, pins={"a": "b"})
    assert main(["plan", file, "--logdir", str(tmp_path / "run")]) == 0
    assert "not checked" in capsys.readouterr().err
