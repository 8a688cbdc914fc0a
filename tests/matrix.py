"""Installs the wheel beside each supported TensorBoard and runs the tests that need no torch: ``make matrix``.

Every cell is a virtual environment of its own below ``.cache/matrix``. In each, real TensorBoards serve the golden
event files, what the cell's own writer writes, and what ``StructureWriter`` wrote in the environment that runs this
script, under the Python reader and under the data server. Then the side that records runs its own tests under each
supported torch. The result is ``docs/compatibility.md``.

    python -m tests.matrix                                  # every cell
    python -m tests.matrix --only 2.12 --only torch-2.6     # some cells; the tables keep the others' last results
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "matrix"
TABLE = ROOT / "docs" / "compatibility.md"
TESTS = (
    "tests/unit/records",
    "tests/unit/writer/test_checksum.py",
    *(f"tests/unit/dashboards/test_{name}.py" for name in ("loaders", "routes", "released_formats", "resumed_runs")),
    "tests/unit/dashboards/test_hostile_input.py",
)


@dataclass(frozen=True)
class Cell:
    """One environment. What TensorBoard does not declare but needs is in `also`, and in the table."""

    tensorboard: str
    python: str
    protobuf: str
    numpy: str = ""
    also: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.tensorboard}/{self.python}"

    @property
    def requirements(self) -> list[str]:
        return [
            f"tensorboard=={self.tensorboard}",
            f"protobuf{self.protobuf}",
            f"numpy{self.numpy}",
            *self.also,
            "pytest",
            "hypothesis",
        ]


@dataclass(frozen=True)
class TorchCell:
    """One environment with torch. `without` are tests of what this torch does otherwise; `note` says what."""

    torch: str
    python: str
    without: tuple[str, ...] = ()
    note: str = "-"

    @property
    def name(self) -> str:
        return f"torch-{self.torch}/{self.python}"

    @property
    def requirements(self) -> list[str]:
        return [
            f"torch=={self.torch}",
            "tqdm",
            "transformers",
            "pillow",
            "psutil",
            "pytest",
            "hypothesis",
            "tensorboard",
        ]


TESTS_WITH_TORCH = (
    "tests/unit/writer",
    *(f"tests/unit/capture/test_{name}.py" for name in ("capture", "edges", "loops", "region", "backward", "harmless")),
    *(f"tests/unit/integrations/test_{name}.py" for name in ("monitor", "pictures")),
    *(f"tests/unit/attention/test_{name}.py" for name in ("fused_kernels", "other_ways_in", "nothing_changes")),
)

TORCH_CELLS = (
    TorchCell(
        "2.6.0",
        "3.11",
        ("test_grouped_queries_use_the_key_head_of_their_group", "test_flex_attention_with_score_and_mask_functions"),
        "grouped keys are repeated before the kernel and recorded so; FlexAttention whose score function indexes a "
        "tensor gives no map, and says why",
    ),
    TorchCell("2.13.0", "3.11"),
    TorchCell("2.14.1", "3.11"),
)

# pkg_resources left setuptools with version 82; TensorBoard up to 2.20 imports it. numpy 2 lacks names that
# TensorBoard up to 2.16 uses. 2.12 needs six and does not say so.
_OLD = ("setuptools<82",)

CELLS = (
    Cell("2.12.3", "3.10", "==3.20.3", "==1.24.4", (*_OLD, "six")),
    Cell("2.14.1", "3.11", "==4.21.12", "<2", (*_OLD, "six")),
    Cell("2.16.2", "3.11", "==4.25.8", "<2", _OLD),
    Cell("2.17.1", "3.12", "==5.29.5", "", _OLD),
    Cell("2.18.0", "3.12", "==5.26.1", "", _OLD),
    Cell("2.20.0", "3.11", "==3.20.3", "", _OLD),
    Cell("2.20.0", "3.13", "==6.33.6", "", _OLD),
    Cell("2.21.0", "3.10", "==6.31.1"),
    Cell("2.21.0", "3.11", ">=7,<8"),
    Cell("2.21.0", "3.13", ">=7,<8"),
)


def find_interpreter(version: str) -> str | None:
    """`pythonX.Y` on the PATH that really is X.Y, else pyenv's newest; None when there is none."""
    candidates = [sys.executable, shutil.which(f"python{version}")]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates += [str(path / "bin" / "python") for path in sorted(pyenv.glob(f"{version}.*"), reverse=True)]
    for candidate in candidates:
        if not candidate or not Path(candidate).exists():
            continue
        code = "import sys; print('%d.%d' % sys.version_info[:2], sys._base_executable)"
        asked = subprocess.run([candidate, "-c", code], capture_output=True, text=True)
        found, _, base = asked.stdout.strip().partition(" ")
        if asked.returncode == 0 and found == version:
            return base or candidate
    return None


def quietly(command: list[str | Path], **more: Any) -> None:
    """Runs a command whose output matters only when it fails."""
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}")


def build_wheel() -> Path:
    folder = CACHE / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    quietly(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", folder, ROOT],
        env={**os.environ, "TBPS_SKIP_FRONTEND": "1"},
    )
    return next(folder.glob("*.whl"))


def write_fresh_logdir() -> Path:
    """What today's StructureWriter writes, with the torch of this environment."""
    folder = CACHE / "fresh"
    shutil.rmtree(folder, ignore_errors=True)
    quietly([sys.executable, "-m", "tests.support.fresh_records", folder], cwd=ROOT)
    return folder


def cell_folder(cell: Cell | TorchCell) -> Path:
    return CACHE / cell.name.replace("/", "-py")


def prepare(cell: Cell | TorchCell, interpreter: str, wheel: Path) -> Path:
    """The cell's environment, made once; the wheel is installed anew each time."""
    folder = cell_folder(cell)
    python = folder / "bin" / "python"
    stamp = folder / "requirements.sha256"
    wanted = hashlib.sha256("\n".join([interpreter, *cell.requirements]).encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        quietly([interpreter, "-m", "venv", folder])
        quietly([python, "-m", "pip", "install", "--prefer-binary", *cell.requirements])
        stamp.write_text(wanted)
    quietly([python, "-m", "pip", "install", "--no-deps", "--force-reinstall", wheel])
    return folder


def versions(folder: Path) -> dict[str, str]:
    code = (
        "import sys, importlib.metadata as m\n"
        "print('python', sys.version.split()[0])\n"
        "for name in ('tensorboard', 'protobuf', 'numpy', 'torch'):\n"
        "    try: print(name, m.version(name))\n"
        "    except m.PackageNotFoundError: print(name, '-')\n"
    )
    text = subprocess.run([folder / "bin" / "python", "-c", code], check=True, capture_output=True, text=True).stdout
    return dict(line.split() for line in text.splitlines())


def copy_tests() -> Path:
    """The tests without the package beside them: what they test is the installed wheel."""
    copy = CACHE / "suite"
    shutil.rmtree(copy, ignore_errors=True)
    ignore = shutil.ignore_patterns("__pycache__", "e2e", "zoo", "stress", "packaging")
    shutil.copytree(ROOT / "tests", copy / "tests", ignore=ignore)
    return copy


def run_tests(folder: Path, copy: Path, fresh: Path, tests: tuple[str, ...]) -> tuple[Counter[str], str]:
    """Results by reader ("python", "rust", "") and outcome, and pytest's output."""
    report = folder / "report.xml"
    done = subprocess.run(
        [
            folder / "bin" / "python",
            *("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}", f"--rootdir={copy}"),
            *("-o", "junit_family=xunit1", "-W", "ignore::pytest.PytestUnknownMarkWarning", *tests),
        ],
        cwd=copy,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "TBPS_FRESH_LOGDIR": str(fresh),
            "OMP_NUM_THREADS": "1",
        },
    )
    counts: Counter[str] = Counter()
    for reader, outcome in _outcomes(report):
        counts[f"{reader} {outcome}"] += 1
    if not counts or (done.returncode and not any("failed" in key for key in counts)):
        counts[" failed"] += 1
    return counts, done.stdout


def _outcomes(report: Path) -> Iterator[tuple[str, str]]:
    if not report.exists():
        return
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = case.get("name", "")
        parameters = name.partition("[")[2].rstrip("]").split("-")
        reader = next((reader for reader in ("python", "rust") if reader in parameters), "")
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        yield reader, outcome


def _places(copy: Path, tests: tuple[str, ...]) -> list[str]:
    """The addresses of tests that are given by name."""
    files = [path for pattern in TESTS_WITH_TORCH for path in ((copy / pattern).rglob("*.py"), [copy / pattern])]
    sources = {path: path.read_text() for group in files for path in group if path.suffix == ".py"}
    return [
        f"{path.relative_to(copy).as_posix()}::{test}"
        for test in tests
        for path, text in sources.items()
        if f"def {test}(" in text
    ]


def _verdict(counts: Counter[str], reader: str) -> str:
    passed, failed = counts[f"{reader} passed"], counts[f"{reader} failed"]
    return f"{passed} passed" if not failed else f"**{failed} failed**, {passed} passed"


def row(cell: Cell, found: dict[str, str], counts: Counter[str]) -> str:
    needs = ", ".join(f"`{need}`" for need in (*([f"numpy{cell.numpy}"] if "<" in cell.numpy else []), *cell.also))
    cells = [found["tensorboard"], found["python"], found["protobuf"], found["numpy"], needs or "-"]
    return "| " + " | ".join([*cells, *(_verdict(counts, reader) for reader in ("python", "rust", ""))]) + " |"


def torch_row(cell: TorchCell, found: dict[str, str], counts: Counter[str]) -> str:
    return f"| {cell.torch} | {found['python']} | {found['numpy']} | {_verdict(counts, '')} | {cell.note} |"


PAGE = """# Compatibility

Written by `make matrix` (`tests/matrix.py`) on {date}; edit the script, not this page.

Each row is a fresh environment without torch into which the wheel was installed. Real TensorBoards serve the golden
event files of every released record format, records made by that environment's own TensorBoard, and records that
`StructureWriter` wrote today under torch {torch}, once with TensorBoard's Python reader (`--load_fast=false`; what
Windows, Apple silicon, Linux on ARM, `--logdir_spec` and remote log directories use) and once with its data server
(`--load_fast=true`). "other" are tests that start no TensorBoard: decoding, checksums, names, fuzzed records.

| TensorBoard | Python | protobuf | numpy | TensorBoard also needs | Python reader | data server | other |
| --- | --- | --- | --- | --- | --- | --- | --- |
{rows}

## Recording

Each row is an environment with that torch, in which the tests of writer, capture, monitor and attention ran.

| torch | Python | numpy | tests | what this torch does otherwise |
| --- | --- | --- | --- | --- |
{torch_rows}

## What each version needs

- TensorBoard up to 2.20 imports `pkg_resources`, which setuptools 82 removed: install `'setuptools<82'`, or TensorBoard
  2.21. Without it TensorBoard does not start, with or without this plugin.
- TensorBoard up to 2.16 needs `'numpy<2'`; up to 2.14 it also needs `six`, which it does not declare.
- TensorBoard up to 2.19 does not start on Python 3.13 (it imports `imghdr`).
- protobuf 3.20.3 to 7 are supported with one set of generated code; TensorBoard itself narrows that range (2.21
  needs 6.31.1 or newer).
"""


def write_table() -> None:
    """The last result of every cell that was ever run here."""
    rows = [path.read_text() for path in (cell_folder(cell) / "row.md" for cell in CELLS) if path.exists()]
    torch_rows = [path.read_text() for path in (cell_folder(cell) / "row.md" for cell in TORCH_CELLS) if path.exists()]
    torch = importlib.metadata.version("torch").partition("+")[0]
    lines = {"rows": "\n".join(rows), "torch_rows": "\n".join(torch_rows)}
    TABLE.write_text(PAGE.format(**lines, date=time.strftime("%Y-%m-%d"), torch=torch))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], metavar="CELL", help="a cell's name or its beginning")
    arguments = parser.parse_args()
    cells: tuple[Cell | TorchCell, ...] = (*CELLS, *TORCH_CELLS)
    chosen = [cell for cell in cells if not arguments.only or cell.name.startswith(tuple(arguments.only))]
    CACHE.mkdir(parents=True, exist_ok=True)
    wheel, fresh, copy = build_wheel(), write_fresh_logdir(), copy_tests()
    bad = 0
    for cell in chosen:
        started = time.monotonic()
        interpreter = find_interpreter(cell.python)
        if interpreter is None:
            print(f"{cell.name}: no Python {cell.python} on this machine", flush=True)
            bad += 1
            continue
        folder = prepare(cell, interpreter, wheel)
        if isinstance(cell, TorchCell):
            left_out = tuple(f"--deselect={test}" for test in _places(copy, cell.without))
            counts, output = run_tests(folder, copy, fresh, (*TESTS_WITH_TORCH, *left_out))
            made = torch_row(cell, versions(folder), counts)
        else:
            counts, output = run_tests(folder, copy, fresh, TESTS)
            made = row(cell, versions(folder), counts)
        (folder / "output.txt").write_text(output)
        (folder / "row.md").write_text(made)
        write_table()
        failed = sum(count for key, count in counts.items() if key.endswith("failed"))
        bad += failed
        print(f"{cell.name}: {dict(counts)} in {time.monotonic() - started:.0f} s", flush=True)
        if failed:
            print("\n".join(output.splitlines()[-40:]), flush=True)
    write_table()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
