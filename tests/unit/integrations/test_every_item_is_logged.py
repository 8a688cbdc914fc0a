"""Whatever the monitor promises is in the event file: in a loop of one's own and in both real trainers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tb_plugin_structure import StructureMonitor, StructureWriter
from tb_plugin_structure.cli.event_files import EventFiles
from tb_plugin_structure.records.structure import Structure
from tests.support.read_summaries import histograms, measurements_in, pictures_in, records, scalars

STEPS = 5
EVERY = {"every": 2, "record_every": 4, "histograms_every": 4, "pictures_every": 4}


class Net(nn.Module):
    """A little of everything: convolutions on colour images, batch norms, attention, a head."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.body = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.head = nn.Linear(width, 2)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        tokens = self.body(self.stem(pixels)).flatten(2).mT
        return self.head(self.attention(tokens, tokens, tokens)[0].mean(1))


def models() -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    return Net(8).eval().requires_grad_(False), Net(4)


def in_a_loop(folder: Path, **options: Any) -> None:
    teacher, student = models()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    with StructureWriter(folder) as writer:
        monitor = StructureMonitor(
            writer, {"teacher": teacher, "student": student}, optimizer=optimizer, **{**EVERY, **options}
        )
        loss = torch.tensor(0.0)
        for _ in range(STEPS):
            pixels = torch.rand(4, 3, 8, 8)
            with monitor.observe():
                loss = (student(pixels) - teacher(pixels)).square().mean()
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            monitor.step(loss)
        monitor.add_hyperparameters({"lr": 0.1}, {"final_loss": loss.item()})


def in_lightning(folder: Path, **options: Any) -> None:
    lightning = pytest.importorskip("lightning.pytorch")
    from tb_plugin_structure.integrations import LightningMonitor

    class Distillation(lightning.LightningModule):
        def __init__(self, lr: float) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.teacher, self.student = models()

        def training_step(self, batch, index):  # type: ignore[no-untyped-def]
            loss = (self.student(batch[0]) - self.teacher(batch[0])).square().mean()
            self.log("train_loss", loss)
            return loss

        def configure_optimizers(self):  # type: ignore[no-untyped-def]
            return torch.optim.SGD(self.student.parameters(), lr=self.hparams["lr"])

    data = torch.utils.data.TensorDataset(torch.rand(4 * STEPS, 3, 8, 8))
    named = {"teacher": "teacher", "student": "student"}
    lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[LightningMonitor(folder, named, **{**EVERY, **options})],
    ).fit(Distillation(0.1), torch.utils.data.DataLoader(data, batch_size=4))


def in_transformers(folder: Path, **options: Any) -> None:
    pytest.importorskip("accelerate")
    from transformers import Trainer, TrainingArguments

    from tb_plugin_structure.integrations import TransformersMonitor

    teacher, student = models()

    class Distilling(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **unused):  # type: ignore[no-untyped-def]
            outputs = model(inputs["pixels"])
            loss = (outputs - teacher(inputs["pixels"])).square().mean()
            return (loss, outputs) if return_outputs else loss

    Distilling(
        model=student,
        args=TrainingArguments(
            output_dir=str(folder.parent / "out"),
            per_device_train_batch_size=4,
            num_train_epochs=1,
            learning_rate=0.1,
            logging_steps=2,
            report_to=[],
            use_cpu=True,
            save_strategy="no",
            disable_tqdm=True,
            remove_unused_columns=False,
        ),
        train_dataset=[{"pixels": torch.rand(3, 8, 8)} for _ in range(4 * STEPS)],
        callbacks=[TransformersMonitor(folder, models={"teacher": teacher}, name="student", **{**EVERY, **options})],
    ).train()


def structures_in(folder: Path) -> list[Structure]:
    return [structure for key, structure in EventFiles.read(folder).structures() if key.tag.startswith("structure/")]


LOOPS = pytest.mark.parametrize("train", [in_a_loop, in_lightning, in_transformers])


@LOOPS
@pytest.mark.filterwarnings("ignore")
def test_each_item_is_in_the_event_file(tmp_path: Path, train: Callable[..., None]) -> None:
    folder = tmp_path / "run"
    train(folder)
    found = scalars(folder)
    for tag in (
        *("monitor/loss", "learning_rate", "memory/process_bytes"),
        *("gradient_norm/student", "gradient_norm/student/stem.0", "gradient_norm/student/head"),
        *("update_ratio/student", "update_ratio/student/attention"),
        *("weight_std/student/body.weight", "weight_std/student/head.weight"),
        "batch_norm/student/stem.1/running_mean",
        "batch_norm/student/stem.1/running_variance",
    ):
        assert {2, 4} <= set(found.get(tag, {})), tag
    assert found["learning_rate"][0] == pytest.approx(0.1)
    assert found["memory/process_bytes"][2] > 1 << 20
    distributions = histograms(folder)
    for kind in ("weights", "gradients"):
        for path in ("stem.0.weight", "stem.1.bias", "attention.in_proj_weight", "head.bias"):
            assert distributions[f"{kind}/student/{path}"] == [0, 4], (kind, path)
    shown = pictures_in(folder)
    for tag in (
        *("inputs/teacher", "inputs/student", "kernels/teacher/stem.0", "kernels/student/body"),
        *("feature_maps/student/body/maximum", "feature_maps/student/body/channels"),
    ):
        assert sorted(shown.get(tag, {})) == [0, 4], tag
    assert "_hparams_/session_start_info" in records(folder, plugin="hparams")
    assert all(structure.kernels.rows > 10 for structure in structures_in(folder))
    recorded = records(folder)
    assert recorded["structure/teacher"] == recorded["structure/student"] == [0]  # they did not change
    assert recorded["measurement/student"] == [0, 4]
    assert recorded["measurement/student//monitor"] == recorded["measurement/teacher//monitor"] == [0, 2, 4]
    assert {"overview/teacher", "overview/student"} <= set(recorded)
    measured = measurements_in(folder)
    flow = measured["measurement/student"][0][1]
    assert set(flow.quantity("gradient_reached", 1).values()) == {1.0}
    assert "output_gradient_norm" in flow.table
    steps = dict(measured["measurement/student//monitor"])
    for quantity in (
        *("gradient_norm", "weight_norm", "weight_std", "update_ratio", "running_mean", "running_variance"),
        *("activation_mean", "activation_std", "zero_fraction", "dead_fraction", "output_bytes"),
        *("forward_ns", "trained", "mode", "dtype"),
    ):
        assert steps[2].quantity(quantity), quantity  # step 2 is no recorded one: times are the step's own
    for quantity in ("gradient_norm", "weight_norm", "weight_std", "update_ratio", "requires_grad", "dtype"):
        assert "head.weight" in steps[2].quantity(quantity, subject=1), quantity


@LOOPS
@pytest.mark.filterwarnings("ignore")
def test_one_switch_turns_all_of_it_off(tmp_path: Path, train: Callable[..., None]) -> None:
    folder = tmp_path / "run"
    train(folder, enabled=False)
    assert not list(folder.rglob("*tfevents*"))
