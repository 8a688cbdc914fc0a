"""A plan for feature distillation: which features meet, through which adapters, under which loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tb_plugin_structure.analysis.audit.report import AuditReport, Hook
from tb_plugin_structure.distill.adapters import adapter_key
from tb_plugin_structure.distill.features import FeatureRecorder, Point, unwrapped

FeatureLoss = Callable[[Tensor, Tensor], Tensor]


class DistillationPlan(nn.Module):
    """Hooks, adapters and a feature loss in one module.

    >>> plan = DistillationPlan(report, teacher, student)
    >>> optimizer = torch.optim.AdamW([*student.parameters(), *plan.parameters()])
    >>> for images, labels in loader:
    ...     with plan:
    ...         logits = plan.run(images)            # teacher without gradient, then student
    ...         loss = F.cross_entropy(logits, labels) + plan.feature_loss()
    ...     optimizer.zero_grad()
    ...     loss.backward()
    ...     optimizer.step()

    The teacher is frozen and put into evaluation mode when the plan is made, and again when the context is entered (a
    parent module's ``train()`` would switch it back). The plan's parameters are its adapters'; the teacher and the
    student are not its submodules, so neither appears in ``plan.parameters()`` or in its state. Adapters are thrown
    away after training.

    Args:
        report: What ``audit`` returned.
        teacher: The teacher, on its device.
        student: The student, on its device.
        level: Which pairs: "main" (default: the ends of a CNN's stages, the blocks of a transformer), "stage",
            "block", "leaf", several of them, or None for all.
        paths: Student paths; replaces `level`.
        loss: Loss of one pair, called with (adapted student feature, teacher feature); mean squared error by default.
        weights: Student path -> weight; 1 where it says nothing.
        freeze_teacher: False leaves the teacher's mode and ``requires_grad`` alone (some methods want its batch norm
            in training mode).

    Raises:
        ValueError: When no pair is left, with what the audit said about them.
    """

    def __init__(
        self,
        report: AuditReport,
        teacher: nn.Module,
        student: nn.Module,
        *,
        level: str | Sequence[str] | None = "main",
        paths: Sequence[str] | None = None,
        loss: FeatureLoss = F.mse_loss,
        weights: dict[str, float] | None = None,
        freeze_teacher: bool = True,
    ) -> None:
        super().__init__()
        level = None if paths is not None else level
        self.pairs: list[Hook] = [hook for hook in report.hooks(level, paths) if hook.student_path or paths is not None]
        if not self.pairs:
            raise ValueError(
                f"no pair of features is left at level {level!r}: {report.summary()} Pin what should be compared "
                "(align(..., pins={student path: teacher path})), or distil the logits alone, without a plan"
            )
        unknown = set(weights or {}) - {pair.student_path for pair in self.pairs}
        if unknown:
            raise ValueError(f"weights for {', '.join(sorted(unknown))}, which no pair of the plan has")
        self.loss, self.weights = loss, dict(weights or {})
        reference = next(student.parameters(), None)
        device = reference.device if reference is not None else torch.device("cpu")
        self.adapters = report.adapters(level, [pair.student_path for pair in self.pairs]).to(device)
        # A list hides them from nn.Module: they are observed, not owned.
        self._models = [teacher, student]
        self._freeze = freeze_teacher
        self._freeze_teacher()
        self._teacher_features = FeatureRecorder(teacher, map(_teacher_point, self.pairs), detach=True)
        self._student_features = FeatureRecorder(student, map(_student_point, self.pairs))
        self._stack = ExitStack()

    @property
    def teacher(self) -> nn.Module:
        return self._models[0]

    @property
    def student(self) -> nn.Module:
        return self._models[1]

    def _freeze_teacher(self) -> None:
        if self._freeze:
            unwrapped(self.teacher).eval().requires_grad_(False)

    def __enter__(self) -> DistillationPlan:
        self._freeze_teacher()
        self._stack.enter_context(self._teacher_features)
        self._stack.enter_context(self._student_features)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run the teacher without gradient, then the student; returns the student's output. Both get the same inputs:
        call the two models yourself where they differ."""
        with torch.no_grad():
            self.teacher(*args, **kwargs)
        return self.student(*args, **kwargs)

    def features(self) -> Iterator[tuple[Hook, Tensor, Tensor]]:
        """(pair, adapted student feature, teacher feature) of the last forward passes; the teacher's is detached.

        Raises:
            LookupError: When a module did not run.
            ValueError: When shapes do not meet, with both shapes.
        """
        for pair in self.pairs:
            theirs = self._teacher_features[_teacher_point(pair)]
            mine = self._student_features[_student_point(pair)]
            key = adapter_key(pair.student_path, pair.student_call)
            if key in self.adapters:
                mine = self.adapters[key](mine)
            if mine.shape != theirs.shape:
                raise ValueError(
                    f"{pair.student_path!r} gives {tuple(mine.shape)} after its adapter, {pair.teacher_path!r} gives "
                    f"{tuple(theirs.shape)}; the audit saw other shapes: record both models on this input and audit "
                    "again"
                )
            yield pair, mine, theirs

    def feature_loss(self) -> Tensor:
        """Mean over pairs of weight × loss(adapted student feature, teacher feature); a scalar."""
        losses = [self.weights.get(pair.student_path, 1.0) * self.loss(s, t) for pair, s, t in self.features()]
        return torch.stack(losses).mean()

    def extra_repr(self) -> str:
        return "\n".join(f"{pair.student_path or '(model)'} -> {pair.teacher_path or '(model)'}" for pair in self.pairs)


def _teacher_point(pair: Hook) -> Point:
    return Point(pair.teacher_path, pair.teacher_element, pair.teacher_call)


def _student_point(pair: Hook) -> Point:
    return Point(pair.student_path, pair.student_element, pair.student_call)
