"""The optimizer that steps, within what accelerate and others put around it."""

from __future__ import annotations

from typing import Any

import torch

_HOOKS = "_optimizer_step_pre_hooks"


def stepping_optimizer(optimizer: Any) -> torch.optim.Optimizer | None:
    """The innermost optimizer of torch, whose hooks run when weights change; None when there is none.

    accelerate's wrapper says it is one too, but has no hooks and, while gradients are accumulated, does not step.
    """
    seen: set[int] = set()
    while optimizer is not None and id(optimizer) not in seen:
        seen.add(id(optimizer))
        if isinstance(optimizer, torch.optim.Optimizer) and _HOOKS in vars(optimizer):
            return optimizer
        optimizer = getattr(optimizer, "optimizer", None)
    return None
