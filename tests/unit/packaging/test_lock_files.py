"""The lock files pin what is tested, and work against whichever registry a developer uses."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PYTHON_LOCK = (ROOT / "requirements-dev.lock").read_text().splitlines()
NPM_LOCK = (ROOT / "frontend" / "package-lock.json").read_text()


def test_every_python_requirement_is_pinned_to_one_release_by_name() -> None:
    lines = [line for line in PYTHON_LOCK if not line.startswith("#")]
    assert len(lines) > 50
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)] == []


def test_torch_is_pinned_to_the_release_that_is_tested() -> None:
    assert "torch==2.13.0" in PYTHON_LOCK


def test_package_lock_names_no_download_address() -> None:
    """With `resolved` addresses `npm ci` would insist on the registry that the lock file was made with."""
    packages = json.loads(NPM_LOCK)["packages"]
    assert len(packages) > 50
    assert '"resolved"' not in NPM_LOCK
    # The contents are pinned all the same.
    unpinned = [name for name, entry in packages.items() if name and not entry.get("link") and "integrity" not in entry]
    assert unpinned == []


def test_npm_is_told_to_leave_addresses_out() -> None:
    assert "omit-lockfile-registry-resolved=true" in (ROOT / "frontend" / ".npmrc").read_text().splitlines()


def test_code_generator_and_its_runtime_are_the_same_release() -> None:
    """protoc-gen-es asks for exactly its own version of the runtime."""
    packages = json.loads(NPM_LOCK)["packages"]
    versions = {packages[f"node_modules/@bufbuild/{name}"]["version"] for name in ("protobuf", "protoc-gen-es")}
    assert len(versions) == 1
