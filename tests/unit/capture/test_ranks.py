"""Real processes over gloo: what each rank records, alone or in the user's own step, and that none waits in vain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tb_plugin_structure.analysis.variants import are_variants, compare_variants
from tb_plugin_structure.cli.event_files import EventFiles
from tb_plugin_structure.cli.main import main
from tests.support import ranks

pytestmark = pytest.mark.slow

CALLS = ["", "first", "norm", "second"]
PARAMETERS = {
    "first.weight": [6, 4],
    "first.bias": [6],
    "norm.weight": [6],
    "norm.bias": [6],
    "second.weight": [3, 6],
    "second.bias": [3],
}
COUNT = 24 + 6 + 6 + 6 + 18 + 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One pair of processes runs all scenarios: most of the time goes into starting them."""
    path = tmp_path_factory.mktemp("ranks")
    for process in ranks.run(["ddp", "every_rank", "fsdp1", "fsdp2", "tensor_parallel"], path):
        assert process.returncode == 0, process.stderr[-3000:]
    return path


def check_network(told: dict[str, Any], wrapper: str, rank: int) -> None:
    assert told["class"] == "Network"
    assert told["classes"] == ["Network", "Linear", "BatchNorm1d", "Linear"]
    assert told["calls"] == CALLS
    assert told["outputs"] == [[[5, 3]], [[5, 6]], [[5, 6]], [[5, 3]]]
    assert {path: told["parameters"][path] for path in PARAMETERS} == PARAMETERS
    assert told["count"] == COUNT
    assert wrapper in told["wrappers"]
    assert told["rank"] == [rank, 2]
    assert not [name for name in told["operators"] if "record_function" in name]


@pytest.mark.parametrize("rank", [0, 1])
def test_ddp_is_seen_through_and_rank_0_records_alone(folder: Path, rank: int) -> None:
    said = ranks.said(folder, "ddp", rank)
    check_network(said["observed"], "DistributedDataParallel", rank)
    if rank == 0:
        check_network(said["alone"], "DistributedDataParallel", rank)
        assert EventFiles.read(said["where"]).find("student")[1].header.provenance.world_size == 2
    else:
        assert said["where"] == ""  # rank 0 writes, unless asked otherwise


@pytest.mark.parametrize("rank", [0, 1])
def test_fsdp1_shows_parameters_as_written_with_their_global_shapes(folder: Path, rank: int) -> None:
    said = ranks.said(folder, "fsdp1", rank)
    for name in ("flat", "original"):
        for told in said[name].values():
            check_network(told, "FullyShardedDataParallel", rank)
    local = said["original"]["observed"]["local"]
    # The flat parameter of `first` has 30 elements, 15 a rank: the weight's 24 and the bias's 6 in a row.
    assert local["first.weight"] == [[15] if rank == 0 else [9], "flat shard"]
    assert local["first.bias"] == [[0] if rank == 0 else [6], "flat shard"]


@pytest.mark.parametrize("rank", [0, 1])
def test_fsdp2_shows_local_shapes_and_placements(folder: Path, rank: int) -> None:
    said = ranks.said(folder, "fsdp2", rank)
    for told in (said["observed"], said["own"]):
        check_network(told, "FSDPModule", rank)
    local = said["observed"]["local"]
    assert local["first.weight"] == [[3, 4], "Shard(dim=0) over 2 (ranks)"]
    # Three rows over two ranks.
    assert local["second.weight"] == [[2, 6] if rank == 0 else [1, 6], "Shard(dim=0) over 2 (ranks)"]
    assert local["norm.running_mean"] == [[], ""]


@pytest.mark.parametrize("rank", [0, 1])
def test_tensor_parallel_values_have_global_and_local_shapes(folder: Path, rank: int) -> None:
    said = ranks.said(folder, "tensor_parallel", rank)
    assert said["own"]["calls"] == ["", "0", "1", "2"]
    assert said["own"]["parameters"]["0.weight"] == [6, 4]
    assert said["own"]["local"]["0.weight"] == [[3, 4], "Shard(dim=0) over 2 (ranks)"]
    assert said["own"]["local"]["2.weight"] == [[3, 3], "Shard(dim=1) over 2 (ranks)"]
    assert said["own"]["local"]["2.bias"] == [[3], "Replicate() over 2 (ranks)"]
    assert said["values"]["Shard(dim=1) over 2 (ranks) [5, 6]"] == [5, 3]
    assert said["values"]["Partial(sum) over 2 (ranks) [5, 3]"] == [5, 3]
    assert said["observed"]["outputs"][1] == [[5, 6]]


def test_a_rank_that_ran_something_else_is_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = EventFiles.read(folder / "all")
    (_, first), (_, second) = files.find("rank0/student/rank0"), files.find("rank1/student/rank1")
    assert [s.header.provenance.rank for s in (first, second)] == [0, 1]
    assert are_variants(first, second)
    compared = compare_variants(first, second)
    assert compared.rows() == [
        ("only in rank1", "call", "extra", "Linear (with 1 operator in it)"),
    ]
    assert main(["diff", f"{folder}/all:rank0", f"{folder}/all:rank1", "--fail-on", "any-change"]) == 1
    assert "rank0 and rank1: 1 call only in rank1." in capsys.readouterr().out


def test_nothing_waits_for_a_rank_that_failed(tmp_path: Path) -> None:
    for process in ranks.run(["failing"], tmp_path):
        assert process.returncode == 0, process.stderr[-3000:]
    said = [ranks.said(tmp_path, "failing", rank) for rank in (0, 1)]
    assert all(each["seconds"] < ranks.GROUP_TIMEOUT_S + 10 for each in said)
    assert said[0]["error"]  # the backward pass lost its partner
    assert said[1]["error"] == "this rank is out of memory"
    _, healthy = EventFiles.read(said[0]["where"]).find("student/rank0")
    _, failed = EventFiles.read(said[1]["where"]).find("student/rank1")
    assert [healthy.call_path(call) for call in range(healthy.module_calls.rows)] == ["", "first", "second"]
    assert [failed.call_path(call) for call in range(failed.module_calls.rows)] == ["", "first"]
    assert failed.header.error.message == "this rank is out of memory"


def test_data_parallel_is_seen_through() -> None:
    import torch
    from torch import nn

    from tb_plugin_structure.capture import capture

    structure = capture(nn.DataParallel(nn.Sequential(nn.Linear(4, 2))), (torch.ones(3, 4),))
    assert structure.module_paths == ["", "0"]
    assert list(structure.header.provenance.wrappers) == ["DataParallel"]
