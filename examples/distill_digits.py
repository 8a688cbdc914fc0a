"""Distil a small vision transformer on scikit-learn's digits, and watch it in TensorBoard.

    python examples/distill_digits.py --logdir runs/digits
    tensorboard --logdir runs/digits

Real data (1,797 handwritten digits of 8x8 pixels, which come with scikit-learn), about a minute on two cores. A
teacher of six blocks is trained first. Then a student of three narrower blocks learns from the labels, from the
teacher's softened predictions (Hinton et al., 2015) and from the output of every second of its blocks (FitNets,
Romero et al., 2014). Every few steps the training step itself is recorded: both structures, attention, gradients.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from models.vit import VisionTransformer
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

from tb_plugin_structure import StructureWriter

TEACHER_BLOCKS = (1, 3, 5)
"""The teacher's blocks that the student's three blocks learn from: the last of each pair."""

TEMPERATURE = 4.0
TEACHER_STEPS, STUDENT_STEPS, RECORD_EVERY = 400, 480, 40


class Digits:
    """The images, scaled to 0..1, split into 1,437 to train on and 360 to test on."""

    def __init__(self) -> None:
        digits = load_digits()
        order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
        images = torch.from_numpy(digits.images).float().unsqueeze(1)[order] / 16
        labels = torch.from_numpy(digits.target).long()[order]
        self.train_images, self.test_images = images[:1437], images[1437:]
        self.train_labels, self.test_labels = labels[:1437], labels[1437:]

    def batches(self, steps: int, size: int = 64) -> Iterator[tuple[Tensor, Tensor]]:
        """`steps` batches, drawn at random: images [size, 1, 8, 8] and labels [size]."""
        for _ in range(steps):
            chosen = torch.randint(len(self.train_labels), (size,))
            yield self.train_images[chosen], self.train_labels[chosen]

    @torch.no_grad()
    def accuracy(self, model: nn.Module) -> float:
        """Share of test images that `model` names correctly."""
        model.eval()
        correct = model(self.test_images).argmax(1) == self.test_labels
        return correct.float().mean().item()


class BlockOutputs:
    """Keeps what chosen blocks return in the latest forward pass, [N, tokens, width] each."""

    def __init__(self, blocks: list[nn.Module]) -> None:
        self.tensors: list[Tensor] = [torch.empty(0)] * len(blocks)
        for position, block in enumerate(blocks):
            block.register_forward_hook(self._keep_at(position))

    def _keep_at(self, position: int):
        def keep(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            self.tensors[position] = output

        return keep


def train_teacher(teacher: nn.Module, digits: Digits, scalars: SummaryWriter) -> None:
    """Ordinary supervised training."""
    optimizer = torch.optim.AdamW(teacher.parameters(), lr=1e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=TEACHER_STEPS)
    progress = tqdm(digits.batches(TEACHER_STEPS), total=TEACHER_STEPS, desc="teacher")
    for step, (images, labels) in enumerate(progress):
        teacher.train()
        loss = F.cross_entropy(teacher(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 25 == 0 or step == TEACHER_STEPS - 1:
            accuracy = digits.accuracy(teacher)
            scalars.add_scalar("teacher/loss", loss.item(), step)
            scalars.add_scalar("teacher/test_accuracy", accuracy, step)
            progress.set_postfix(loss=f"{loss.item():.3f}", accuracy=f"{accuracy:.3f}")


def distill(teacher: VisionTransformer, student: VisionTransformer, digits: Digits, scalars: SummaryWriter) -> None:
    """Train `student`; `teacher` stays as it is."""
    teacher.eval().requires_grad_(False)
    teacher_outputs = BlockOutputs([teacher.blocks[number] for number in TEACHER_BLOCKS])
    student_outputs = BlockOutputs(list(student.blocks))
    # The student is narrower, so each of its blocks needs an adapter to the teacher's width.
    adapters = nn.ModuleList(nn.Linear(student.head.in_features, teacher.head.in_features) for _ in student.blocks)
    optimizer = torch.optim.AdamW([*student.parameters(), *adapters.parameters()], lr=1e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=STUDENT_STEPS)

    models = {"teacher": teacher, "student": student}
    tokens = {
        name: ["class", *(f"row {row} column {column}" for row in range(4) for column in range(4))] for name in models
    }
    writer = StructureWriter(scalars)
    # What is meant to learn from what: the last block of each pair of the teacher's, which is the policy "uniform".
    writer.add_plan("teacher", "student", policy="uniform")
    progress = tqdm(digits.batches(STUDENT_STEPS), total=STUDENT_STEPS, desc="student")
    for step, (images, labels) in enumerate(progress):
        student.train()
        if step % RECORD_EVERY == 0:
            # Attention is recorded for the batch's first example: always the same digit, to compare it over steps.
            images[0], labels[0] = digits.train_images[0], digits.train_labels[0]
        with writer.record_step(models, step=step, optimizer=optimizer, every=RECORD_EVERY, tokens=tokens):
            with torch.no_grad():
                teacher_logits = teacher(images)
            student_logits = student(images)
            label_loss = F.cross_entropy(student_logits, labels)
            soft_loss = TEMPERATURE**2 * F.kl_div(
                F.log_softmax(student_logits / TEMPERATURE, dim=-1),
                F.log_softmax(teacher_logits / TEMPERATURE, dim=-1),
                reduction="batchmean",
                log_target=True,
            )
            block_loss = torch.stack(
                [
                    F.mse_loss(adapter(ours), theirs)
                    for adapter, ours, theirs in zip(
                        adapters, student_outputs.tensors, teacher_outputs.tensors, strict=True
                    )
                ]
            ).sum()
            loss = label_loss + soft_loss + 0.1 * block_loss
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
        schedule.step()
        if step % 25 == 0 or step == STUDENT_STEPS - 1:
            accuracy = digits.accuracy(student)
            scalars.add_scalar("student/loss/labels", label_loss.item(), step)
            scalars.add_scalar("student/loss/soft_targets", soft_loss.item(), step)
            scalars.add_scalar("student/loss/blocks", block_loss.item(), step)
            scalars.add_scalar("student/test_accuracy", accuracy, step)
            progress.set_postfix(loss=f"{loss.item():.3f}", accuracy=f"{accuracy:.3f}")
    writer.flush()


def run(logdir: Path) -> None:
    """Train both models and write everything into `logdir`."""
    torch.manual_seed(0)
    # Models this small gain nothing from a second thread, and lose much where other programs want the cores as well.
    torch.set_num_threads(1)
    digits = Digits()
    teacher = VisionTransformer(width=64, depth=6, heads=4)
    student = VisionTransformer(width=32, depth=3, heads=4)
    with SummaryWriter(str(logdir)) as scalars:
        train_teacher(teacher, digits, scalars)
        distill(teacher, student, digits, scalars)
    print(f"test accuracy: teacher {digits.accuracy(teacher):.3f}, student {digits.accuracy(student):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logdir", type=Path, default=Path("runs/digits"), help="where the event file goes")
    run(parser.parse_args().logdir)


if __name__ == "__main__":
    main()
