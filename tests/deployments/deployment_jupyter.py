"""``make deployments``: the notebook in a real kernel with its %tensorboard, and JupyterLab's proxy."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nbformat
import psutil
import pytest
from nbclient import NotebookClient

from tests.support.tensorboard_server import TensorBoardServer

ROOT = Path(__file__).resolve().parents[2]
RECORDS = "data/plugin/structure_graph_diff/api/records"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def fetch(url: str) -> bytes:
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=30) as response:
                return bytes(response.read())
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)


@pytest.fixture
def executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[nbformat.NotebookNode, int]]:
    """(the notebook after every cell ran, the port of the TensorBoard that it started)."""
    notebook = nbformat.read(ROOT / "examples" / "compare_two_models.ipynb", as_version=4)
    port = free_port()
    # %tensorboard looks for the program there; `make` calls this environment's Python without activating it.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    notebook.cells[-1].source += f" --port {port}"
    before = {process.pid for process in psutil.process_iter()}
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    with client.setup_kernel():  # a kernel takes what it started with it when it ends
        for number, cell in enumerate(notebook.cells):
            client.execute_cell(cell, number)
        yield notebook, port
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if process.pid not in before and f"{port}" in words and any("tensorboard" in word for word in words):
            process.terminate()  # older kernels leave it


def test_every_cell_runs_and_the_last_shows_our_tabs(executed: tuple[nbformat.NotebookNode, int]) -> None:
    notebook, port = executed
    shown = json.dumps(notebook.cells[-1].outputs)
    assert "tensorboard-frame" in shown  # the iframe that %tensorboard puts into the notebook
    listing: dict[str, list[dict[str, str]]] = {}
    deadline = time.monotonic() + 60
    while len(listing.get("structures", [])) < 2 and time.monotonic() < deadline:
        listing = json.loads(fetch(f"http://127.0.0.1:{port}/{RECORDS}"))
        time.sleep(0.3)
    assert [entry["model"] for entry in listing["structures"]] == ["student", "teacher"]
    plugins = json.loads(fetch(f"http://127.0.0.1:{port}/data/plugins_listing"))
    assert plugins["structure_graph_diff"]["enabled"] is True


def test_behind_the_proxy_of_jupyterlab(tmp_path: Path) -> None:
    with TensorBoardServer(ROOT / "tests" / "golden", fast=False) as board:
        board.records()
        port = free_port()
        options = ["--ServerApp.port_retries=0", "--IdentityProvider.token=", "--ServerApp.base_url=/user/ada/"]
        lab = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}", *options],
            cwd=tmp_path,
            env={**os.environ, "JUPYTER_CONFIG_DIR": str(tmp_path), "JUPYTER_RUNTIME_DIR": str(tmp_path)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            (served,) = re.findall(r":(\d+)$", board.url)
            proxied = f"http://127.0.0.1:{port}/user/ada/proxy/{served}"
            listing = json.loads(fetch(f"{proxied}/{RECORDS}"))
            assert {entry["model"] for entry in listing["structures"]} >= {"teacher", "student"}
            entry = fetch(f"{proxied}/data/plugin_entry.html?name=structure_graph_diff").decode()
            (base,) = re.findall(r'<base href="([^"]+)"', entry)
            (module,) = re.findall(r'import\("\./([^"]+)"\)', entry)
            assert not base.startswith("/")
            assert b"render" in fetch(f"{proxied}/data/{base}{module}")
        finally:
            lab.terminate()
            lab.wait(20)
