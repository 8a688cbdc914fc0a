"""Memory that training a student beside its teacher takes, from the totals of two records."""

from __future__ import annotations

from typing import NamedTuple

from tb_plugin_structure.v1 import structure_pb2

ADAMW_STATE_BYTES = 8
"""Per trained parameter: two moments in float32."""


class TrainingMemory(NamedTuple):
    """Bytes. The student's activations are what autograd kept for the backward pass where the record measured it; else
    all that the recorded pass made, an upper bound. The teacher runs without gradient: it holds its peak for a moment,
    counted where the record measured it. Both at the recorded batch size and sequence length."""

    teacher_weights: int
    student_weights: int
    student_gradients: int
    optimizer_states: int
    student_activations: int
    teacher_peak: int = 0
    activations_measured: bool = False

    @property
    def total(self) -> int:
        """The sum in bytes."""
        return sum(self[:6])

    def parts(self) -> list[tuple[str, int]]:
        """(name, bytes) of each part that is known."""
        activations = "student activations" if self.activations_measured else "student activations (at most)"
        named = [
            ("teacher weights", self.teacher_weights),
            ("student weights", self.student_weights),
            ("gradients", self.student_gradients),
            ("AdamW states", self.optimizer_states),
            (activations, self.student_activations),
        ]
        return [*named, ("teacher's pass", self.teacher_peak)] if self.teacher_peak else named

    def text(self) -> str:
        """One line for people."""
        parts = ", ".join(f"{name} {bytes_text(count)}" for name, count in self.parts())
        return f"Training memory at the recorded batch {bytes_text(self.total)}: {parts}"


_MOST_BYTES = 1 << 60
"""Totals of a damaged record can be larger; the sum of all must fit a message."""


def training_memory(teacher: structure_pb2.Totals, student: structure_pb2.Totals) -> TrainingMemory:
    """Weights of both, and what AdamW and one backward pass add for the student; buffers count as weights."""
    share = student.trainable_parameters / student.parameters if student.parameters else 0.0
    return TrainingMemory(
        min(teacher.parameter_bytes + teacher.buffer_bytes, _MOST_BYTES),
        min(student.parameter_bytes + student.buffer_bytes, _MOST_BYTES),
        min(round(share * student.parameter_bytes), _MOST_BYTES),
        min(ADAMW_STATE_BYTES * student.trainable_parameters, _MOST_BYTES),
        min(student.saved_bytes or student.activation_bytes, _MOST_BYTES),
        min(teacher.peak_bytes, _MOST_BYTES),
        bool(student.saved_bytes),
    )


def bytes_text(count: float) -> str:
    """Decimal units: 141.1 GB, 46.8 MB."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f} B"
