"""Every command in the documentation exists and takes what it is given.

``tb-structure`` runs, on records as the pages describe them. TensorBoard parses its flags with its own
parser, our plugins included. Of ``make`` the rules are expanded, of scripts the options are looked up, of
``pip install`` the extras.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.unit.packaging.test_documentation import DOCUMENTS, ROOT

COMMANDS = ("pip", "tensorboard", "tb-structure", "make", "python", "ssh", "git")


def _commands(path: Path) -> list[str]:
    """Commands in fenced and indented blocks, of workflows, and in backticks; without comments."""
    text = path.read_text()
    fenced = re.findall(r"^```(?:bash|yaml)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line for block in fenced for line in block.splitlines()]
    lines += re.findall(
        r"^(?: {4}|> )(\S.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    lines += re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
    lines = [re.sub(r"^- run: ", "", line.strip()) for line in lines]
    found = [line.split(" #")[0].split(" >>")[0].strip() for line in lines]
    return [line for line in found if line.split(" ")[0] in COMMANDS and " " in line and "…" not in line]


FOUND = sorted({(path.relative_to(ROOT).as_posix(), command) for path in DOCUMENTS for command in _commands(path)})


def commands(program: str) -> list[str]:
    """Each command of a program once; what ssh runs on the other machine is one of them."""
    spoken = [re.sub(r"^ssh \S+ \S+ \S+ ", "", command) for _, command in FOUND]
    spoken = [re.sub(r"^python -m tensorboard\.main", "tensorboard", command) for command in spoken]
    return sorted({command for command in spoken if command.startswith(f"{program} ")})


def test_the_pages_hold_commands_of_each_kind() -> None:
    counts = {program: len(commands(program)) for program in ("pip", "tensorboard", "tb-structure", "make", "python")}
    assert counts["tb-structure"] >= 10
    assert min(counts.values()) >= 4


# ---- tb-structure


def network(width: int) -> nn.Module:
    layers = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)]
    return nn.Sequential(*layers)


TYPED_MODULES = ("models", "my_models")
MODELS = """
from torch import nn

def network(width):
    return nn.Sequential(nn.Conv2d(3, width, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))

def teacher(): return network(16)

def student(): return network(8)

resnet18 = student
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the pages' commands are typed: recorded runs, and modules that build models."""
    from tb_plugin_structure import StructureWriter

    folder = tmp_path_factory.mktemp("typed")
    for run in ("kd", "first", "demo"):
        with StructureWriter(folder / "runs" / run) as writer:
            for name, width in (("teacher", 16), ("student", 8)):
                writer.add_structure(name, network(width), (torch.randn(2, 3, 8, 8),))
    for module in TYPED_MODULES:
        (folder / f"{module}.py").write_text(MODELS)
    torch.export.save(torch.export.export(network(16), (torch.randn(2, 3, 8, 8),)), folder / "teacher.pt2")
    (folder / "teacher_vs_student_plan.json").write_text('{"policy": "uniform", "pins": {"0": "0"}}')
    return folder


@pytest.mark.parametrize("command", commands("tb-structure"))
def test_tb_structure_does_what_the_page_says(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tb_plugin_structure.cli.main import main

    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    arguments = shlex.split(command.replace("LOGDIR", "runs/kd"))[1:]
    if len(arguments) < 2:  # the name of the command alone
        with pytest.raises(SystemExit) as ended:
            main([arguments[0], "--help"])
        assert ended.value.code == 0
        return
    # What is imported here as `models` must not be what other tests import under that name.
    others = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] in TYPED_MODULES}
    try:
        code = main(arguments)
    finally:
        for name in TYPED_MODULES:
            sys.modules.pop(name, None)
        sys.modules.update(others)
    said = capsys.readouterr()
    assert code == 0 or (code == 1 and "--fail-on" in arguments), said.err
    for option in ("--out", "--output"):
        if option in arguments:
            assert Path(arguments[arguments.index(option) + 1]).stat().st_size > 100


# ---- TensorBoard


@pytest.mark.parametrize("command", commands("tensorboard"))
def test_tensorboard_knows_the_flags(command: str) -> None:
    from tensorboard import default, program

    from tb_plugin_structure.dashboards import loaders

    ours = [loaders.GraphDiffLoader, loaders.ShapeAuditLoader, loaders.AttentionLoader]
    server = program.TensorBoard(plugins=[*default.get_static_plugins(), *(loader() for loader in ours)])
    server.configure(["tensorboard", *shlex.split(command)[1:]])
    assert server.flags.logdir or server.flags.logdir_spec
    for number in re.findall(r"structure_record=(\d+)", command):
        assert server.flags.samples_per_plugin["structure_record"] == int(number)


# ---- the rest


@pytest.mark.parametrize("command", commands("make"))
def test_make_has_a_rule(command: str) -> None:
    targets = [word for word in shlex.split(command)[1:] if "=" not in word]
    done = subprocess.run(["make", "-n", *targets], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", commands("python"))
def test_scripts_are_there_and_take_the_options(command: str) -> None:
    _, script, *options = shlex.split(command)
    if script == "-m":
        package = ROOT / options.pop(0).replace(".", "/")
        text = "".join(path.read_text() for path in package.glob("*.py")) or package.with_suffix(".py").read_text()
    else:
        text = (ROOT / script).read_text()
    assert [option for option in options if option.startswith("--") and f'"{option}"' not in text] == []


@pytest.mark.parametrize("command", commands("pip"))
def test_pip_is_asked_for_extras_that_exist(command: str) -> None:
    if sys.version_info < (3, 11):
        pytest.skip("tomllib came with Python 3.11")
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    _, action, *words = shlex.split(command)
    assert action in ("install", "download")
    for word in words:
        name, extras = re.fullmatch(r"([^\[]*)(?:\[(.*)\])?", word).groups()  # type: ignore[union-attr]
        if extras:
            assert name in (project["name"], ".")
            assert set(extras.split(",")) <= set(project["optional-dependencies"])


def test_make_test_installs_chromium_only_where_none_is_found(tmp_path: Path) -> None:
    """The rule runs with a PATH of its own: without a browser, with a package manager that notes its calls; then with a
    browser."""
    notes = tmp_path / "notes"
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "bash", "id", "env", "make", "echo", "awk"):
        target = next(Path(folder) / name for folder in ("/bin", "/usr/bin") if (Path(folder) / name).exists())
        (tools / name).symlink_to(target)
    for name in ("apt-get", "sudo"):
        passing_on = '"$@"' if name == "sudo" else "true"
        (tools / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {notes}\n{passing_on}\n')
        (tools / name).chmod(0o755)

    def run() -> str:
        environment = {"PATH": str(tools), "HOME": str(tmp_path)}
        command = ["make", "-f", str(ROOT / "Makefile"), "PYTHON=python3", "chromium"]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return notes.read_text() if notes.exists() else ""

    asked = run()
    assert "apt-get update -qq" in asked
    assert "apt-get install -y -qq chromium fonts-liberation" in asked
    assert ("sudo" in asked) == (os.geteuid() != 0)
    notes.unlink()
    (tools / "chromium").write_text("#!/bin/sh\n")
    (tools / "chromium").chmod(0o755)
    assert run() == ""
