"""Steps that learn, and the last ones of a chain: projections, normalisation, activation, dtype and device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tb_plugin_structure.analysis.audit.steps import Shape, ShapeError, Step


@dataclass(frozen=True)
class Conv1x1(Step):
    """Learned map of channels at each position of a map with 1, 2 or 3 spatial dimensions, without bias."""

    source: int
    target: int
    spatial: int = 2
    attribute: ClassVar[str] = "project"

    @property
    def parameters(self) -> int:
        return self.source * self.target

    def line(self) -> str:
        name = {1: "Conv1d1", 2: "Conv1x1", 3: "Conv1x1x1"}[self.spatial]
        return f"{name}({self.source}->{self.target})"

    def shape(self, shape: Shape) -> Shape:
        if shape[1] != self.source:
            raise ShapeError(f"{shape} has not {self.source} channels")
        return (shape[0], self.target, *shape[2:])

    def module(self) -> str:
        return f"nn.Conv{self.spatial}d({self.source}, {self.target}, kernel_size=1, bias=False)"


@dataclass(frozen=True)
class Linear(Step):
    """Learned map of the last dimension."""

    source: int
    target: int
    bias: bool = True
    attribute: ClassVar[str] = "project"

    @property
    def parameters(self) -> int:
        return self.source * self.target + (self.target if self.bias else 0)

    def line(self) -> str:
        return f"Linear({self.source}->{self.target}{'' if self.bias else ', no bias'})"

    def shape(self, shape: Shape) -> Shape:
        if shape[-1] != self.source:
            raise ShapeError(f"{shape} has not {self.source} features")
        return (*shape[:-1], self.target)

    def module(self) -> str:
        return f"nn.Linear({self.source}, {self.target}{'' if self.bias else ', bias=False'})"


@dataclass(frozen=True)
class BatchNorm(Step):
    """Batch normalisation of the channels of a map with 1 to 3 spatial dimensions."""

    channels: int
    spatial: int = 2
    attribute: ClassVar[str] = "norm"

    @property
    def parameters(self) -> int:
        return 2 * self.channels

    def line(self) -> str:
        return f"BatchNorm{self.spatial}d({self.channels})"

    def module(self) -> str:
        return f"nn.BatchNorm{self.spatial}d({self.channels})"


@dataclass(frozen=True)
class LayerNorm(Step):
    """Layer normalisation of the last dimension."""

    features: int
    attribute: ClassVar[str] = "norm"

    @property
    def parameters(self) -> int:
        return 2 * self.features

    def line(self) -> str:
        return f"LayerNorm({self.features})"

    def module(self) -> str:
        return f"nn.LayerNorm({self.features})"


@dataclass(frozen=True)
class ReLU(Step):
    """The teacher's feature comes after a ReLU, so the student's has to be non-negative to meet it."""

    def line(self) -> str:
        return "ReLU"

    def module(self) -> str:
        return "nn.ReLU()"


@dataclass(frozen=True)
class CastTo(Step):
    """Change the dtype, e.g. 'float32'."""

    dtype: str

    def line(self) -> str:
        return f"to({self.dtype})"

    def statements(self) -> list[str]:
        return [f"x = x.to(torch.{self.dtype})"]


@dataclass(frozen=True)
class MoveTo(Step):
    """Move to a device, e.g. 'cuda:1'."""

    device: str

    def line(self) -> str:
        return f"to({self.device})"

    def statements(self) -> list[str]:
        return [f"x = x.to({self.device!r})"]
