"""Steps that rearrange a feature without learning anything: elements, tokens, layout, resolution, heads.

Each step knows its one-line text, the shape it gives and the PyTorch code that does it; none imports torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

Shape = tuple[int, ...]


class ShapeError(ValueError):
    """A step does not fit the shape it was given."""


@dataclass(frozen=True)
class Step(ABC):
    """One step of a chain. ``module`` is the constructor of a torch.nn module when the step is one, else empty and
    ``statements`` transform a variable ``x``; a statement may use ``self.<attribute>`` when there is a module too."""

    attribute: ClassVar[str] = ""

    @property
    def parameters(self) -> int:
        """Trainable elements."""
        return 0

    @abstractmethod
    def line(self) -> str:
        """The step in one line."""

    def shape(self, shape: Shape) -> Shape:
        """The shape that the step makes of `shape`; the batch dimension is carried along."""
        return shape

    def module(self) -> str:
        """Constructor expression of the torch.nn module that is this step; empty when it is not one module."""
        return ""

    def statements(self) -> list[str]:
        """Statements on ``x`` for a step that is not a module."""
        return []


@dataclass(frozen=True)
class SelectElement(Step):
    """Take one tensor out of a tuple, list, mapping or dataclass; a tensor passes unchanged."""

    element: str

    def line(self) -> str:
        return f"select[{self.element}]"

    def statements(self) -> list[str]:
        keys = "".join(f"[{key}]" if key.isdigit() else f"[{key!r}]" for key in self.element.split("."))
        return [f"x = x if isinstance(x, torch.Tensor) else x{keys}"]


@dataclass(frozen=True)
class DropTokens(Step):
    """Remove `count` tokens from position `start` along each of `dimensions`."""

    count: int
    start: int = 0
    dimensions: tuple[int, ...] = (1,)

    def line(self) -> str:
        return f"DropTokens({self.count})" if self.start == 0 else f"DropTokens({self.count} from {self.start})"

    def shape(self, shape: Shape) -> Shape:
        if any(shape[dimension] <= self.start + self.count - 1 for dimension in self.dimensions):
            raise ShapeError(f"{shape} has no {self.start + self.count} tokens")
        return tuple(size - self.count if axis in self.dimensions else size for axis, size in enumerate(shape))

    def statements(self) -> list[str]:
        if self.start == 0:
            last = max(self.dimensions)
            index = ", ".join(f"{self.count}:" if axis in self.dimensions else ":" for axis in range(last + 1))
            return [f"x = x[{index}]"]
        end = self.start + self.count
        return [
            f"x = torch.cat((x.narrow({axis}, 0, {self.start}), x.narrow({axis}, {end}, x.shape[{axis}] - {end})), "
            f"dim={axis})"
            for axis in self.dimensions
        ]


@dataclass(frozen=True)
class SelectToken(Step):
    """Keep the token at one position: [batch, tokens, hidden] to [batch, hidden]."""

    position: int = 0

    def line(self) -> str:
        return f"token[{self.position}]"

    def shape(self, shape: Shape) -> Shape:
        return (shape[0], *shape[2:])

    def statements(self) -> list[str]:
        return [f"x = x[:, {self.position}]"]


@dataclass(frozen=True)
class MeanTokens(Step):
    """Average over the tokens: [batch, tokens, hidden] to [batch, hidden]."""

    def line(self) -> str:
        return "mean over tokens"

    def shape(self, shape: Shape) -> Shape:
        return (shape[0], *shape[2:])

    def statements(self) -> list[str]:
        return ["x = x.mean(dim=1)"]


@dataclass(frozen=True)
class PrependMean(Step):
    """Put `count` copies of the mean token in front of the tokens from position `start` on: special tokens of the
    teacher that the student has not."""

    count: int
    start: int = 0

    def line(self) -> str:
        return f"PrependMean({self.count})" if self.start == 0 else f"InsertMean({self.count} at {self.start})"

    def shape(self, shape: Shape) -> Shape:
        if shape[1] <= self.start:
            raise ShapeError(f"{shape} has no tokens behind the first {self.start}")
        return (shape[0], shape[1] + self.count, *shape[2:])

    def statements(self) -> list[str]:
        if self.start == 0:
            return [f"x = torch.cat((x.mean(dim=1, keepdim=True).expand(-1, {self.count}, -1), x), dim=1)"]
        return [
            f"mean = x[:, {self.start}:].mean(dim=1, keepdim=True).expand(-1, {self.count}, -1)",
            f"x = torch.cat((x[:, :{self.start}], mean, x[:, {self.start}:]), dim=1)",
        ]


@dataclass(frozen=True)
class Permute(Step):
    """Reorder the dimensions; `meaning` says from which layout to which."""

    order: tuple[int, ...]
    meaning: str

    def line(self) -> str:
        return f"permute({self.meaning})"

    def shape(self, shape: Shape) -> Shape:
        if len(shape) != len(self.order):
            raise ShapeError(f"permute {self.order} of {shape}")
        return tuple(shape[axis] for axis in self.order)

    def statements(self) -> list[str]:
        return [f"x = x.permute({', '.join(map(str, self.order))})"]


@dataclass(frozen=True)
class MapToTokens(Step):
    """[batch, channels, height, width] to [batch, height * width, channels]."""

    def line(self) -> str:
        return "map to tokens"

    def shape(self, shape: Shape) -> Shape:
        batch, channels, height, width = shape
        return (batch, height * width, channels)

    def statements(self) -> list[str]:
        return ["x = x.flatten(2).transpose(1, 2)"]


@dataclass(frozen=True)
class TokensToMap(Step):
    """[batch, height * width, channels] to [batch, channels, height, width]."""

    height: int
    width: int

    def line(self) -> str:
        return f"tokens to map({self.height}x{self.width})"

    def shape(self, shape: Shape) -> Shape:
        if shape[1] != self.height * self.width:
            raise ShapeError(f"{shape[1]} tokens are not {self.height}x{self.width}")
        return (shape[0], shape[2], self.height, self.width)

    def statements(self) -> list[str]:
        return [f"x = x.transpose(1, 2).unflatten(2, ({self.height}, {self.width}))"]


@dataclass(frozen=True)
class Flatten(Step):
    """[batch, ...] to [batch, product of the rest]."""

    def line(self) -> str:
        return "flatten"

    def shape(self, shape: Shape) -> Shape:
        product = 1
        for size in shape[1:]:
            product *= size
        return (shape[0], product)

    def module(self) -> str:
        return "nn.Flatten()"


@dataclass(frozen=True)
class Unflatten(Step):
    """[batch, channels] to [batch, channels, 1, ...]."""

    ones: int = 2

    def line(self) -> str:
        return "unflatten(" + "x".join("1" * self.ones) + ")"

    def shape(self, shape: Shape) -> Shape:
        return (*shape, *(1,) * self.ones)

    def statements(self) -> list[str]:
        return [f"x = x.reshape(*x.shape, {', '.join('1' * self.ones)})"]


@dataclass(frozen=True)
class Squeeze(Step):
    """Remove dimensions of size 1."""

    dimensions: tuple[int, ...]

    def line(self) -> str:
        return f"squeeze({', '.join(map(str, self.dimensions))})"

    def shape(self, shape: Shape) -> Shape:
        if any(axis >= len(shape) or shape[axis] != 1 for axis in self.dimensions):
            raise ShapeError(f"{shape} has not size 1 along {self.dimensions}")
        return tuple(size for axis, size in enumerate(shape) if axis not in self.dimensions)

    def statements(self) -> list[str]:
        return [f"x = x.squeeze({axis})" for axis in sorted(self.dimensions, reverse=True)]


@dataclass(frozen=True)
class Unsqueeze(Step):
    """Add dimensions of size 1; `dimensions` are positions in the result, ascending."""

    dimensions: tuple[int, ...]

    def line(self) -> str:
        return f"unsqueeze({', '.join(map(str, self.dimensions))})"

    def shape(self, shape: Shape) -> Shape:
        sizes = list(shape)
        for axis in self.dimensions:
            sizes.insert(axis, 1)
        return tuple(sizes)

    def statements(self) -> list[str]:
        return [f"x = x.unsqueeze({axis})" for axis in self.dimensions]


@dataclass(frozen=True)
class Pool(Step):
    """Adaptive average pooling of the last dimensions to `size` (for the larger side)."""

    size: tuple[int, ...]

    def line(self) -> str:
        return f"AdaptiveAvgPool{len(self.size)}d({'x'.join(map(str, self.size))})"

    def shape(self, shape: Shape) -> Shape:
        return (*shape[: len(shape) - len(self.size)], *self.size)

    def module(self) -> str:
        size = repr(self.size) if len(self.size) > 1 else str(self.size[0])
        return f"nn.AdaptiveAvgPool{len(self.size)}d({size})"


_INTERPOLATION = {1: "linear", 2: "bilinear", 3: "trilinear"}


@dataclass(frozen=True)
class Resize(Step):
    """Linear interpolation of the last dimensions to `size` (for the smaller side)."""

    size: tuple[int, ...]

    @property
    def mode(self) -> str:
        return _INTERPOLATION[len(self.size)]

    def line(self) -> str:
        return f"Resize({'x'.join(map(str, self.size))}, {self.mode})"

    def shape(self, shape: Shape) -> Shape:
        return (*shape[: len(shape) - len(self.size)], *self.size)

    def module(self) -> str:
        size = repr(self.size) if len(self.size) > 1 else str(self.size[0])
        return f"nn.Upsample(size={size}, mode={self.mode!r}, align_corners=False)"


@dataclass(frozen=True)
class ResizeGrid(Step):
    """Resize the grid inside a token sequence, leaving `special` leading tokens alone."""

    special: int
    source: tuple[int, int]
    target: tuple[int, int]

    @property
    def pools(self) -> bool:
        """Whether neither side grows, so that averaging loses nothing it should keep."""
        return self.target[0] <= self.source[0] and self.target[1] <= self.source[1]

    def line(self) -> str:
        source, target = ("x".join(map(str, side)) for side in (self.source, self.target))
        return f"ResizeGrid({source}->{target}{f', keeping {self.special}' if self.special else ''})"

    def shape(self, shape: Shape) -> Shape:
        if shape[1] != self.special + self.source[0] * self.source[1]:
            raise ShapeError(f"{shape[1]} tokens are not {self.special} + {self.source}")
        return (shape[0], self.special + self.target[0] * self.target[1], *shape[2:])

    def statements(self) -> list[str]:
        resize = (
            f"F.adaptive_avg_pool2d(grid, {self.target})"
            if self.pools
            else f"F.interpolate(grid, size={self.target}, mode='bilinear', align_corners=False)"
        )
        lines = [
            f"grid = x[:, {self.special}:].transpose(1, 2).unflatten(2, {self.source})",
            f"grid = {resize}.flatten(2).transpose(1, 2)",
        ]
        return [*lines, f"x = torch.cat((x[:, :{self.special}], grid), dim=1)" if self.special else "x = grid"]


@dataclass(frozen=True)
class RepeatHeads(Step):
    """Repeat each head `times` times: [batch, heads, ...] to [batch, heads * times, ...]."""

    times: int

    def line(self) -> str:
        return f"RepeatHeads(x{self.times})"

    def shape(self, shape: Shape) -> Shape:
        return (shape[0], shape[1] * self.times, *shape[2:])

    def statements(self) -> list[str]:
        return [f"x = x.repeat_interleave({self.times}, dim=1)"]


@dataclass(frozen=True)
class MeanHeads(Step):
    """Average groups of `group` neighbouring heads: [batch, heads, ...] to [batch, heads / group, ...]."""

    group: int

    def line(self) -> str:
        return f"MeanHeads(groups of {self.group})"

    def shape(self, shape: Shape) -> Shape:
        if shape[1] % self.group:
            raise ShapeError(f"{shape[1]} heads in groups of {self.group}")
        return (shape[0], shape[1] // self.group, *shape[2:])

    def statements(self) -> list[str]:
        return [f"x = x.unflatten(1, (-1, {self.group})).mean(dim=2)"]


@dataclass(frozen=True)
class Truncate(Step):
    """Keep the first `size` entries of the last dimension: padded vocabulary entries carry no token."""

    size: int

    def line(self) -> str:
        return f"truncate(:{self.size})"

    def shape(self, shape: Shape) -> Shape:
        return (*shape[:-1], self.size)

    def statements(self) -> list[str]:
        return [f"x = x[..., :{self.size}]"]
