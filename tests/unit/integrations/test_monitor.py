"""The monitor in a loop of one's own: what it logs, with values known from elsewhere, and that it changes nothing."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from tb_plugin_structure import StructureWriter
from tb_plugin_structure.integrations import StructureMonitor, statistics
from tests.support.read_summaries import histograms, records, scalars


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer1 = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer1(x))


def train(writer: StructureWriter, steps: int, **options: object) -> tuple[nn.Module, list[float]]:
    torch.manual_seed(0)
    teacher, student = Small().eval().requires_grad_(False), Small()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.5)
    losses = []
    with StructureMonitor(writer, {"teacher": teacher, "student": student}, optimizer=optimizer, **options) as monitor:  # type: ignore[arg-type]
        for _ in range(steps):
            values = torch.randn(8, 3)
            with monitor.observe():
                loss = (student(values) - teacher(values)).square().mean()
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            monitor.step(loss, accuracy=0.25)
            losses.append(loss.item())
    return student, losses


def test_scalars_histograms_and_records_come_at_their_steps(tmp_path: Path) -> None:
    with StructureWriter(tmp_path) as writer:
        _, losses = train(writer, 9, every=2, histograms_every=4, record_every=8)
    found = scalars(tmp_path)
    assert sorted(found["monitor/loss"]) == [0, 2, 4, 6, 8]
    assert found["monitor/loss"] == pytest.approx({step: losses[step] for step in (0, 2, 4, 6, 8)}, rel=1e-6)
    assert set(found["monitor/accuracy"].values()) == {0.25}
    assert set(found["learning_rate"].values()) == {0.5}
    for tag in (
        "gradient_norm/student",
        "gradient_norm/student/layer1.0",
        "gradient_norm/student/head",
        "update_ratio/student",
        "update_ratio/student/head",
        "weight_std/student/head.weight",
        "batch_norm/student/layer1.1/running_mean",
        "batch_norm/student/layer1.1/running_variance",
    ):
        assert sorted(found[tag]) == [0, 2, 4, 6, 8], tag
    assert not [tag for tag in found if tag.startswith(("gradient_norm/teacher", "update_ratio/teacher"))]
    assert histograms(tmp_path) == {
        f"{kind}/student/{path}": [0, 4, 8]
        for kind in ("weights", "gradients")
        for path in (
            *("layer1.0.weight", "layer1.0.bias", "layer1.1.weight", "layer1.1.bias"),
            *("head.weight", "head.bias"),
        )
    }
    recorded = records(tmp_path)
    assert recorded["structure/teacher"] == recorded["structure/student"] == [0]  # unchanged at step 8
    assert recorded["measurement/student"] == [0, 8]


def test_values_are_those_of_plain_torch(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 1, bias=False))
    model[0].weight.data = torch.tensor([[3.0, 4.0]])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with (
        StructureWriter(tmp_path) as writer,
        StructureMonitor(writer, {"m": model}, optimizer=optimizer, every=1, record_every=0) as monitor,
    ):
        model(torch.tensor([[0.6, 0.8]])).sum().backward()  # the gradient is the input, norm 1
        optimizer.step()  # moves the weights by 0.1; they have norm 5
        monitor.step(torch.tensor(2.0))
    found = scalars(tmp_path)
    assert found["gradient_norm/m"] == pytest.approx({0: 1.0})
    assert found["gradient_norm/m/0"] == pytest.approx({0: 1.0})
    assert found["update_ratio/m"] == pytest.approx({0: 0.02}, rel=1e-5)
    # 3 - 0.06 and 4 - 0.08: mean 3.43, half their distance is 0.49
    assert found["weight_std/m/0.weight"] == pytest.approx({0: 0.49}, rel=1e-5)


def test_training_is_bit_for_bit_the_same_with_and_without_it(tmp_path: Path) -> None:
    with StructureWriter(tmp_path / "on") as writer:
        watched, losses = train(writer, 6, every=1, histograms_every=1, record_every=1)
    with StructureWriter(tmp_path / "off", enabled=False) as writer:
        alone, others = train(writer, 6, every=1)
    assert losses == others
    for mine, other in zip(watched.parameters(), alone.parameters(), strict=True):
        assert torch.equal(mine, other)
    for mine, other in zip(watched.buffers(), alone.buffers(), strict=True):
        assert torch.equal(mine, other)


def test_one_switch_turns_everything_off(tmp_path: Path) -> None:
    with StructureWriter(tmp_path) as writer:
        train(writer, 3, every=1, histograms_every=1, record_every=1, enabled=False)
    assert not list(tmp_path.glob("*"))


def test_without_an_optimizer_gradients_are_read_at_the_end_of_the_step(tmp_path: Path) -> None:
    model = nn.Linear(2, 1, bias=False)
    with StructureWriter(tmp_path) as writer:
        monitor = StructureMonitor(writer, {"m": model}, every=1)
        model(torch.tensor([[3.0, 4.0]])).sum().backward()
        monitor.step()
    found = scalars(tmp_path)
    assert found["gradient_norm/m"] == pytest.approx({0: 5.0})
    assert "learning_rate" not in found


def test_a_resumed_training_goes_on_counting(tmp_path: Path) -> None:
    with StructureWriter(tmp_path) as writer:
        train(writer, 4, every=1, first_step=100)
    assert sorted(scalars(tmp_path)["monitor/loss"]) == [100, 101, 102, 103]


def test_hyperparameters_make_a_row_in_the_hparams_tab(tmp_path: Path) -> None:
    with StructureWriter(tmp_path) as writer:
        monitor = StructureMonitor(writer, {"m": nn.Linear(1, 1)})
        monitor.add_hyperparameters({"lr": 0.1, "policy": "uniform", "layers": [1, 2]}, {"accuracy": 0.75})
    found = records(tmp_path, plugin="hparams")
    assert {"_hparams_/experiment", "_hparams_/session_start_info", "_hparams_/session_end_info"} <= set(found)
    assert scalars(tmp_path)["accuracy"] == {0: 0.75}


def test_a_fault_warns_once_and_training_goes_on(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    with StructureWriter(tmp_path) as writer:
        monitor = StructureMonitor(writer, {"m": model}, every=1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                monitor.step("no number")  # type: ignore[arg-type]
    assert [str(warning.message) for warning in caught if "training goes on" in str(warning.message)] != []
    assert len([warning for warning in caught if "tb_plugin_structure" in str(warning.message)]) == 1
    assert monitor.global_step == 3


def test_histograms_hold_every_finite_value() -> None:
    made = statistics.histogram(torch.tensor([0.0, 1.0, 2.0, float("nan"), float("inf")]))
    assert made is not None
    assert (sum(made.counts), made.edges[0], made.edges[-1], made.total, made.total_of_squares) == (3, 0, 2, 3, 5)
    same = statistics.histogram(torch.full((7,), 3.0, dtype=torch.bfloat16))
    assert same is not None
    assert sum(same.counts) == 7
    assert statistics.histogram(torch.tensor([])) is None
    assert statistics.histogram(torch.empty(3, device="meta")) is None


def test_half_precision_does_not_overflow() -> None:
    assert statistics.norms([torch.full((4,), 300.0, dtype=torch.float16)]) == [600.0]


def test_modules_are_summed_up_to_a_depth() -> None:
    norms = {"a.0.weight": 3.0, "a.0.bias": 4.0, "a.1.x.weight": 12.0, "head": 1.0, "a.2.w": float("nan")}
    assert statistics.by_module(norms, 2) == {"a.0": 5.0, "a.1": 12.0, "": 1.0}
    assert statistics.by_module(norms, 1) == {"a": 13.0, "": 1.0}


def test_names_of_what_merely_wraps_a_model_do_not_count() -> None:
    blocks = nn.ModuleDict({"stem": nn.Linear(2, 2), "body": nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))})
    assert statistics.wrapping_names(blocks) == 0
    wrapped = nn.ModuleDict({"base_model": nn.ModuleDict({"dropout": nn.Dropout(), "model": blocks})})
    assert statistics.wrapping_names(wrapped) == 2
    assert statistics.wrapping_names(nn.Linear(2, 2)) == 0


def test_every_must_be_positive(tmp_path: Path) -> None:
    with StructureWriter(tmp_path) as writer, pytest.raises(ValueError, match="enabled=False"):
        StructureMonitor(writer, {}, every=0)
