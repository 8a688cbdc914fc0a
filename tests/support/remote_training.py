"""A short recorded training in a process of its own: ``python -m tests.support.remote_training LOGDIR``.

TensorBoard reads the address of the object store once, when it is imported. Prints the gradient's norm at the end.
"""

from __future__ import annotations

import sys

import torch

from tb_plugin_structure import StructureWriter


def main(logdir: str) -> None:
    torch.manual_seed(0)
    teacher, student = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    with StructureWriter(logdir) as writer:
        for step in range(3):
            with writer.record_step({"teacher": teacher, "student": student}, step=step):
                values = torch.randn(4, 3)
                (student(values) - teacher(values)).square().mean().backward()
            writer.flush()
    assert student.weight.grad is not None
    print(f"trained, gradient {student.weight.grad.norm():.6f}")


if __name__ == "__main__":
    main(sys.argv[1])
