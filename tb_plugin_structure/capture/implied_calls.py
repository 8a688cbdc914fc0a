"""Models whose parts are called without them: ``model.forward_features(x)``, ``model[:3](x)``, ``model.forward(x)``.

Such a model has no call of its own, so one is implied. What runs between its parts belongs to it where it leads from
one part to another, or stands in one of the model's own methods; everything else, the loss above all, ran outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from torch import nn

    from tb_plugin_structure.capture.events import Kernel
    from tb_plugin_structure.capture.observer import Observer

_OUTSIDE = -1


def settle_implied_calls(observer: Observer) -> None:
    """Give each implied call the kernels of its model that ran in no module call."""
    for number in sorted(observer.implied_calls):
        _settle(observer, number)


def _settle(observer: Observer, number: int) -> None:
    root, kernels, made = observer.calls[number], observer.kernels, observer.kernel_outputs
    methods = _methods(observer.models[root.model].table.model)
    # Of two models of one class the last one that was called is meant, and each has what its values go through.
    calls = [call for at, call in enumerate(observer.calls) if at != number]
    earliest = max((call.end for call in calls if call.end <= root.begin), default=0)
    latest = min((call.begin for call in calls if call.begin >= root.end), default=len(kernels))

    def is_within(kernel: int) -> bool:
        call = kernels[kernel][1]
        return call >= 0 and observer.calls[call].model == root.model

    def reads(kernel: int) -> tuple[int, ...]:
        return (*kernels[kernel][3], *observer.also_reads.get(kernel, ()))

    leads_from: set[int] = set()  # what the model made, and what was computed from that
    follows: set[int] = set()
    for kernel in range(root.begin, latest):
        is_outside = kernels[kernel][1] == _OUTSIDE
        if is_outside and not leads_from.isdisjoint(reads(kernel)):
            follows.add(kernel)
        if kernel in follows or (kernel < root.end and is_within(kernel)):
            leads_from.update(made[kernel])

    own: set[int] = set()
    leads_to = {row for call in calls if call.parent == number for _, row in call.inputs}
    for kernel in range(latest - 1, earliest - 1, -1):
        if kernels[kernel][1] == _OUTSIDE:
            is_method = _stands_in(kernels[kernel], methods)
            is_needed = not leads_to.isdisjoint(made[kernel])
            is_between = root.begin <= kernel < root.end
            if (is_method and (is_needed or kernel in follows)) or (is_between and is_needed and kernel in follows):
                own.add(kernel)
        if kernel in own or (root.begin <= kernel < root.end and is_within(kernel)):
            leads_to.update(reads(kernel))
    own = _whole_operators(observer, own)
    for kernel in own:
        facts, _, *rest = kernels[kernel]
        kernels[kernel] = cast("Kernel", (facts, number, *rest))
    root.begin, root.end = min(own | {root.begin}), max({kernel + 1 for kernel in own} | {root.end})


def _whole_operators(observer: Observer, own: set[int]) -> set[int]:
    """With them the kernels before and after that the same instruction ran: what autograd keeps of a result."""
    kernels, found = observer.kernels, set(own)
    for kernel in own:
        for step in (-1, 1):
            at = kernel + step
            while 0 <= at < len(kernels) and kernels[at][1] == _OUTSIDE and kernels[at][2] == kernels[kernel][2]:
                found.add(at)
                at += step
    return found


def _stands_in(kernel: Any, methods: set[CodeType]) -> bool:
    """Whether a kernel was called in one of these methods."""
    return not methods.isdisjoint(kernel[2][1::3])


def _methods(model: nn.Module) -> set[CodeType]:
    """Code of the methods of a model's classes, torch's own excluded."""
    classes = {base for module in model.modules() for base in type(module).__mro__}
    return {
        code
        for base in classes
        if not base.__module__.startswith("torch.") and base is not object
        for value in vars(base).values()
        for code in _code(value)
    }


def _code(value: Any) -> Iterator[CodeType]:
    """Code of a method, of what a decorator wrapped, and of the functions defined in it."""
    value = getattr(value, "__func__", getattr(value, "fget", value))
    code = getattr(getattr(value, "__wrapped__", value), "__code__", None)
    if isinstance(code, CodeType):
        yield from _with_inner(code)


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)
