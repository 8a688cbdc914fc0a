"""What the monitor writes for each module and parameter, with values known from elsewhere."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from tb_plugin_structure import Quantity, StructureMonitor, StructureWriter
from tb_plugin_structure.records.measurement import Measurement
from tests.support.read_summaries import measurements_in, scalars


class Half(nn.Module):
    """Two rows in, the first of its two features is 0 for both; a norm; a frozen head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, 2, bias=False), nn.ReLU(), nn.BatchNorm1d(2, affine=False))
        self.head = nn.Linear(2, 1, bias=False).requires_grad_(False)
        self.body[0].weight.data = torch.tensor([[-3.0], [4.0]])
        self.head.weight.data = torch.tensor([[1.0, 1.0]])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


def measured(folder: Path, model: str = "m") -> dict[int, Measurement]:
    return dict(measurements_in(folder)[f"measurement/{model}//monitor"])


def train(folder: Path, model: nn.Module, steps: int = 1, **options: object) -> dict[int, Measurement]:
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
    with StructureWriter(folder) as writer:
        monitor = StructureMonitor(
            writer, {"m": model}, optimizer=optimizer, **{"every": 1, "record_every": 0, **options}
        )  # type: ignore[arg-type]
        for _ in range(steps):
            with monitor.observe():
                loss = model(torch.tensor([[1.0], [2.0]])).square().sum()
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            monitor.step(loss)
        monitor.close()
    return measured(folder)


def test_values_of_modules_and_parameters_are_those_of_plain_arithmetic(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 1, bias=False))
    model[0].weight.data = torch.tensor([[3.0, 4.0]])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with StructureWriter(tmp_path) as writer:
        monitor = StructureMonitor(writer, {"m": model}, optimizer=optimizer, every=1, record_every=0)
        with monitor.observe():
            model(torch.tensor([[0.6, 0.8]])).sum().backward()  # the gradient is the input, norm 1
        optimizer.step()  # moves the weights by 0.1; they have norm 5
        monitor.step()
    found = measured(tmp_path)[0]
    for subject, path in ((0, ""), (0, "0"), (1, "0.weight")):
        assert found.quantity("gradient_norm", subject)[path] == pytest.approx(1.0)
        assert found.quantity("update_ratio", subject)[path] == pytest.approx(0.02)
        # After the step: 3 - 0.06 and 4 - 0.08, whose mean is 3.43 and whose distance from it 0.49.
        assert found.quantity("weight_std", subject)[path] == pytest.approx(0.49)
        assert found.quantity("weight_norm", subject)[path] == pytest.approx(4.9)
    assert found.quantity("activation_mean") == pytest.approx({"": 5.0, "0": 5.0})
    assert found.quantity("output_bytes") == {"": 4.0, "0": 4.0}
    assert found.quantity("requires_grad", 1) == {"0.weight": 1.0}


def test_zeros_dead_units_running_statistics_and_flags(tmp_path: Path) -> None:
    found = train(tmp_path, Half().train())[0]
    assert found.quantity("zero_fraction") == pytest.approx(
        {"body.0": 0.0, "body.1": 0.5, "body.2": 0.5, "body": 0.5, "head": 0.0, "": 0.0}
    )
    assert found.quantity("dead_fraction")["body.1"] == 0.5
    assert found.quantity("dead_fraction")["body.0"] == 0.0
    # The norm's inputs are (0, 4) and (0, 8): means 0 and 6, unbiased variances 0 and 8; momentum 0.1.
    assert found.quantity("running_mean") == pytest.approx({"body.2": 0.3})
    assert found.quantity("running_variance") == pytest.approx({"body.2": (0.9 + 0.9 + 0.8) / 2})
    categories = {one.name: list(one.categories) for one in found.quantities()}
    trained = {path: categories["trained"][int(value)] for path, value in found.quantity("trained").items()}
    assert trained == {"": "partly", "body": "trained", "body.0": "trained", "head": "frozen"}
    assert {categories["mode"][int(value)] for value in found.quantity("mode").values()} == {"training"}
    assert {categories["dtype"][int(value)] for value in found.quantity("dtype").values()} == {"float32"}
    assert set(found.quantity("forward_ns")) == {"", "body", "body.0", "body.1", "body.2", "head"}
    assert found.quantity("forward_ns")[""] >= found.quantity("forward_ns")["body"] > 0


def test_a_gradient_that_is_not_finite_is_infinite_and_not_unknown(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    model[1].weight.register_hook(lambda gradient: gradient * math.nan)
    norms = train(tmp_path, model)[0].quantity("gradient_norm")
    assert norms["1"] == norms[""] == math.inf
    assert math.isfinite(norms["0"])


def test_measurements_come_at_their_own_steps_and_times_not_with_recorded_ones(tmp_path: Path) -> None:
    found = train(tmp_path, Half(), steps=9, every=1, measurements_every=2, record_every=4)
    assert sorted(found) == [0, 2, 4, 6, 8]
    assert ["forward_ns" in found[step].table for step in sorted(found)] == [False, True, False, True, False]
    assert "zero_fraction" in found[0].table
    assert found[0].header.structure_hash == found[8].header.structure_hash != ""


def test_a_long_run_is_measured_less_and_less_often(tmp_path: Path) -> None:
    steps = sorted(train(tmp_path, nn.Linear(1, 1), steps=200))
    assert steps[:128] == list(range(128))
    assert steps[128:] == list(range(128, 200, 2))


def test_hooks_are_there_on_due_steps_only_and_a_pass_that_raises_leaves_none(tmp_path: Path) -> None:
    before = len(torch.nn.modules.module._global_forward_hooks)
    model = nn.Linear(1, 1)
    with StructureWriter(tmp_path) as writer:
        monitor = StructureMonitor(writer, {"m": model}, every=2, record_every=0, pictures_every=0)

        def raising_step() -> None:
            with monitor.observe():
                assert len(torch.nn.modules.module._global_forward_hooks) == before + 1
                model(torch.zeros(1, 1))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            raising_step()
        monitor.step()
        with monitor.observe():
            assert len(torch.nn.modules.module._global_forward_hooks) == before
    assert len(torch.nn.modules.module._global_forward_hooks) == before


def test_a_quantity_of_ones_own_is_computed_on_due_steps_only(tmp_path: Path) -> None:
    asked: list[int] = []

    def values() -> dict[str, float]:
        asked.append(monitor.global_step)
        return {"body.0": float(monitor.global_step)}

    with StructureWriter(tmp_path) as writer:
        monitor = StructureMonitor(writer, {"m": Half()}, every=2, measurements_every=0)
        for _ in range(5):
            monitor.measure(Quantity("cka", "similarity", label="CKA"), values)
            monitor.step()
        with pytest.raises(ValueError, match="there is no model 'teacher'; the monitor knows 'm'"):
            monitor.measure("x", {}, model="teacher")
    assert asked == [0, 2, 4]
    found = measurements_in(tmp_path)
    assert list(found) == ["measurement/m//cka"]
    assert [(step, one.quantity("cka")) for step, one in found["measurement/m//cka"]] == [
        (0, {"body.0": 0.0}),
        (2, {"body.0": 2.0}),
        (4, {"body.0": 4.0}),
    ]


def test_paths_are_those_of_the_structure_when_the_model_is_wrapped(tmp_path: Path) -> None:
    class DataParallel(nn.DataParallel):
        """As on a machine with several devices."""

    found = train(tmp_path, DataParallel(Half()))[0]
    assert "body.0" in found.quantity("gradient_norm")


def test_scalars_are_written_even_where_a_step_was_measured_before(tmp_path: Path) -> None:
    with StructureWriter(tmp_path) as writer:
        for _ in range(2):  # a training that begins again with the same writer
            monitor = StructureMonitor(writer, {"m": nn.Linear(1, 1)}, every=1)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                monitor.step(2.0)
    assert scalars(tmp_path)["monitor/loss"] == {0: 2.0}
    assert len(measurements_in(tmp_path)["measurement/m//monitor"]) == 1


def test_a_recorded_gradient_that_is_not_finite_is_infinite(tmp_path: Path) -> None:
    model = nn.Linear(1, 1, bias=False)
    with StructureWriter(tmp_path) as writer, writer.record_step({"m": model}, step=0):
        (model(torch.ones(1, 1)) * math.nan).sum().backward()
    flow = measurements_in(tmp_path)["measurement/m"][0][1]
    assert flow.quantity("gradient_norm", 1) == {"weight": math.inf}
