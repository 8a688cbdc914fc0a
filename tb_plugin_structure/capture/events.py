"""What an observer appends while a pass runs: kernels, module calls, failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn

from tb_plugin_structure.capture.kernels import KernelFacts


class Kernel(NamedTuple):
    """One kernel that ran; appended as a plain tuple.

    Attributes:
        facts: What its schema says.
        call: Number of the innermost module call, or OUTSIDE.
        frames: Where it was called, innermost frame first: for each frame its id, code and offset of the instruction.
        inputs: Values of its tensor arguments.
        args: Positional arguments, tensors as ``{"t": k}``.
        kwargs: Keyword arguments in the same way; None when there are none.
        sequence: Number that autograd gives next; the kernel's own node has the one before.
        grad_enabled: Whether gradients were turned on.
    """

    facts: KernelFacts
    call: int
    frames: tuple[Any, ...]
    inputs: tuple[int, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any] | None
    sequence: int
    grad_enabled: bool


class KernelContext:
    """What a listener learns about the module call around a kernel."""

    __slots__ = ("model", "module", "module_path", "ordinal")

    def __init__(self, model: str, module_path: str, ordinal: int, module: nn.Module | None) -> None:
        self.model = model
        self.module_path = module_path
        self.ordinal = ordinal
        self.module = module


class ModuleCall:
    """One call of a module while and after it runs."""

    __slots__ = ("begin", "context", "end", "inputs", "model", "module", "outputs", "parent", "raised")

    def __init__(self, model: int, module: int, parent: int, begin: int) -> None:
        self.model = model
        self.module = module
        self.parent = parent
        self.begin = begin
        self.end = -1
        self.inputs: Sequence[tuple[str, int]] = ()
        self.outputs: Sequence[tuple[str, int]] = ()
        self.raised = False
        self.context: KernelContext | None = None


NO_CALL = KernelContext("", "", 0, None)


class Failure:
    """The first exception that left a kernel or a module call."""

    def __init__(self, error: BaseException, call: int) -> None:
        self.error = error
        self.call = call
        self.kernel = ""
        self.operands: list[str] = []
        self.rows: list[int] = []
        """Rows of the operands in the observer's values; -1 for what was never met."""


def outline(value: Any) -> Any:
    """Arguments as short texts; tensors are not kept."""
    if isinstance(value, Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        try:
            return f"{dtype}{list(value.shape)}"
        except RuntimeError:  # a nested tensor has no single shape
            return f"{dtype}[nested]"
    if isinstance(value, dict):
        return {str(key): outline(item) for key, item in list(value.items())[:64]}
    if isinstance(value, (list, tuple)):
        return [outline(item) for item in value[:64]]
    if value is None or isinstance(value, (bool, int, float)):
        return str(value)
    if isinstance(value, str):
        return repr(value[:80])
    return type(value).__name__
