"""The ways in which people serve TensorBoard: prefixes, several log directories, read-only ones, behind nginx.

Those that need servers of others are in tests/deployments."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tb_plugin_structure import event_file
from tb_plugin_structure.records import names
from tests.support.small_records import small_structure
from tests.support.tensorboard_server import TensorBoardServer

RECORDS = "data/plugin/structure_graph_diff/api/records"
READERS = pytest.mark.parametrize("fast", [False, True], ids=["python", "rust"])


def write_run(folder: Path, steps: int = 3) -> Path:
    file = event_file.OwnEventFile(folder)
    for step in range(steps):
        blobs = small_structure(hidden=4 + step % 2).encode()
        file.add_event(event_file.record_event(names.STRUCTURE_PLUGIN, "structure/teacher", blobs, step))
    file.close()
    return folder


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deployed")
    write_run(folder / "kd", steps=40)
    return folder


def test_below_a_path_prefix(logdir: Path) -> None:
    with TensorBoardServer(logdir, "--path_prefix=/team/board", fast=True) as server:
        assert server.url.endswith("/team/board")
        assert [entry["run"] for entry in server.records()["structures"]] == ["kd"]
        entry = server.get("/data/plugin_entry.html?name=structure_graph_diff")
        # Everything is relative to this page: no absolute path that would leave the prefix.
        assert b'<base href="plugin/structure_graph_diff/"' in entry
        assert b'import("./static/graph_diff.js")' in entry


def test_several_log_directories_by_logdir_spec(tmp_path: Path) -> None:
    # Read by the Python reader always; TensorBoard gives plugins no log directory then.
    write_run(tmp_path / "one" / "kd")
    write_run(tmp_path / "two")
    spec = f"--logdir_spec=first:{tmp_path / 'one'},second:{tmp_path / 'two'}"
    with TensorBoardServer("", spec, fast=False) as server:
        assert [entry["run"] for entry in server.records(at_least=2)["structures"]] == ["first/kd", "second/."]


@READERS
def test_a_number_of_samples_that_the_user_chose_is_respected(logdir: Path, fast: bool) -> None:
    with TensorBoardServer(logdir, "--samples_per_plugin=structure_record=5", fast=fast) as server:
        (entry,) = server.records()["structures"]
        deadline = time.monotonic() + 20
        while entry["steps"][-1]["step"] != 39 and time.monotonic() < deadline:
            (entry,) = server.records()["structures"]
        assert len(entry["steps"]) == 5
        assert entry["steps"][-1]["step"] == 39


@READERS
def test_a_read_only_log_directory_is_served_and_left_as_it_was(tmp_path: Path, logdir: Path, fast: bool) -> None:
    folder = tmp_path / "read-only"
    shutil.copytree(logdir, folder)
    before = sorted((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*"))
    for path in [*folder.rglob("*"), folder]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        with TensorBoardServer(folder, fast=fast) as server:
            assert len(server.records()["structures"][0]["steps"]) >= 1
        # root may write anywhere, so that nothing was tried is what can be seen.
        assert sorted((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*")) == before
    finally:
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755)


def test_an_empty_log_directory_is_an_empty_list_and_tabs_turn_active_when_data_come(tmp_path: Path) -> None:
    with TensorBoardServer(tmp_path, fast=False) as server:
        assert server.json("structure_graph_diff/api/records")["structures"] == []
        assert server.json("/data/plugins_listing")["structure_graph_diff"]["enabled"] is False
        write_run(tmp_path / "later")
        assert server.records()["structures"][0]["run"] == "later"
        assert server.json("/data/plugins_listing")["structure_graph_diff"]["enabled"] is True


NGINX = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {folder}/certificate.pem; ssl_certificate_key {folder}/key.pem;
    {location}
  }}
}}
"""
SERVING = Path(__file__).resolve().parents[3] / "docs" / "serving.md"


def documented_location(target: str) -> str:
    """The block that the documentation gives, with this test's TensorBoard in it."""
    (block,) = re.findall(r"^```nginx\n(.*?)^```$", SERVING.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert "http://127.0.0.1:6006/;" in block
    return block.replace("http://127.0.0.1:6006/", f"{target}/")


def make_certificate(folder: Path) -> ssl.SSLContext:
    """A certificate for 127.0.0.1 in `folder`, and what trusts it alone."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "certificate.pem"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return ssl.create_default_context(cafile=str(folder / "certificate.pem"))


@pytest.fixture
def behind_nginx(tmp_path: Path, logdir: Path) -> Iterator[TensorBoardServer]:
    """TensorBoard, which knows nothing of it, behind nginx with TLS and below a path."""
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None or shutil.which("openssl") is None:
        pytest.skip("no nginx or no openssl on this machine")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with TensorBoardServer(logdir, fast=False) as server:
        server.records()
        server.ssl_context = make_certificate(tmp_path)
        configuration = tmp_path / "nginx.conf"
        location = documented_location(server.url)
        configuration.write_text(NGINX.format(folder=tmp_path, port=port, location=location))
        process = subprocess.Popen([nginx, "-p", str(tmp_path), "-c", str(configuration)], env={**os.environ})
        try:
            server.url = f"https://127.0.0.1:{port}/team/board"
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                try:
                    if server.request("/data/plugins_listing")[0] == 200:
                        break
                except OSError:
                    time.sleep(0.1)
            yield server
        finally:
            process.terminate()
            process.wait(10)


def test_behind_nginx_with_tls_and_below_a_path(behind_nginx: TensorBoardServer) -> None:
    server = behind_nginx
    entry = server.get("/data/plugin_entry.html?name=structure_graph_diff")
    assert b'<base href="plugin/structure_graph_diff/"' in entry
    assert server.records()["structures"][0]["run"] == "kd"
    address = "run=kd&tag=structure/teacher&step=0&part=modules"
    status, headers, body = server.request(
        f"structure_graph_diff/api/structure?{address}", headers={"Accept-Encoding": "gzip"}
    )
    assert (status, headers.get("Content-Encoding")) == (200, "gzip")
    assert body in small_structure().encode()


def test_the_fast_checksum_reads_the_same_and_still_notices_damage(tmp_path: Path) -> None:
    write_run(tmp_path / "good")
    write_run(tmp_path / "damaged", steps=4)
    (path,) = (tmp_path / "damaged").iterdir()
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    with TensorBoardServer(tmp_path, "--structure_fast_checksum", fast=False) as server:
        entries = {entry["run"]: entry for entry in server.records(at_least=2)["structures"]}
        assert [step["step"] for step in entries["good"]["steps"]] == [0, 1, 2]
        assert [step["step"] for step in entries["damaged"]["steps"]] == [0, 1, 2]


def test_a_remote_file_system_that_fsspec_knows_is_written_and_served() -> None:
    pytest.importorskip("fsspec")
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.memory_logdir"],
        cwd=Path(__file__).resolve().parents[3],
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    (entry,) = json.loads(done.stdout.splitlines()[-1])["structures"]
    assert (entry["run"], entry["tag"]) == ("kd", "structure/teacher")
    assert [step["step"] for step in entry["steps"]] == [0, 1, 2]
