"""The committed code of the schema is what `make proto` makes of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROTOS = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("proto/tb_plugin_structure/v1/*.proto"))
PROTOC = Path(os.environ.get("TBPS_PROTOC_PYTHON", ROOT / ".cache" / "protoc" / "bin" / "python"))

# grpcio-tools 1.62.3, whose protoc 25.1 makes code for every supported protobuf, has no wheels for all Pythons.
pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the generator is pinned for Python 3.11")


def generate(*arguments: str) -> None:
    assert PROTOC.exists(), f"there is no generator at {PROTOC}; `make proto` installs it"
    done = subprocess.run(
        [str(PROTOC), "-m", "grpc_tools.protoc", "-Iproto", *arguments, *PROTOS],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def contents(folder: Path, pattern: str) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.glob(pattern))}


def test_python_code_is_current(tmp_path: Path) -> None:
    generate(f"--python_out={tmp_path}", f"--pyi_out={tmp_path}")
    made = contents(tmp_path / "tb_plugin_structure" / "v1", "*_pb2.py*")
    assert len(made) == 2 * len(PROTOS) > 0
    assert contents(ROOT / "tb_plugin_structure" / "v1", "*_pb2.py*") == made, "run `make proto`"


def test_typescript_code_is_current(tmp_path: Path) -> None:
    plugin = ROOT / "frontend" / "node_modules" / ".bin" / "protoc-gen-es"
    assert plugin.exists(), "run `npm ci` in frontend/"
    generate(f"--plugin=protoc-gen-es={plugin}", f"--es_out={tmp_path}", "--es_opt=target=ts")
    made = contents(tmp_path / "tb_plugin_structure" / "v1", "*_pb.ts")
    assert len(made) == len(PROTOS) > 0
    assert contents(ROOT / "frontend" / "src" / "gen" / "tb_plugin_structure" / "v1", "*_pb.ts") == made, (
        "run `make proto`"
    )
