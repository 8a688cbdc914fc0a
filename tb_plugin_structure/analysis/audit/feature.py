"""A feature: one tensor that a module returned, with the meaning of its dimensions."""

from __future__ import annotations

from dataclasses import dataclass, replace

BATCH = "batch"
CHANNELS = "channels"
HIDDEN = "hidden"
TOKENS = "tokens"
KEYS = "keys"
LENGTH = "length"
DEPTH = "depth"
HEIGHT = "height"
WIDTH = "width"
HEADS = "heads"
HEAD_DIM = "head_dim"
VOCABULARY = "vocabulary"
CLASSES = "classes"
GROUPS = "groups"
LAYERS = "layers"
SELECTED = "selected"
SINGLE = "single"
UNKNOWN = "?"

SPATIAL = (DEPTH, HEIGHT, WIDTH)

LAYOUTS = {
    (BATCH, CHANNELS, HEIGHT, WIDTH): "NCHW",
    (BATCH, HEIGHT, WIDTH, CHANNELS): "NHWC",
    (BATCH, CHANNELS, DEPTH, HEIGHT, WIDTH): "NCDHW",
    (BATCH, CHANNELS, LENGTH): "NCL",
    (BATCH, LENGTH, CHANNELS): "NLC",
    (BATCH, LENGTH, HIDDEN): "NLC",
    (BATCH, HIDDEN, LENGTH): "NCL",
    (BATCH, TOKENS, HIDDEN): "BLC",
    (TOKENS, BATCH, HIDDEN): "LBC",
    (BATCH, HIDDEN, TOKENS): "BCL",
    (BATCH, HEADS, TOKENS, KEYS): "BHLL",
    (BATCH, HEADS, TOKENS, HEAD_DIM): "BHLD",
    (BATCH, TOKENS, HEADS, HEAD_DIM): "BLHD",
    (BATCH, TOKENS, VOCABULARY): "BLV",
    (BATCH, HIDDEN): "BC",
    (BATCH, CHANNELS): "BC",
    (BATCH, CLASSES): "BK",
}


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension: its meaning and size.

    Token dimensions say how many special tokens they hold in front (class, distillation, register tokens) and how many
    `trailing` ones behind (detection tokens), and, when the rest is an image, its grid; `origin` names where the
    special tokens come from, as far as the record shows it. `parts` are the dimensions that a view folded into this
    one, the last of them fastest.
    """

    name: str
    size: int
    special: int = 0
    grid: tuple[int, int] | None = None
    origin: str = ""
    parts: tuple[Dimension, ...] = ()
    trailing: int = 0

    def resized(self, size: int) -> Dimension:
        """The same meaning at another size; grid and special tokens hold only for the size they were found at."""
        return self if size == self.size else Dimension(self.name, size)

    def text(self) -> str:
        """For people: "tokens 197 = 1 + 14x14", "channels 64"."""
        if self.name in (TOKENS, KEYS) and self.grid is not None:
            grid = f"{self.grid[0]}x{self.grid[1]}"
            pieces = (str(self.special or ""), grid, str(self.trailing or ""))
            return f"{self.name} {self.size} = " + " + ".join(piece for piece in pieces if piece)
        return f"{self.name} {self.size}"


@dataclass(frozen=True, slots=True)
class Feature:
    """What a module call returned, reduced to the one tensor that is compared.

    Attributes:
        path: Module path; "" for the model.
        class_name: Class of the module.
        call: Row of ``module_calls``.
        ordinal: Which call of the module this is, from 0, of `calls` in the pass.
        element: Element of the output ("" for a single tensor).
        dimensions: One a dimension of the tensor.
        dtype: E.g. "float32".
        device: E.g. "cuda:0".
        after_activation: "ReLU", "GELU", ... when the tensor is the result of an activation, else "".
        flags: Short facts: "training", "frozen", "modified after return", ...
        tensor: Row of ``tensors``; -1 when the call returned no tensor.
        is_constant: Nothing of the model's input reaches it: a table of positions, a mask, a weight.
        symbols: Each dimension as an expression of the input's dimensions, "(H + 1)//2"; empty when not recorded.
    """

    path: str
    class_name: str
    call: int
    ordinal: int = 0
    calls: int = 1
    element: str = ""
    dimensions: tuple[Dimension, ...] = ()
    dtype: str = ""
    device: str = ""
    after_activation: str = ""
    flags: tuple[str, ...] = ()
    tensor: int = -1
    is_constant: bool = False
    symbols: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(dimension.size for dimension in self.dimensions)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dimension.name for dimension in self.dimensions)

    @property
    def layout(self) -> str:
        """ "NCHW", "BLC", ...; "" when the combination has no common name."""
        return LAYOUTS.get(self.names, "")

    @property
    def is_floating(self) -> bool:
        """Also when the record does not know the dtype."""
        return not self.dtype or self.dtype.startswith(("float", "bfloat", "half", "double"))

    def size(self, name: str) -> int:
        """Size of the dimension of that meaning; 0 when there is none."""
        return next((dimension.size for dimension in self.dimensions if dimension.name == name), 0)

    def axis(self, name: str) -> int:
        """Position of the dimension of that meaning; -1 when there is none."""
        return self.names.index(name) if name in self.names else -1

    def renamed(self, names: tuple[str, ...]) -> Feature:
        """The same tensor with other meanings."""
        if names == self.names:
            return self
        return replace(
            self, dimensions=tuple(replace(d, name=name) for d, name in zip(self.dimensions, names, strict=True))
        )
