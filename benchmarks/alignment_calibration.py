"""Whether a stated confidence is how often pairs are right: students cut from a teacher, with and without its weights.

A student keeps some of the teacher's blocks: those of a published policy, or random ones. Where it carries the
teacher's weights the kept blocks can be told; where it does not, the alignment can only follow its default policy, and
must say so in its confidence.
"""

from __future__ import annotations

import random

import numpy as np
import torch
from alignment_models import Encoder, ResidualNetwork, leaves

from tb_plugin_structure import align, capture
from tb_plugin_structure.analysis.alignment import policy_indices

Pair = tuple[float, bool]
"""Stated confidence, and whether the pair is right."""


def error(pairs: list[Pair], bins: int = 10) -> float:
    """Expected calibration error: the mean gap of stated confidence and share of right pairs over equal bins."""
    stated, right = (np.array(column, np.float64) for column in zip(*pairs, strict=True))
    place = np.minimum((stated * bins).astype(int), bins - 1)
    gaps = [abs(stated[place == k].sum() - right[place == k].sum()) for k in range(bins)]
    return float(sum(gaps) / len(pairs))


def cut_encoder(seed: int, *, weights: bool) -> list[Pair]:
    """A transformer of 12 layers and a student of some of them."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    teacher = Encoder(12)
    count = draw.choice((3, 4, 6, 8, 9))
    way = draw.choice(("copy", "copy", "uniform", "random"))
    kept = sorted(draw.sample(range(12), count)) if way == "random" else policy_indices(way, 12, count)
    student = Encoder(count, width=32 if weights else draw.choice((16, 32)))
    truth: dict[str, str] = {}
    for path in leaves(student):
        head, _, rest = path.partition(".")
        number, _, rest = rest.partition(".")
        truth[path] = f"layers.{kept[int(number)]}.{rest}" if head == "layers" else path
    if weights:
        old = dict(teacher.named_modules())
        for path, module in student.named_modules():
            if path in truth:
                module.load_state_dict(old[truth[path]].state_dict())
    return _judged(teacher, student, torch.randn(1, 8, 16), truth)


def cut_residual(seed: int, *, weights: bool) -> list[Pair]:
    """A residual network; the student keeps random blocks of every stage, always the first."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    depths = (4, 6, 4)
    teacher = ResidualNetwork(depths, width=8)
    keep = [[0, *sorted(draw.sample(range(1, depth), draw.randint(1, depth - 1)))] for depth in depths]
    student = ResidualNetwork(tuple(map(len, keep)), width=8 if weights else 4)
    truth: dict[str, str] = {}
    for path in leaves(student):
        if path.startswith("layer"):
            stage, number, rest = path.split(".", 2)
            truth[path] = f"{stage}.{keep[int(stage[5:]) - 1][int(number)]}.{rest}"
        else:
            truth[path] = path
    if weights:
        old = dict(teacher.named_modules())
        for path, module in student.named_modules():
            if path in truth:
                module.load_state_dict(old[truth[path]].state_dict())
    return _judged(teacher, student, torch.randn(1, 3, 32, 32), truth)


def _judged(
    teacher: torch.nn.Module, student: torch.nn.Module, inputs: torch.Tensor, truth: dict[str, str]
) -> list[Pair]:
    records = [capture(model.eval(), (inputs,), name=name) for model, name in ((teacher, "t"), (student, "s"))]
    alignment = align(teacher=records[0], student=records[1])
    return [
        (row.confidence, records[0].call_path(row.teacher) == truth[records[1].call_path(row.student)])
        for row in alignment.rows
        if row.teacher >= 0 and row.student >= 0 and records[1].call_path(row.student) in truth
    ]


def calibrate(students: int) -> None:
    """Print the reliability of stated confidences, and the error beside that of one constant for all pairs."""
    torch.set_num_threads(1)
    found = {
        name: [
            pair
            for seed in range(students)
            for cut in (cut_encoder, cut_residual)
            for pair in cut(seed, weights=weights)
        ]
        for name, weights in (("with weights", True), ("without", False))
    }
    both = [pair for pairs in found.values() for pair in pairs]
    print("\n| confidence | pairs | stated | right |\n|---|---|---|---|")
    for low in (0.5, 0.6, 0.7, 0.8, 0.9):
        inside = [pair for pair in both if low <= pair[0] < low + 0.1 or (low == 0.9 and pair[0] == 1.0)]
        if inside:
            stated, right = np.mean(inside, axis=0)
            print(f"| {low:.1f}–{low + 0.1:.1f} | {len(inside):,} | {stated:.2f} | {right:.2f} |")
    constant = float(np.mean([right for _, right in both]))
    print(
        f"\nExpected calibration error, {len(both):,} pairs; the constant is {constant:.2f}, their share of right ones"
    )
    print("\n| students | this | constant |\n|---|---|---|")
    for name, pairs in (("all", both), *found.items()):
        print(f"| {name} | {error(pairs):.3f} | {error([(constant, right) for _, right in pairs]):.3f} |")
