"""Builds the frontend into ``tb_plugin_structure/static`` when what is there is not current.

``static/sources.sha256`` holds a digest of everything the build reads. A source distribution carries the built files
and this digest, so installing from it needs no Node.js; after a change of the sources the digest differs and the
frontend is built again.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from node import WHEEL_REQUIREMENT, find_node, node_on_path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "frontend"
STATIC = ROOT / "tb_plugin_structure" / "static"
STAMP = "sources.sha256"


def skipped() -> bool:
    """True when ``TBPS_SKIP_FRONTEND=1`` asks for the Python side alone."""
    return os.environ.get("TBPS_SKIP_FRONTEND", "") not in ("", "0")


def sources_digest() -> str:
    """SHA-256 over the names and contents of what the build reads: configuration, lock file and ``src``."""
    files = [path for path in SOURCES.glob("*") if path.is_file()]
    files += [path for path in (SOURCES / "src").rglob("*") if path.is_file() and ".test." not in path.name]
    digest = hashlib.sha256()
    for path in sorted(files):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(SOURCES).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def is_current() -> bool:
    """True when the built frontend is there and was made from the sources beside it."""
    stamp = STATIC / STAMP
    if not stamp.is_file():
        return False
    return not SOURCES.is_dir() or stamp.read_text().strip() == sources_digest()


def requirements() -> list[str]:
    """What the build needs beyond setuptools: a Node.js, when there is something to build and none is at hand."""
    if skipped() or is_current() or node_on_path() is not None:
        return []
    return [WHEEL_REQUIREMENT]


def build() -> None:
    """Install the frontend's packages when the lock file changed, and build. Does nothing when all is current.

    Raises ``RuntimeError`` naming the fix when there is no Node.js, ``subprocess.CalledProcessError`` when npm fails.
    """
    if skipped() or is_current():
        return
    if not SOURCES.is_dir():
        raise RuntimeError(
            f"neither {STATIC.relative_to(ROOT)} (the built frontend) nor {SOURCES.name}/ (its sources) is here; "
            "install from a complete source distribution or a clone"
        )
    node = find_node()
    if node is None:
        raise RuntimeError(
            "building the frontend needs Node.js 20 or newer and none was found on PATH; "
            f"install one, or `pip install '{WHEEL_REQUIREMENT}'`, "
            "or set TBPS_SKIP_FRONTEND=1 to install without the tabs"
        )
    installed, lock = SOURCES / "node_modules" / ".package-lock.json", SOURCES / "package-lock.json"
    if not installed.is_file() or installed.stat().st_mtime < lock.stat().st_mtime:
        # NODE_ENV=production would leave out the build tools; no package here needs its install script.
        node.run_npm("ci", "--include=dev", "--ignore-scripts", "--no-audit", "--no-fund", cwd=SOURCES)
    digest = sources_digest()
    node.run_npm("run", "build", cwd=SOURCES, environment={"TBPS_STATIC_DIR": str(STATIC)})
    (STATIC / STAMP).write_text(digest + "\n")
