"""The source distribution and the wheel made from it, on a machine without Node.js."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
NOT_SOURCE = {
    ".cache",
    ".git",
    ".hypothesis",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".venv",
    "__pycache__",
    "build",
    "dist",
    "node_modules",
    "runs",
    "tensorboard_plugin_structure.egg-info",
}


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], zipfile.ZipFile]:
    """(names in the sdist, the wheel built from it), made with a PATH that holds no Node.js."""
    check = "import sys; sys.path.insert(0, 'build_backend'); import frontend; sys.exit(not frontend.is_current())"
    current = subprocess.run([sys.executable, "-c", check], cwd=ROOT)
    assert current.returncode == 0, "the built frontend is not that of the sources: `make frontend`"
    folder = tmp_path_factory.mktemp("distributions")
    shutil.copytree(ROOT, folder / "tree", ignore=lambda _, names: NOT_SOURCE.intersection(names))
    environment = {**os.environ, "PATH": str(folder)}

    def build(kind: str, tree: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", str(folder), str(tree)],
            capture_output=True,
            text=True,
            env=environment,
            cwd=folder,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    build("sdist", folder / "tree")
    with tarfile.open(next(folder.glob("*.tar.gz"))) as sdist:
        sdist.extractall(folder / "unpacked")  # our own archive: its filter argument needs Python 3.11.4
        names = sdist.getnames()
    build("wheel", next((folder / "unpacked").iterdir()))
    return names, zipfile.ZipFile(next(folder.glob("*.whl")))


def package_files(pattern: str) -> set[str]:
    found = (ROOT / "tb_plugin_structure").rglob(pattern)
    return {path.relative_to(ROOT).as_posix() for path in found if "__pycache__" not in path.parts and path.is_file()}


@pytest.mark.slow
def test_wheel_holds_every_module_the_built_frontend_and_the_generated_code(
    distributions: tuple[list[str], zipfile.ZipFile],
) -> None:
    files = set(distributions[1].namelist())
    assert package_files("*.py") - files == set()
    assert package_files("static/**/*") - files == set()
    assert {
        "tb_plugin_structure/static/graph_diff.js",
        "tb_plugin_structure/static/shape_audit.js",
        "tb_plugin_structure/static/attention.js",
        "tb_plugin_structure/v1/structure_pb2.py",
        "tb_plugin_structure/v1/structure_pb2.pyi",
        "tb_plugin_structure/py.typed",
    } <= files


@pytest.mark.slow
def test_wheel_holds_nothing_else(distributions: tuple[list[str], zipfile.ZipFile]) -> None:
    folders = {name.split("/")[0] for name in distributions[1].namelist()}
    assert folders == {"tb_plugin_structure", "tensorboard_plugin_structure-0.1.0.dist-info"}


@pytest.mark.slow
def test_the_description_has_no_link_into_the_source_tree(distributions: tuple[list[str], zipfile.ZipFile]) -> None:
    """PyPI shows it alone: a relative link leads nowhere, a picture beside it stays empty."""
    metadata = distributions[1].read("tensorboard_plugin_structure-0.1.0.dist-info/METADATA").decode()
    description = metadata.partition("\n\n")[2]
    assert "# tensorboard-plugin-structure" in description
    targets = re.findall(r"\]\(([^)]+)\)|(?:src|srcset|href)=\"([^\"]+)\"", description)
    assert [target for pair in targets for target in pair if target and "://" not in target] == []


@pytest.mark.slow
def test_wheel_registers_three_tabs_in_order_and_the_command(
    distributions: tuple[list[str], zipfile.ZipFile],
) -> None:
    text = distributions[1].read("tensorboard_plugin_structure-0.1.0.dist-info/entry_points.txt").decode()
    loaders = [line.rpartition(":")[2] for line in text.splitlines() if "dashboards.loaders" in line]
    assert loaders == ["GraphDiffLoader", "ShapeAuditLoader", "AttentionLoader"]
    assert "tb-structure = tb_plugin_structure.cli.main:main" in text


@pytest.mark.slow
def test_sdist_holds_sources_and_built_frontend_but_no_node_modules(
    distributions: tuple[list[str], zipfile.ZipFile],
) -> None:
    files = {name.partition("/")[2] for name in distributions[0]}
    assert {
        "frontend/.npmrc",
        "frontend/package-lock.json",
        "frontend/src/entries/graph_diff.tsx",
        "proto/tb_plugin_structure/v1/structure.proto",
        "build_backend/backend.py",
        "tb_plugin_structure/static/graph_diff.js",
        "LICENSE",
        "Makefile",
    } <= files
    assert [name for name in files if "node_modules" in name] == []


@pytest.mark.slow
def test_wheel_lists_what_its_frontend_contains_of_others_with_their_licences(
    distributions: tuple[list[str], zipfile.ZipFile],
) -> None:
    static = "tb_plugin_structure/static"
    bill = json.loads(distributions[1].read(f"{static}/third_party.cdx.json"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    listed = {component["name"] for component in bill["components"]}
    tools = {"vite", "typescript", "axe-core", "@bufbuild/protobuf"}  # nothing of them is in the bundle
    assert listed >= imported_packages() - tools
    assert not listed & tools
    texts = distributions[1].read(f"{static}/third_party_licenses.txt").decode()
    for component in bill["components"]:
        assert f"\n{component['name']} {component['version']} (" in texts
        assert component["licenses"][0]["expression"] == "MIT"
    assert "Copyright (c) 2015-present Jason Miller" in texts  # preact


def imported_packages() -> set[str]:
    """npm packages that the frontend's sources import."""
    named = re.compile(r'(?:\bfrom|^import|\bimport\() ?"(@[^/"]+/[^/"]+|[a-z][^/".]*)', re.MULTILINE)
    sources = [path for path in (ROOT / "frontend" / "src").rglob("*.ts*") if ".test." not in path.name]
    return {name for path in sources for name in named.findall(path.read_text())}
