"""Optimizers that step while a region is observed.

In a training loop an optimizer's kernels belong to no model, and recording pauses while it steps. Not so in its
closure, ``optimizer.step(closure)``: there run the forward pass, the loss and the backward pass, with L-BFGS as in
every step of Lightning. And not where a model's own forward steps an optimizer: there it is part of what the model
computes.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

from torch.optim import optimizer as optimizers

if TYPE_CHECKING:
    from tb_plugin_structure.capture.observer import Observer


def optimizer_hooks(observer: Observer, thread: int) -> list[Any]:
    """Handles of the hooks on every optimizer's step."""
    paused: list[bool] = []
    """For each step that is running, from the outermost on, whether recording paused for it."""

    def before(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if threading.get_ident() != thread:
            return None
        if not any(known is optimizer for known in observer.stepped):
            observer.stepped.append(optimizer)
        paused.append(not observer.stack)
        if observer.stack:
            return None
        observer.paused += 1
        first, *given = args  # the optimizer itself
        return (
            (first, *(recorded(optimizer, value) for value in given)),
            {name: recorded(optimizer, value) for name, value in kwargs.items()},
        )

    def recorded(optimizer: Any, closure: Any) -> Any:
        if not callable(closure):
            return closure

        ran = False

        @functools.wraps(closure)
        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal ran
            if ran:
                written(optimizer)
            ran = True
            observer.paused -= 1
            try:
                return closure(*args, **kwargs)
            finally:
                observer.paused += 1

        return run

    def after(optimizer: Any, *_: Any) -> None:
        if threading.get_ident() == thread and paused and paused.pop():
            observer.paused -= 1
            written(optimizer)

    def written(optimizer: Any) -> None:
        """What is read from now on are the new weights: values of their own, that no recorded kernel made."""
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                observer.values.forget(parameter)

    return [
        optimizers.register_optimizer_step_pre_hook(before),
        optimizers.register_optimizer_step_post_hook(after),
    ]
