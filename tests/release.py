"""What must hold before a release is uploaded: ``make release-check``.

Builds the sdist and, from it, the wheel; lets twine and check-wheel-contents judge both; compares the bill of
materials with the frontend's lock file; then installs the wheel into a new environment that cannot reach any network,
and reads an event file with what was installed.

    python -m tests.release --into .cache/release
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STATIC = "tb_plugin_structure/static"


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """The output of a command; it ends the check when the command fails."""
    # PYTHONPATH would show pip the checkout, as an installed package.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}")
    return done.stdout


def build(into: Path) -> tuple[Path, Path]:
    """(sdist, wheel): one of each, the wheel for every Python and every platform."""
    run(sys.executable, "-m", "build", "--outdir", into, ROOT)
    (sdist,), (wheel,) = into.glob("*.tar.gz"), into.glob("*.whl")
    version = re.search(r'^version = "(\d+\.\d+\.\d+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    if version is None:
        raise SystemExit("the version in pyproject.toml is no MAJOR.MINOR.PATCH")
    if wheel.name != f"tensorboard_plugin_structure-{version[1]}-py3-none-any.whl":
        raise SystemExit(f"{wheel.name} is not the wheel of {version[1]} for every Python and platform")
    if f"\n## {version[1]}" not in (ROOT / "CHANGELOG.md").read_text():
        raise SystemExit(f"CHANGELOG.md has no section for {version[1]}")
    return sdist, wheel


def judge(sdist: Path, wheel: Path) -> None:
    tools = Path(sys.executable).parent
    print(run(tools / "twine", "check", "--strict", sdist, wheel).strip())
    # Golden files and stubs are meant to be there; nothing is ignored.
    print(run(tools / "check-wheel-contents", wheel).strip())


def compare_bill_of_materials(wheel: Path) -> None:
    """Everything of the lock file that ends up in the browser is listed, with its licence text."""
    lock = json.loads((ROOT / "frontend" / "package-lock.json").read_text())
    shipped = {
        (path.rpartition("node_modules/")[2], entry["version"])
        for path, entry in lock["packages"].items()
        if path and not entry.get("dev")
    }
    with zipfile.ZipFile(wheel) as archive:
        bill = json.loads(archive.read(f"{STATIC}/third_party.cdx.json"))
        texts = archive.read(f"{STATIC}/third_party_licenses.txt").decode()
        if "tb_plugin_structure/py.typed" not in archive.namelist():
            raise SystemExit("the wheel has no py.typed")
    listed = {(component["name"], component["version"]) for component in bill["components"]}
    if listed != shipped:
        raise SystemExit(f"the bill of materials lists {listed}, the lock file has {shipped}")
    missing = [name for name, version in shipped if f"\n{name} {version} (" not in texts]
    if missing:
        raise SystemExit(f"no licence text of {missing}")
    print(f"bill of materials: {', '.join(sorted(f'{name} {version}' for name, version in listed))}")


def offline() -> list[str]:
    """The beginning of a command that runs it without any network: a network namespace of its own."""
    prefix = ["unshare", "--map-root-user", "--net"]
    if shutil.which("unshare") and subprocess.run([*prefix, "true"], capture_output=True).returncode == 0:
        return prefix
    print("unshare is not allowed here: the network stays there, pip is told not to use it")
    return []


def install_offline(wheel: Path, into: Path) -> None:
    """As on a machine behind a wall: the wheels were carried there on a disk."""
    carried = into / "carried"
    run(sys.executable, "-m", "pip", "download", "--quiet", "--dest", carried, wheel)
    venv.create(into / "offline", with_pip=True, clear=True)
    binaries = into / "offline" / ("Scripts" if sys.platform == "win32" else "bin")
    alone = offline()
    installing = [binaries / "python", "-m", "pip", "install", "--quiet", "--no-index", "--find-links", carried]
    run(*alone, *installing, "tensorboard-plugin-structure")
    logdir = into / "logdir" / "golden"
    logdir.mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "golden" / "events.out.tfevents.format1", logdir)
    shown = run(*alone, binaries / "tb-structure", "show", logdir.parent, cwd=into)
    if "student" not in shown or "teacher" not in shown:
        raise SystemExit(f"the installed tb-structure does not show the golden records:\n{shown}")
    loaded = run(
        *alone,
        binaries / "python",
        "-c",
        "from tensorboard import default; from tb_plugin_structure.dashboards import static_files\n"
        "print([p.__name__ for p in default.get_dynamic_plugins()], len(static_files.read_static()))",
        cwd=into,
    )
    for name in ("GraphDiffLoader", "ShapeAuditLoader", "AttentionLoader"):
        if name not in loaded:
            raise SystemExit(f"TensorBoard does not find {name} after an installation without network: {loaded}")
    print(f"installed without network: {loaded.strip().splitlines()[-1]} files of the frontend")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--into", type=Path, default=ROOT / ".cache" / "release", help="made anew")
    into = parser.parse_args().into.resolve()
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    sdist, wheel = build(into)
    judge(sdist, wheel)
    compare_bill_of_materials(wheel)
    install_offline(wheel, into)
    print(f"ready to upload: {sdist.name}, {wheel.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
