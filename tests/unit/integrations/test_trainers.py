"""The callbacks in the trainers they are for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.support.read_summaries import records, scalars


def test_in_transformers_trainer(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    from tb_plugin_structure.integrations import TransformersMonitor

    def bert(layers: int) -> BertForSequenceClassification:
        return BertForSequenceClassification(
            BertConfig(
                vocab_size=50,
                hidden_size=16,
                num_hidden_layers=layers,
                num_attention_heads=2,
                intermediate_size=32,
                max_position_embeddings=16,
            )
        )

    class Distilling(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **unused):  # type: ignore[no-untyped-def]
            outputs = model(**inputs)
            with torch.no_grad():
                target = teacher(**inputs).logits
            loss = outputs.loss + (outputs.logits - target).square().mean()
            return (loss, outputs) if return_outputs else loss

    torch.manual_seed(0)
    teacher, student = bert(2).eval(), bert(1)
    data = [{"input_ids": torch.randint(0, 50, (8,)), "labels": torch.tensor(k % 2)} for k in range(24)]
    monitor = TransformersMonitor(
        tmp_path / "runs", models={"teacher": teacher}, name="student", every=2, record_every=4
    )
    trainer = Distilling(
        model=student,
        args=TrainingArguments(
            output_dir=str(tmp_path / "out"),
            per_device_train_batch_size=2,
            gradient_accumulation_steps=2,
            num_train_epochs=1,
            logging_steps=3,
            report_to=[],
            use_cpu=True,
            save_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=data,
        callbacks=[monitor],
    )
    trainer.train()
    found = scalars(tmp_path / "runs")
    assert sorted(found["gradient_norm/student"]) == [0, 2, 4]
    assert sorted(found["update_ratio/student"]) == [0, 2, 4]
    assert sorted(found["monitor/loss"]) == [3, 6]
    assert "learning_rate" in found
    recorded = records(tmp_path / "runs")
    assert recorded["measurement/student"] == [0, 4]
    assert {"structure/teacher", "structure/student", "overview/teacher", "overview/student"} <= set(recorded)


def test_in_lightning(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch")
    from tb_plugin_structure.integrations import LightningMonitor

    class Distillation(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.teacher = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)).requires_grad_(False)
            self.student = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))

        def training_step(self, batch, index):  # type: ignore[no-untyped-def]
            return (self.student(batch[0]) - self.teacher(batch[0])).square().mean()

        def configure_optimizers(self):  # type: ignore[no-untyped-def]
            return torch.optim.SGD(self.student.parameters(), lr=0.1)

    data = torch.utils.data.TensorDataset(torch.randn(12, 3))
    monitor = LightningMonitor(tmp_path / "runs", {"teacher": "teacher", "student": "student"}, every=2, record_every=4)
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[monitor],
    )
    trainer.fit(Distillation(), torch.utils.data.DataLoader(data, batch_size=2))
    found = scalars(tmp_path / "runs")
    assert sorted(found["gradient_norm/student"]) == [0, 2, 4]
    assert sorted(found["update_ratio/student"]) == [0, 2, 4]
    assert sorted(found["monitor/loss"]) == [0, 2, 4]
    assert found["learning_rate"] == pytest.approx({0: 0.1, 2: 0.1, 4: 0.1})
    recorded = records(tmp_path / "runs")
    assert recorded["structure/teacher"] == recorded["structure/student"] == [0]
    assert recorded["measurement/student"] == [0, 4]
