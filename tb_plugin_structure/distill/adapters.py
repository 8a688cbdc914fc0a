"""Adapters as modules, built from their descriptions in :mod:`tb_plugin_structure.analysis.audit.adapter`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tb_plugin_structure.analysis.audit import projections, steps
from tb_plugin_structure.analysis.audit.adapter import Adapter
from tb_plugin_structure.analysis.audit.report import AuditReport

ROOT_KEY = "/"
"""Key of the model itself, whose path is empty."""

MAXIMUM_PARAMETERS = 500_000_000
"""More than this is refused unless asked for: every pair of a large model, leaves included, is seldom what is meant."""


class FeatureAdapter(nn.Module):
    """One chain. Input: the student module's output (a tensor, or the tuple or mapping that holds it); output: a tensor
    with the teacher's shape, dtype and device. ``extra_repr`` shows the chain."""

    def __init__(self, description: Adapter, **factory: Any) -> None:
        super().__init__()
        self.description = description
        self._run: list[str | Callable[[Any], Any]] = []  # the name of a child module, or a rearrangement
        taken: dict[str, int] = {}
        for step in description.steps:
            module = _module(step, factory)
            if module is None:
                self._run.append(_function(step))
                continue
            name = step.attribute or type(step).__name__.lower()
            taken[name] = taken.get(name, 0) + 1
            name = name if taken[name] == 1 else f"{name}{taken[name]}"
            self.add_module(name, module)
            self._run.append(name)

    def forward(self, feature: Any) -> Tensor:
        for run in self._run:
            feature = self._call(self.get_submodule(run), feature) if isinstance(run, str) else run(feature)
        if not isinstance(feature, Tensor):
            raise TypeError(
                f"the adapter {self.description.line() or '(none needed)'} was given {type(feature).__name__}, "
                "expected a tensor; hook the element that the audit names"
            )
        return feature

    @staticmethod
    def _call(module: nn.Module, feature: Any) -> Any:
        """Features of a half-precision student are projected in the adapter's own precision (autocast decides for
        itself)."""
        weight = next(module.parameters(), None)
        if weight is None or not isinstance(feature, Tensor) or feature.dtype == weight.dtype:
            return module(feature)
        if torch.is_autocast_enabled(feature.device.type):
            return module(feature)
        return module(feature.to(weight.dtype))

    def extra_repr(self) -> str:
        return self.description.line()


def build_adapter(description: Adapter, **factory: Any) -> FeatureAdapter:
    """The module of one description; `factory` may hold ``device`` and ``dtype`` for its parameters."""
    return FeatureAdapter(description, **factory)


def build_adapters(
    report: AuditReport,
    *,
    level: str | Sequence[str] | None = None,
    paths: Sequence[str] | None = None,
    maximum_parameters: int = MAXIMUM_PARAMETERS,
    **factory: Any,
) -> nn.ModuleDict:
    """Modules of all rows with the verdict *adapt* among those selected, in the student's order.

    Keys: the student's path with "/" for "."; "/" for the model itself; "path#1" for the second call of a module.

    Raises:
        ValueError: When they hold more than `maximum_parameters` parameters; choose a level or paths.
    """
    rows = [row for row in report.selected(level, paths) if row.comparison.adapter]
    total = sum(row.comparison.adapter.parameters for row in rows)
    if total > maximum_parameters and str(factory.get("device", "")) != "meta":
        raise ValueError(
            f"the adapters of {len(rows)} pairs hold {total:,} parameters, more than {maximum_parameters:,}; select "
            'pairs with level="stage" or paths=[...], or raise maximum_parameters'
        )
    modules = nn.ModuleDict()
    for row in rows:
        assert row.student is not None
        modules[adapter_key(row.student.path, row.student.ordinal)] = build_adapter(row.comparison.adapter, **factory)
    return modules


def adapter_key(student_path: str, ordinal: int = 0) -> str:
    """Key of a student's module in the dictionary of adapters.

    >>> adapter_key("encoder.layer.3"), adapter_key(""), adapter_key("relu", 1)
    ('encoder/layer/3', '/', 'relu#1')
    """
    key = student_path.replace(".", "/") or ROOT_KEY
    return f"{key}#{ordinal}" if ordinal else key


def _module(step: steps.Step, factory: dict[str, Any]) -> nn.Module | None:
    """The torch.nn module that a step is; None for a rearrangement."""
    match step:
        case projections.Conv1x1(source, target, spatial):
            convolution = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[spatial - 1]
            return convolution(source, target, kernel_size=1, bias=False, **factory)
        case projections.Linear(source, target, bias):
            return nn.Linear(source, target, bias=bias, **factory)
        case projections.BatchNorm(channels, spatial):
            return (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[spatial - 1](channels, **factory)
        case projections.LayerNorm(features):
            return nn.LayerNorm(features, **factory)
        case projections.ReLU():
            return nn.ReLU()
        case steps.Flatten():
            return nn.Flatten()
        case steps.Pool(size):
            pool = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)[len(size) - 1]
            return pool(size)  # type: ignore[arg-type]
        case steps.Resize(size):
            return nn.Upsample(size=size, mode=step.mode, align_corners=False)
    return None


def _function(step: steps.Step) -> Callable[[Any], Any]:
    match step:
        case steps.SelectElement(element):
            return lambda x: element_of(x, element)
        case steps.DropTokens(count, start, dimensions):
            return lambda x: _drop_tokens(x, count, start, dimensions)
        case steps.SelectToken(position):
            return lambda x: x[:, position]
        case steps.MeanTokens():
            return lambda x: x.mean(dim=1)
        case steps.PrependMean(count, start):
            return lambda x: _insert_mean(x, count, start)
        case steps.Permute(order, _):
            return lambda x: x.permute(order)
        case steps.MapToTokens():
            return lambda x: x.flatten(2).transpose(1, 2)
        case steps.TokensToMap(height, width):
            return lambda x: x.transpose(1, 2).unflatten(2, (height, width))
        case steps.Unflatten(ones):
            return lambda x: x.reshape(*x.shape, *(1,) * ones)
        case steps.Squeeze(dimensions):
            return lambda x: x.squeeze(dimensions)
        case steps.Unsqueeze(dimensions):
            return lambda x: _unsqueeze(x, dimensions)
        case steps.ResizeGrid():
            return lambda x: _resize_grid(step, x)
        case steps.RepeatHeads(times):
            return lambda x: x.repeat_interleave(times, dim=1)
        case steps.MeanHeads(group):
            return lambda x: x.unflatten(1, (-1, group)).mean(dim=2)
        case steps.Truncate(size):
            return lambda x: x[..., :size]
        case projections.CastTo(dtype):
            target = getattr(torch, dtype)
            return lambda x: x.to(target)
        case projections.MoveTo(device):
            return lambda x: x.to(device)
    raise TypeError(f"no module is known for the step {step}")


def element_of(output: Any, element: str) -> Any:
    """The named element of a module's output: "0", "last_hidden_state", "past.0.1"; a tensor is returned as it is.

    Raises:
        LookupError: When the output has no such element.
    """
    for key in element.split(".") if element else ():
        if isinstance(output, Tensor):
            return output
        try:
            if isinstance(output, Mapping) and key in output:
                output = output[key]
            elif key.isdigit() and not isinstance(output, Mapping):
                output = output[int(key)]
            else:
                output = getattr(output, key)
        except (LookupError, AttributeError, TypeError) as error:
            raise LookupError(f"an output of {type(output).__name__} has no element {element!r}") from error
    return output


def _drop_tokens(x: Tensor, count: int, start: int, dimensions: tuple[int, ...]) -> Tensor:
    for axis in dimensions:
        rest = x.narrow(axis, start + count, x.shape[axis] - start - count)
        x = torch.cat((x.narrow(axis, 0, start), rest), dim=axis) if start else rest
    return x


def _insert_mean(x: Tensor, count: int, start: int) -> Tensor:
    mean = x[:, start:].mean(dim=1, keepdim=True).expand(-1, count, -1)
    return torch.cat((x[:, :start], mean, x[:, start:]), dim=1)


def _unsqueeze(x: Tensor, dimensions: tuple[int, ...]) -> Tensor:
    for axis in dimensions:
        x = x.unsqueeze(axis)
    return x


def _resize_grid(step: steps.ResizeGrid, x: Tensor) -> Tensor:
    grid = x[:, step.special :].transpose(1, 2).reshape(x.shape[0], -1, *step.source)
    if step.pools:
        grid = F.adaptive_avg_pool2d(grid, step.target)
    else:
        grid = F.interpolate(grid, size=step.target, mode="bilinear", align_corners=False)
    tokens = grid.flatten(2).transpose(1, 2)
    return torch.cat((x[:, : step.special], tokens), dim=1) if step.special else tokens
