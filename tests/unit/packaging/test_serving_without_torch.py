"""A machine that serves TensorBoard needs no PyTorch, and one that has it does not pay for loading it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tb_plugin_structure import event_file
from tb_plugin_structure.records import names
from tests.support.small_records import small_structure
from tests.support.tensorboard_server import TensorBoardServer

IMPORT_EVERYTHING_THAT_SERVES = """
import importlib, pkgutil, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "torchvision", "transformers"):
            raise ModuleNotFoundError(f"{name} is not installed", name=name)

sys.meta_path.insert(0, Refuse())
import tb_plugin_structure
imported = 0
for room in ("v1", "records", "analysis", "dashboards"):
    package = importlib.import_module(f"tb_plugin_structure.{room}")
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
        imported += 1
from tb_plugin_structure import align, audit
assert "torch" not in sys.modules
try:
    tb_plugin_structure.StructureWriter
except ImportError as error:
    print(imported, error)
"""


def test_what_serves_imports_without_torch_and_what_records_says_what_is_missing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_EVERYTHING_THAT_SERVES], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    count, _, message = done.stdout.partition(" ")
    assert int(count) > 30
    assert message.strip() == (
        "StructureWriter needs PyTorch; install it with: pip install 'tensorboard-plugin-structure[torch]'"
    )


@pytest.mark.parametrize("fast", [False, True], ids=["python-reader", "rustboard"])
def test_a_serving_tensorboard_never_imports_torch(tmp_path: Path, fast: bool) -> None:
    file = event_file.OwnEventFile(tmp_path)
    for model, hidden in (("teacher", 8), ("student", 4)):
        record = small_structure(model, hidden).encode()
        tag = names.structure_tag(model)
        file.add_event(event_file.record_event(names.STRUCTURE_PLUGIN, tag, record, 0, "two linear layers"))
    file.close()
    pair = urlencode(
        {
            f"{side}_{key}": value
            for side, model in (("t", "teacher"), ("s", "student"))
            for key, value in {"run": ".", "tag": names.structure_tag(model), "step": 0}.items()
        }
    )
    # Python then writes a line for each module that it imports, in whatever thread.
    with TensorBoardServer(tmp_path, fast=fast, env={"PYTHONPROFILEIMPORTTIME": "1"}) as server:
        server.records(at_least=2)
        for tab in (names.GRAPH_DIFF_TAB, names.SHAPE_AUDIT_TAB):
            assert server.get(f"{tab}/api/alignment?{pair}")
            assert server.get(f"{tab}/api/audit?{pair}")
        imported = {line.rpartition("|")[2].strip() for line in server.log if line.startswith("import time:")}
    assert {"numpy", "tb_plugin_structure.analysis.alignment", "tb_plugin_structure.analysis.audit"} <= imported
    assert [name for name in imported if name.split(".")[0] == "torch"] == []
