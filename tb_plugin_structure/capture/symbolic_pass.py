"""One forward pass on tensors whose sizes are symbols: which kernels ran in which module call, and their shapes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from tb_plugin_structure.capture.kernels import facts_of
from tb_plugin_structure.capture.modules import ModuleTable
from tb_plugin_structure.capture.nested import named_arguments, named_tensors
from tb_plugin_structure.capture.symbolic_inputs import SymbolicInput
from tb_plugin_structure.capture.symbolic_questions import QuestionedShapes
from tb_plugin_structure.capture.weightless import fake_weights

CallKey = tuple[int, int]
"""(row of the module, k-th call of it in the pass)."""
Shape = tuple[Any, ...]
"""Sizes: int, or a sympy expression."""


@dataclass
class SymbolicKernel:
    name: str
    inputs: list[Shape]
    outputs: list[Shape]


@dataclass
class SymbolicPass:
    """What a pass on symbols showed.

    Attributes:
        kernels: Call -> the kernels that ran in it and in no call within, in order.
        call_inputs, call_outputs: Call -> element -> shape.
        symbols: Name of each input dimension -> what it turned out to be.
        conditions: Relations that torch had to take for true.
        data: Symbol that depends on values -> (call, position among its kernels) of what made it.
        error: What ended the pass early, None when it came to its end.
        error_module: Row of the innermost module that was running then.
    """

    kernels: dict[CallKey, list[SymbolicKernel]] = field(default_factory=dict)
    call_inputs: dict[CallKey, dict[str, Shape]] = field(default_factory=dict)
    call_outputs: dict[CallKey, dict[str, Shape]] = field(default_factory=dict)
    symbols: dict[str, Any] = field(default_factory=dict)
    conditions: list[Any] = field(default_factory=list)
    data: dict[Any, tuple[CallKey, int]] = field(default_factory=dict)
    error: Exception | None = None
    error_module: int = 0
    environment: Any = None

    def resolved(self, size: Any) -> Any:
        """A size with everything that the pass found out about its symbols."""
        return size if isinstance(size, int) else self.environment.replace(size)

    def asked_about(self, size: Any) -> str:
        """'file:line' of what decided about a symbol or took a condition for true; '' when that is not known."""
        return str(
            self.environment.asked_at.get(size) or (self.environment.asked_about(size) if size.is_Symbol else "")
        )


def run_on_symbols(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    inputs: Sequence[SymbolicInput],
    sizes: Mapping[str, int],
) -> SymbolicPass:
    """Run `model` once on fake tensors; nothing is computed and the model keeps its tensors.

    Args:
        model: The model.
        args: Arguments of the recorded pass; their tensors are replaced.
        kwargs: Keyword arguments in the same way.
        inputs: Which dimensions are free.
        sizes: A size for each name, for the questions that the model asks about sizes.
    """
    environment = QuestionedShapes(duck_shape=False)
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=environment)
    found = SymbolicPass(environment=environment)
    free: dict[str, Any] = {}
    for name, size in sizes.items():
        source = ConstantSource(name)
        symbol = environment.create_symbol(size, source=source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None)
        free[name] = environment.create_symintnode(symbol, hint=size, source=source)
        found.symbols[name] = symbol
    by_identity = {id(item.tensor): item for item in inputs}
    recorder = _Recorder(model, found)

    def fake(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        item = by_identity.get(id(value))
        if item is None or not any(item.names):
            return mode.from_tensor(value, static_shapes=True)
        return _made(value, [free[name] if name else size for name, size in zip(item.names, value.shape, strict=True)])

    with (
        torch.compiler.set_stance("force_eager"),
        fake_weights(model, mode),
        enable_python_dispatcher(),  # composite operators then keep symbols where their C++ would ask for numbers
    ):
        fake_args, fake_kwargs = tree_map(fake, (tuple(args), dict(kwargs)))
        with recorder.watching():
            try:
                model(*fake_args, **fake_kwargs)
            except Exception as error:
                found.error = error
                found.error_module = recorder.innermost
    found.conditions = [guard.expr for guard in environment.guards if not _chooses_backend(guard)]
    return found


def _chooses_backend(guard: Any) -> bool:
    """Whether torch asked in order to choose among a convolution's implementations: no question of shapes."""
    place = getattr(getattr(guard, "sloc", None), "framework_loc", None)
    asked_by = getattr(place, "name", ""), str(getattr(place, "filename", "")).replace("\\", "/")
    return asked_by[0] == "conv" and asked_by[1].endswith("_subclasses/fake_impls.py") and not guard.expr.is_Equality


def _made(like: Tensor, sizes: Sequence[Any]) -> Tensor:
    """A fake tensor of other sizes; within the fake mode."""
    layout = torch.contiguous_format
    for wanted in (torch.channels_last, torch.channels_last_3d):
        if (
            like.dim() == (4 if wanted is torch.channels_last else 5)
            and not like.is_contiguous()
            and like.is_contiguous(memory_format=wanted)
        ):
            layout = wanted
    made = torch.empty(sizes, dtype=like.dtype, device=like.device, memory_format=layout)
    return made.requires_grad_() if like.requires_grad else made


class _Recorder:
    """Module hooks and a dispatch mode that note names and shapes."""

    def __init__(self, model: nn.Module, found: SymbolicPass) -> None:
        self._rows = ModuleTable(model).row_of
        self._found = found
        self._stack: list[tuple[nn.Module, CallKey]] = []
        self._counts: dict[int, int] = {}
        self._thread = threading.get_ident()  # global hooks fire on every thread
        self.innermost = 0

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        recorder = self

        class ShapeMode(TorchDispatchMode):
            supports_higher_order_operators = True

            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                result = func(*args, **(kwargs or {}))
                recorder.kernel(func, args, kwargs or {}, result)
                return result

        handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, with_kwargs=True, always_call=True),
        ]
        try:
            with ShapeMode():  # type: ignore[no-untyped-call]
                yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, module: nn.Module, args: Any) -> None:
        row = self._rows.get(id(module))
        if row is None or threading.get_ident() != self._thread:
            return
        count = self._counts.get(row, 0)
        self._counts[row] = count + 1
        key = (row, count)
        self._stack.append((module, key))
        self._found.call_inputs[key] = {name: shape_of(tensor) for name, tensor in named_arguments(args, {})}

    def _leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any = None) -> None:
        # When the forward raised, torch calls with (module, args, None).
        if threading.get_ident() != self._thread or not any(entry is module for entry, _ in self._stack):
            return
        while self._stack:
            top, key = self._stack.pop()
            if top is module:
                break
        if output is None:
            self.innermost = self.innermost or key[0]
            return
        self.innermost = 0
        self._found.call_inputs[key] |= {name: shape_of(tensor) for name, tensor in named_arguments((), kwargs or {})}
        self._found.call_outputs[key] = {name: shape_of(tensor) for name, tensor in named_tensors(output)}

    def kernel(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        facts = facts_of(func)
        if facts.skipped or not self._stack:
            return
        key = self._stack[-1][1]
        written = [args[position] for position in facts.written_positions if position < len(args)]
        written += [kwargs[name] for name in facts.written_names if name in kwargs]
        made = {id(tensor): tensor for _, tensor in (*named_tensors(result), *named_tensors(written))}
        outputs = [shape_of(tensor) for tensor in made.values()]
        kernels = self._found.kernels.setdefault(key, [])
        for shape in outputs:
            for size in shape:
                if not isinstance(size, int):
                    for symbol in size.free_symbols:
                        if symbol not in self._found.symbols.values():
                            self._found.data.setdefault(symbol, (key, len(kernels)))
        inputs = [shape_of(tensor) for _, tensor in named_arguments(args, kwargs)]
        kernels.append(SymbolicKernel(facts.name, inputs, outputs))


def shape_of(tensor: Tensor) -> Shape:
    """Sizes as numbers or expressions; empty when the tensor has none."""
    try:
        return tuple(size if isinstance(size, int) else size.node.expr for size in tensor.shape)
    except (RuntimeError, NotImplementedError, AttributeError):
        return ()
