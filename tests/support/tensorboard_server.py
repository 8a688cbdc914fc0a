"""A real TensorBoard process on a free port of this machine."""

from __future__ import annotations

import json
import os
import queue
import re
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any


class TensorBoardServer:
    """`with TensorBoardServer(logdir, fast=False) as server: server.get("structure_graph_diff/api/records")`."""

    def __init__(
        self, logdir: Path | str, *arguments: str, fast: bool = False, env: dict[str, str] | None = None
    ) -> None:
        command = [sys.executable, "-m", "tensorboard.main", "--port", "0", "--host", "127.0.0.1"]
        if not any(argument.startswith("--logdir_spec") for argument in arguments):
            command += ["--logdir", str(logdir)]
        command += [f"--load_fast={'true' if fast else 'false'}", "--reload_interval", "1", *arguments]
        self._process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
        )
        self.ssl_context: ssl.SSLContext | None = None  # for a proxy that speaks TLS
        self.log: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.url = self._wait_for_url()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.log.append(line)
            self._lines.put(line)
        self._lines.put(None)

    def _wait_for_url(self) -> str:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                line = self._lines.get(timeout=1)
            except queue.Empty:
                continue
            if line is None:
                break
            found = re.search(r"TensorBoard [\d.a-z]+ at (http://\S+)", line)
            if found:
                return found[1].rstrip("/")
        self.stop()
        raise RuntimeError("TensorBoard did not start:\n" + "".join(self.log))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def request(
        self, path: str, *, method: str = "GET", body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """(status, headers, body) of a request below ``data/plugin/``; an absolute path starts with '/'."""
        url = f"{self.url}{path}" if path.startswith("/") else f"{self.url}/data/plugin/{path}"
        request = urllib.request.Request(url, data=body, method=method, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=60, context=self.ssl_context) as response:
                return response.status, dict(response.headers), response.read()
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers), error.read()

    def get(self, path: str) -> bytes:
        status, _, body = self.request(path)
        assert status == 200, (status, body[:500])
        return body

    def json(self, path: str) -> Any:
        return json.loads(self.get(path))

    def records(self, *, at_least: int = 1, kind: str = "structures") -> dict[str, Any]:
        """The listing, once the reader has loaded `at_least` entries of a kind."""
        deadline = time.monotonic() + 300
        while True:
            listing: dict[str, Any] = self.json("structure_graph_diff/api/records")
            if len(listing[kind]) >= at_least:
                return listing
            if time.monotonic() > deadline:
                raise AssertionError(f"only {len(listing[kind])} {kind} after a minute; log: {self.log[-5:]}")
            time.sleep(0.2)

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def __enter__(self) -> TensorBoardServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
