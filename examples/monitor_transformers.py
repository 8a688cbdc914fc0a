"""transformers' Trainer with the monitor as a callback: a small BERT learns from a larger one.

    pip install transformers accelerate
    python examples/monitor_transformers.py --logdir runs/trainer
    tensorboard --logdir runs/trainer

Models are small and random and so are the data: nothing is downloaded.
"""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from tb_plugin_structure.integrations import TransformersMonitor


def bert(layers: int, width: int) -> BertForSequenceClassification:
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=100,
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=4,
            intermediate_size=2 * width,
            max_position_embeddings=32,
        )
    )


class DistillationTrainer(Trainer):
    """The student's own loss, and the distance of its logits to the teacher's."""

    def __init__(self, *args: Any, teacher: torch.nn.Module, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.teacher = teacher

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **unused: Any) -> Any:
        outputs = model(**inputs)
        with torch.no_grad():
            target = self.teacher(**inputs).logits
        loss = outputs.loss + torch.nn.functional.mse_loss(outputs.logits, target)
        return (loss, outputs) if return_outputs else loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logdir", default="runs/trainer")
    parser.add_argument("--examples", type=int, default=256)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    teacher, student = bert(4, 64).eval(), bert(2, 32)
    data = [
        {"input_ids": torch.randint(0, 100, (16,)), "labels": torch.tensor(number % 2)}
        for number in range(arguments.examples)
    ]
    monitor = TransformersMonitor(arguments.logdir, models={"teacher": teacher}, name="student", every=4)
    with tempfile.TemporaryDirectory() as output:
        trainer = DistillationTrainer(
            model=student,
            teacher=teacher,
            args=TrainingArguments(
                output_dir=output,
                per_device_train_batch_size=8,
                num_train_epochs=1,
                logging_steps=4,
                report_to=[],
                save_strategy="no",
                use_cpu=True,
            ),
            train_dataset=data,
            callbacks=[monitor],
        )
        trainer.train()


if __name__ == "__main__":
    main()
