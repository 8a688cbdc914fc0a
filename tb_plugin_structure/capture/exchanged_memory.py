"""Whether code within reach gives tensors other memory (``tensor.data = other``), which no kernel and no hook shows.

To see it, the address of every tensor that is read must be looked at, which costs every kernel something. So it is
looked at only where an attribute ``data`` is assigned to: by a model's forward, by methods and functions that it names,
by hooks, or by the callers of the region.
"""

from __future__ import annotations

import dis
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from types import CodeType, FrameType, FunctionType
from typing import Any

from torch import nn

_MOST_FUNCTIONS = 2_000
_classes: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def exchanges_memory(modules: Iterable[nn.Module], frame: FrameType | None) -> bool:
    """Whether the code of `modules`, or of a caller from `frame` on, may give a tensor other memory."""
    return _within_reach(modules, frame, _class_exchanges, _assigns_data)


def swaps_tensors(modules: Iterable[nn.Module], frame: FrameType | None) -> bool:
    """Whether that code names ``torch.utils.swap_tensors``, which refuses tensors that somebody holds weakly."""
    return _within_reach(modules, frame, lambda kind: any(map(_swaps, _code_within_reach(kind))), _swaps)


def _within_reach(
    modules: Iterable[nn.Module],
    frame: FrameType | None,
    does_class: Callable[[type], bool],
    does: Callable[[CodeType], bool],
) -> bool:
    seen: set[type] = set()
    for module in modules:
        kind = type(module)
        if kind not in seen:
            seen.add(kind)
            if does_class(kind):
                return True
        for hooks in (module._forward_hooks, module._forward_pre_hooks):
            if hooks and any(does(code) for hook in hooks.values() for code in _code_of(hook)):
                return True
        own = vars(module).get("forward")
        if own is not None and any(map(does, _code_of(own))):
            return True
    while frame is not None:
        if any(map(does, _with_inner(frame.f_code))):
            return True
        frame = frame.f_back
    return False


def _class_exchanges(kind: type) -> bool:
    known = _classes.get(kind)
    if known is None:
        known = any(map(_assigns_data, _code_within_reach(kind)))
        _classes[kind] = known
    return known


def _code_within_reach(kind: type) -> Iterator[CodeType]:
    """Code of ``forward`` and of what it names, directly or through others: methods of the class, functions."""
    named: dict[str, Any] = {}
    for ancestor in reversed(kind.__mro__):
        if ancestor.__module__.partition(".")[0] not in ("torch", "builtins"):
            named |= vars(ancestor)
    todo: list[Any] = [named.get("forward"), named.get("__call__")]
    seen: set[CodeType] = set()
    while todo and len(seen) < _MOST_FUNCTIONS:
        for function in _functions_of(todo.pop()):
            if function.__module__.partition(".")[0] == "torch" or function.__code__ in seen:
                continue
            for code in _with_inner(function.__code__):
                seen.add(code)
                yield code
                for name in code.co_names:
                    todo += [each for each in (named.get(name), function.__globals__.get(name)) if each is not None]


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)


def _functions_of(value: Any) -> Iterator[FunctionType]:
    value = getattr(value, "__func__", value)  # methods, static methods and class methods
    for function in (value, *(getattr(value, name, None) for name in ("fget", "func", "__wrapped__"))):
        if isinstance(function, FunctionType):
            yield function


def _code_of(value: Any) -> Iterator[CodeType]:
    for function in _functions_of(value):
        yield from _with_inner(function.__code__)


@lru_cache(maxsize=8192)
def _assigns_data(code: CodeType) -> bool:
    names = code.co_names
    if "data" in names:
        stored = [each.argval for each in dis.get_instructions(code) if each.opname == "STORE_ATTR"]
        if "data" in stored:
            return True
    return (
        _swaps(code)
        or "set_data" in names
        or "vector_to_parameters" in names
        or ("setattr" in names and "data" in code.co_consts)
    )


def _swaps(code: CodeType) -> bool:
    return "swap_tensors" in code.co_names
