"""Under which tags the monitor logs what it knows of a step: one curve a model, a module or a parameter."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from tb_plugin_structure.integrations.path_measurements import StepValues
from tb_plugin_structure.integrations.statistics import by_module, root_sum_square


def gradient_norms(name: str, norms: Mapping[str, float], depth: int) -> dict[str, float]:
    """Of all parameters of a model, and of its modules down to a depth. `norms`: parameter path -> norm."""
    found = {f"gradient_norm/{name}": root_sum_square(norms.values())}
    return found | {
        f"gradient_norm/{name}/{module}": norm for module, norm in by_module(norms, depth).items() if module
    }


def update_ratios(name: str, changes: Mapping[str, float], sizes: Mapping[str, float], depth: int) -> dict[str, float]:
    """Norm of what an optimizer's step changed ÷ norm of what was there, of a model and its modules. Both mappings:
    parameter path -> norm."""
    found: dict[str, float] = {}
    total = root_sum_square(sizes.values())
    if total > 0:
        found[f"update_ratio/{name}"] = root_sum_square(changes.values()) / total
    of_modules = by_module(sizes, depth)
    for module, change in by_module(changes, depth).items():
        if module and of_modules.get(module, 0.0) > 0:
            found[f"update_ratio/{name}/{module}"] = change / of_modules[module]
    return found


def trained_weights(model: nn.Module) -> dict[str, nn.Parameter]:
    """Path -> parameter, of those that are trained."""
    return {path: p for path, p in model.named_parameters() if p.requires_grad and p.is_floating_point()}


def weight_stds(name: str, trained: Mapping[str, nn.Parameter], values: StepValues) -> dict[str, float]:
    """Of each weight with two or more dimensions."""
    return {
        f"weight_std/{name}/{path}": values.weights[id(p)].std
        for path, p in trained.items()
        if p.dim() > 1 and id(p) in values.weights
    }


def batch_statistics(name: str, model: nn.Module, values: StepValues) -> dict[str, float]:
    """Mean over channels of running means, and of running variances."""
    found: dict[str, float] = {}
    for path, module in model.named_modules():
        if id(module) in values.batch_norms:
            mean, variance = values.batch_norms[id(module)]
            found[f"batch_norm/{name}/{path}/running_mean"] = mean
            found[f"batch_norm/{name}/{path}/running_variance"] = variance
    return found


def learning_rates(optimizer: torch.optim.Optimizer | None) -> dict[str, float]:
    """One value when all groups of the optimizer agree, else one for each group."""
    groups = optimizer.param_groups if optimizer is not None else []
    rates = {f"learning_rate/group{k}": float(group["lr"]) for k, group in enumerate(groups) if "lr" in group}
    return {"learning_rate": next(iter(rates.values()))} if len(set(rates.values())) == 1 else rates
