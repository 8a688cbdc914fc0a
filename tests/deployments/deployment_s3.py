"""``make deployments``: a log directory in an object store that speaks S3, on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.support.tensorboard_server import TensorBoardServer

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A store with one empty bucket, "bucket"; TensorBoard is told of it as its users tell it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in (
        ("S3_ENDPOINT", f"http://{host}:{port}"),
        ("AWS_ACCESS_KEY_ID", "anyone"),
        ("AWS_SECRET_ACCESS_KEY", "anything"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(name, value)
    boto3.client("s3", endpoint_url=os.environ["S3_ENDPOINT"]).create_bucket(Bucket="bucket")
    yield
    server.stop()


def train(logdir: str) -> tuple[str, str]:
    """(what a training prints, its warnings)"""
    command = [sys.executable, "-m", "tests.support.remote_training", logdir]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_a_training_writes_to_s3_and_tensorboard_reads_it(store: None) -> None:
    _, warnings = train("s3://bucket/runs/kd")
    assert "tb_plugin_structure" not in warnings
    with TensorBoardServer("s3://bucket/runs", fast=False) as server:
        listing = server.records(at_least=2)
        models = {entry["model"]: entry for entry in listing["structures"] if entry["kind"] == "structure"}
        assert set(models) == {"teacher", "student"}
        assert {entry["run"] for entry in listing["structures"]} == {"kd"}
        assert [step["step"] for entry in listing["measurements"] for step in entry["steps"]] == [0, 1, 2] * 2
        assert listing["problems"] == []


def test_a_store_that_refuses_costs_one_warning_and_no_training(
    store: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reached, _ = train(str(tmp_path))
    monkeypatch.setenv("S3_ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_RETRY_MODE", "standard")  # the older one ignores the number
    refused, warnings = train("s3://bucket/runs/kd")
    assert refused == reached
    assert warnings.count("UserWarning: tb_plugin_structure") == 1
