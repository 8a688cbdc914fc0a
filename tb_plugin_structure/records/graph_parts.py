"""What a graph that another tool wrote consists of, before it is a structure."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

Shape = Sequence[int]

_SMALL_DTYPES = {"bool": 1, "uint8": 1, "int8": 1, "complex64": 8, "complex128": 16, "int4": 1, "uint4": 1}


def bytes_of(shape: Shape | None, dtype: str) -> int:
    """Bytes of a tensor; 0 when a size is unknown. A dtype that is not known counts as 4 bytes an element."""
    if shape is None or any(size < 0 for size in shape):
        return 0
    return math.prod(shape) * _element_size(dtype)


def _element_size(dtype: str) -> int:
    if dtype in _SMALL_DTYPES:
        return _SMALL_DTYPES[dtype]
    if dtype.startswith(("float8", "float4")):
        return 1
    digits = dtype.lstrip("abcdefghijklmnopqrstuvwxyz")
    return int(digits) // 8 if digits.isdigit() and int(digits) >= 8 else 4


@dataclass
class Tensor:
    """A value of the graph. `shape` is None when the graph does not tell; `storage` is a row of the values with which
    it shares memory, -1 for none."""

    shape: Shape | None = None
    dtype: str = ""
    device: str = ""
    requires_grad: bool = False
    storage: int = -1
    layout: str = "strided"
    name: str = ""


@dataclass
class Parameter:
    """A parameter or buffer. `sketch` as in the schema."""

    path: str
    shape: Shape
    dtype: str
    device: str = ""
    is_buffer: bool = False
    requires_grad: bool = False
    sketch: Sequence[float] = ()
    aliases: Sequence[str] = ()


@dataclass(frozen=True)
class Scope:
    """A module call around an operator. Equal `call` keys are one call; `path` is the module's."""

    call: Hashable
    path: str
    class_name: str = ""
    class_module: str = ""


@dataclass
class Module:
    """`parameters` are rows."""

    path: str
    parent: int
    class_name: str = ""
    class_module: str = ""
    parameters: list[int] = field(default_factory=list)


@dataclass
class Call:
    """A module call: its module and the call around it as rows, its operators as [begin, end), and the (name, value)
    pairs that it takes and returns where the source says so."""

    key: Hashable
    module: int
    parent: int
    ordinal: int
    begin: int
    end: int
    arguments: list[tuple[str, int]] | None = None
    results: list[tuple[str, int]] | None = None


@dataclass
class Operator:
    """An operator and its one kernel; `inputs`, `also_reads` and `outputs` are rows of values."""

    name: str
    kernel: str
    call: int
    inputs: list[int]
    also_reads: list[int]
    outputs: list[int]
    attributes: Sequence[tuple[str, str]]
    source: str
    macs: float
    activation_bytes: int
