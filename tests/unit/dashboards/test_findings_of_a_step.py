"""Findings about the loss reach the tab: what ran between the models is part of the same run."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import pytest

from tb_plugin_structure.v1 import audit_pb2
from tests.support.tensorboard_server import TensorBoardServer

torch = pytest.importorskip("torch")


def test_a_silent_broadcast_in_the_recorded_loss_is_found(tmp_path: Path) -> None:
    from torch import nn

    from tb_plugin_structure import StructureWriter

    teacher, student = nn.Linear(4, 1), nn.Linear(4, 1)
    x = torch.randn(5, 4)
    with StructureWriter(tmp_path / "kd") as writer:
        with writer.record_step({"teacher": teacher, "student": student}, step=3):
            with torch.no_grad():
                wanted = teacher(x)
            # [5, 1] against [5]: every row is compared with every other.
            (student(x) - wanted.squeeze(1)).square().mean().backward()
    query = {
        "t_run": "kd",
        "t_tag": "structure/teacher",
        "t_step": 3,
        "s_run": "kd",
        "s_tag": "structure/student",
        "s_step": 3,
    }
    with TensorBoardServer(tmp_path) as server:
        server.records(at_least=3)
        report = audit_pb2.Audit.FromString(server.get(f"structure_shape_audit/api/audit?{urlencode(query)}"))
    assert "silent-broadcast" in {finding.rule for finding in report.findings}
