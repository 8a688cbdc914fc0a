"""Real processes that train together over gloo: ``python -m tests.support.ranks SCENARIO FOLDER RANK WORLD``.

Each scenario is a function of the rank and a folder; what a rank says goes into ``FOLDER/<scenario>.<rank>.json``.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

GROUP_TIMEOUT_S = 20
"""After this long a collective that other ranks do not join fails."""

PROCESS_TIMEOUT_S = 150


def run(names: list[str], folder: Path, world: int = 2) -> list[subprocess.CompletedProcess[str]]:
    """Run scenarios one after the other in `world` processes; a process that hangs is killed and fails the test."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.support.ranks", ",".join(names), str(folder)]
    processes = [
        subprocess.Popen([*command, str(rank), str(world)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank in range(world)
    ]
    finished = []
    end = time.monotonic() + PROCESS_TIMEOUT_S
    try:
        for process in processes:
            output, errors = process.communicate(timeout=max(1.0, end - time.monotonic()))
            finished.append(subprocess.CompletedProcess(command, process.returncode, output, errors))
    finally:
        for process in processes:
            process.kill()
    return finished


def said(folder: Path, scenario: str, rank: int) -> Any:
    return json.loads((folder / f"{scenario}.{rank}.json").read_text())


# ---- what the processes do


def _network() -> Any:
    import torch
    from torch import nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4, 6)
            self.norm = nn.BatchNorm1d(6)
            self.second = nn.Linear(6, 3)

        def forward(self, x: Any) -> Any:
            return self.second(torch.relu(self.norm(self.first(x))))

    torch.manual_seed(0)
    return Network()


def _inputs() -> Any:
    import torch

    return torch.ones(5, 4)


def _mesh(world: int) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", (world,), mesh_dim_names=("ranks",))


def _told(structure: Any) -> dict[str, Any]:
    """What a record says, as plain values."""
    parameters, calls = structure.parameters, structure.module_calls
    spread = "placement" in parameters
    return {
        "class": structure.header.model_class,
        "calls": [structure.call_path(call) for call in range(calls.rows)],
        "classes": structure.module_classes,
        "outputs": [[list(shape) for _, shape in structure.output_shapes(call)] for call in range(calls.rows)],
        "parameters": {
            parameters.text("path", row): parameters.values("shape", row).tolist() for row in range(parameters.rows)
        },
        "local": {
            parameters.text("path", row): [
                parameters.values("local_shape", row).tolist(),
                parameters.text("placement", row),
            ]
            for row in range(parameters.rows)
        }
        if spread
        else {},
        "count": structure.header.totals.parameters,
        "wrappers": list(structure.header.provenance.wrappers),
        "rank": [structure.header.provenance.rank, structure.header.provenance.world_size],
        "operators": structure.operators.column_texts("name"),
    }


def _recorded(model: Any, folder: Path, ranks: str, name: str) -> tuple[dict[str, Any], str]:
    """Record the user's own step; (what the record says, where it was written)."""
    from tb_plugin_structure.capture import observe
    from tb_plugin_structure.writer import StructureWriter

    with StructureWriter(folder / name, ranks=ranks) as writer:
        with writer.record_step({"student": model}, step=0, attention=False):
            model(_inputs()).sum().backward()
        where = writer.logdir
    with observe({"student": model}) as region:
        model(_inputs()).sum().backward()
    return _told(region.structures["student"]), where


def ddp(rank: int, world: int, folder: Path) -> Any:
    """Rank 0 records alone in between: its pass must not wait for the other rank, whose buffers DDP would send."""
    from torch.nn.parallel import DistributedDataParallel

    from tb_plugin_structure.capture import capture

    model = DistributedDataParallel(_network())
    observed, where = _recorded(model, folder, "zero", "ddp")
    alone = _told(capture(model, (_inputs(),))) if rank == 0 else None
    return {"observed": observed, "alone": alone, "where": where}


def every_rank(rank: int, world: int, folder: Path) -> Any:
    """Rank 1 takes another branch."""
    from torch import nn

    from tb_plugin_structure.writer import StructureWriter

    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(4, 4)
            self.extra = nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            x = self.body(x)
            return self.extra(x) if rank else x

    with StructureWriter(folder / "all", ranks="all") as writer:
        with writer.record_step({"student": Branching()}, step=0) as region:
            region._observed[0].table.model(_inputs())
        return {"where": writer.logdir}


def fsdp1(rank: int, world: int, folder: Path) -> Any:
    import torch
    from torch import nn
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    from tb_plugin_structure.capture import capture

    found = {}
    for name, original in (("flat", False), ("original", True)):
        model = FullyShardedDataParallel(
            _network(),
            auto_wrap_policy=ModuleWrapPolicy({nn.Linear}),
            device_id=torch.device("cpu"),
            use_orig_params=original,
        )
        observed, _ = _recorded(model, folder, "zero", f"fsdp1 {name}")
        found[name] = {"observed": observed, "own": _told(capture(model, (_inputs(),)))}
    return found


def fsdp2(rank: int, world: int, folder: Path) -> Any:
    from torch.distributed.fsdp import fully_shard

    from tb_plugin_structure.capture import capture

    mesh, model = _mesh(world), _network()
    for part in (model.first, model.second, model):
        fully_shard(part, mesh=mesh)
    observed, _ = _recorded(model, folder, "zero", "fsdp2")
    return {"observed": observed, "own": _told(capture(model, (_inputs(),)))}


def tensor_parallel(rank: int, world: int, folder: Path) -> Any:
    from torch import nn
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    from tb_plugin_structure.capture import capture

    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    parallelize_module(model, _mesh(world), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    observed, _ = _recorded(model, folder, "zero", "tensor parallel")
    structure = capture(model, (_inputs(),))
    tensors = structure.tensors
    values = {
        f"{tensors.text('placement', row)} {tensors.values('shape', row).tolist()}": tensors.values(
            "local_shape", row
        ).tolist()
        for row in range(tensors.rows)
    }
    return {"observed": observed, "own": _told(structure), "values": values}


def failing(rank: int, world: int, folder: Path) -> Any:
    """Rank 1 raises in its forward pass; rank 0 waits for it in the backward pass, until the group gives up."""
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    from tb_plugin_structure.writer import StructureWriter

    class Failing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            if rank:
                raise RuntimeError("this rank is out of memory")
            return self.second(x)

    model = DistributedDataParallel(Failing())
    with StructureWriter(folder / "failing", ranks="all") as writer:
        try:
            with writer.record_step({"student": model}, step=0):
                model(_inputs()).sum().backward()
        except RuntimeError as error:
            return {"error": str(error), "where": writer.logdir}
    return {"error": "", "where": writer.logdir}


SCENARIOS: dict[str, Callable[[int, int, Path], Any]] = {
    function.__name__: function for function in (ddp, every_rank, fsdp1, fsdp2, tensor_parallel, failing)
}


def main(names: str, folder: Path, rank: int, world: int) -> None:
    import torch.distributed as distributed

    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/{names.replace(',', '_')}.store",
        rank=rank,
        world_size=world,
        timeout=datetime.timedelta(seconds=GROUP_TIMEOUT_S),
    )
    for name in names.split(","):
        begun = time.monotonic()
        found = SCENARIOS[name](rank, world, folder)
        found["seconds"] = time.monotonic() - begun
        (folder / f"{name}.{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
