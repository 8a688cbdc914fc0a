"""Teach a vision transformer the features of a convolutional network, with the adapters that the audit found.

    python examples/distill_with_plan.py

Real data (scikit-learn's 1,797 digits of 8x8 pixels), about a minute on two cores. The teacher is a small CNN, the
student a ViT: their features differ in rank, tokens, resolution and width. The audit says what has to be done at each
pair; ``DistillationPlan`` ties it into the training loop. The student is trained twice from the same start, without
and with hints (FitNets, Romero et al., 2014), and both accuracies are printed, whatever they are.
"""

from __future__ import annotations

import argparse
import copy

import torch
import torch.nn.functional as F
from models.vit import VisionTransformer
from sklearn.datasets import load_digits
from torch import Tensor, nn

from tb_plugin_structure import DistillationPlan, align, audit, capture

PAIRS = {"blocks.0": "stage1", "blocks.1": "stage2", "blocks.2": "stage3"}
"""Student block -> the teacher's stage that it learns from."""

FEW_LABELS = 300
"""Training images that carry a label: with few of them there is something to gain from a teacher."""


class ConvNet(nn.Module):
    """Three stages at 8x8, 4x4 and 2x2 pixels: [N, 1, 8, 8] -> [N, 10]."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.stage1 = self._stage(1, width, stride=1)
        self.stage2 = self._stage(width, 2 * width, stride=2)
        self.stage3 = self._stage(2 * width, 4 * width, stride=2)
        self.head = nn.Linear(4 * width, 10)

    @staticmethod
    def _stage(channels_in: int, channels: int, stride: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
        )  # fmt: skip

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.stage3(self.stage2(self.stage1(images))).mean((2, 3)))


def load() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images and labels to train on (1,437) and to test on (360), pixels scaled to 0..1."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
    images = torch.from_numpy(digits.images).float().unsqueeze(1)[order] / 16
    labels = torch.from_numpy(digits.target).long()[order]
    return images[:1437], labels[:1437], images[1437:], labels[1437:]


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    return (model.eval()(images).argmax(1) == labels).float().mean().item()


def train(model: nn.Module, images: Tensor, labels: Tensor, steps: int, plan: DistillationPlan | None = None) -> None:
    """Train on random batches of 64. With a plan, each step also learns from the teacher's features, on images whose
    labels are not looked at."""
    torch.manual_seed(1)
    adapters = list(plan.parameters()) if plan is not None else []
    optimizer = torch.optim.AdamW([*model.parameters(), *adapters], lr=2e-3)
    model.train()
    for _ in range(steps):
        chosen = torch.randint(FEW_LABELS if isinstance(model, VisionTransformer) else len(labels), (64,))
        loss = F.cross_entropy(model(images[chosen]), labels[chosen])
        if plan is not None:
            with plan:
                plan.run(images[torch.randint(len(images), (64,))])
                loss = loss + plan.feature_loss()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400, help="training steps of each model")
    steps = parser.parse_args().steps
    images, labels, test_images, test_labels = load()

    torch.manual_seed(0)
    teacher, student = ConvNet(), VisionTransformer(width=24, depth=3, heads=3)
    train(teacher, images, labels, steps)
    print(f"teacher: {accuracy(teacher, test_images, test_labels):.1%} of the test images\n")
    teacher.requires_grad_(False)

    # What differs between the two, and what to do about it.
    example = images[:2]
    alignment = align(teacher=capture(teacher, (example,)), student=capture(student, (example,)), pins=PAIRS)
    report = audit(alignment)
    for row in report.selected(paths=list(PAIRS)):
        print(f"{row.student_path} -> {row.teacher_path}: {row.comparison.adapter.line()}")

    alone, guided = student, copy.deepcopy(student)
    train(alone, images, labels, steps)
    plan = DistillationPlan(report, teacher, guided, paths=list(PAIRS))
    train(guided, images, labels, steps, plan)
    print(f"\nstudent, {FEW_LABELS} labels, without hints: {accuracy(alone, test_images, test_labels):.1%}")
    print(f"student, {FEW_LABELS} labels, with hints:    {accuracy(guided, test_images, test_labels):.1%}")


if __name__ == "__main__":
    main()
