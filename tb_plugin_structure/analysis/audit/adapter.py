"""Adapters as descriptions: what a student's feature needs before it can be compared with the teacher's.

An adapter is a chain of steps in a fixed order: select element, drop tokens, rank and layout, spatial size, channels,
norm and activation, dtype and device. Nothing here imports torch;
:mod:`tb_plugin_structure.distill` builds the modules.

>>> from tb_plugin_structure.analysis.audit.projections import Conv1x1
>>> chain = Adapter((Conv1x1(64, 256),))
>>> chain.line(), chain.parameters
('Conv1x1(64->256)', 16384)
>>> print(chain.code())
nn.Conv2d(64, 256, kernel_size=1, bias=False)
"""

from __future__ import annotations

from dataclasses import dataclass

from tb_plugin_structure.analysis.audit.steps import Shape, Step


@dataclass(frozen=True)
class Adapter:
    """A chain of steps; the empty chain says that none is needed."""

    steps: tuple[Step, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.steps)

    @property
    def parameters(self) -> int:
        return sum(step.parameters for step in self.steps)

    def line(self) -> str:
        """The chain in one line, "" when nothing is needed."""
        return " → ".join(step.line() for step in self.steps)

    def shape(self, shape: Shape) -> Shape:
        """The shape that comes out. Raises :class:`ShapeError` when a step does not fit."""
        for step in self.steps:
            shape = step.shape(shape)
        return shape

    def code(self) -> str:
        """PyTorch code that can be copied: an expression of ``nn`` modules, or a class where tensors are rearranged.

        It needs ``import torch``, ``from torch import nn`` and ``from torch.nn import functional as F``.
        """
        if not self.steps:
            return ""
        modules = [step.module() for step in self.steps]
        if all(modules):
            if len(modules) == 1:
                return modules[0]
            return "nn.Sequential(\n" + "".join(f"    {module},\n" for module in modules) + ")"
        constructors: list[str] = []
        body: list[str] = []
        for step in self.steps:
            module = step.module()
            if module:
                name = step.attribute or type(step).__name__.lower()
                constructors.append(f"        self.{name} = {module}")
                body.append(f"x = self.{name}(x)")
            else:
                body.extend(step.statements())
        lines = ["class Adapter(nn.Module):"]
        if constructors:
            lines += ["    def __init__(self):", "        super().__init__()", *constructors, ""]
        lines += ["    def forward(self, x):", *(f"        {statement}" for statement in body), "        return x"]
        return "\n".join(lines)
