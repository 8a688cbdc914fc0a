"""Memory that training a student beside its teacher takes, from the totals of two records."""

from __future__ import annotations

from typing import NamedTuple

from tb_plugin_structure.v1 import structure_pb2

ADAMW_STATE_BYTES = 8
"""Per trained parameter: two moments in float32."""


class TrainingMemory(NamedTuple):
    """Bytes. Activations are all values that the recorded pass made, at its batch size and sequence length: an upper
    bound on what the backward pass keeps. The teacher runs without gradient and keeps none."""

    teacher_weights: int
    student_weights: int
    student_gradients: int
    optimizer_states: int
    student_activations: int

    @property
    def total(self) -> int:
        return sum(self)

    def text(self) -> str:
        """One line for people."""
        parts = (
            ("teacher weights", self.teacher_weights),
            ("student weights", self.student_weights),
            ("gradients", self.student_gradients),
            ("AdamW states", self.optimizer_states),
            ("student activations at the recorded batch (at most)", self.student_activations),
        )
        return f"Training memory {bytes_text(self.total)}: " + ", ".join(f"{name} {bytes_text(n)}" for name, n in parts)


def training_memory(teacher: structure_pb2.Totals, student: structure_pb2.Totals) -> TrainingMemory:
    """Weights of both, and what AdamW and one backward pass add for the student; buffers count as weights."""
    share = student.trainable_parameters / student.parameters if student.parameters else 0.0
    return TrainingMemory(
        teacher.parameter_bytes + teacher.buffer_bytes,
        student.parameter_bytes + student.buffer_bytes,
        round(share * student.parameter_bytes),
        ADAMW_STATE_BYTES * student.trainable_parameters,
        student.activation_bytes,
    )


def bytes_text(count: float) -> str:
    """Decimal units: 141.1 GB, 46.8 MB."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f} B"
