"""Gradient flow of the user's own backward pass: what reached each parameter, measured and left as it is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

from tb_plugin_structure.capture.gradient_norms import has_value, norm_of, values_of
from tb_plugin_structure.capture.observer import ObservedModel
from tb_plugin_structure.capture.output_gradients import OutputGradients
from tb_plugin_structure.records.measurement import Measurement


class GradientFlow:
    """Hooks on the trained parameters of some models; they look at each gradient as autograd hands it over.

    The gradient is that of one backward pass, before it is added to ``.grad`` and before any reduction over ranks. With
    several backward passes in a region the last one counts.
    """

    def __init__(self, models: Sequence[ObservedModel], optimizer: torch.optim.Optimizer | None) -> None:
        self._models = models
        self._parameters = [_distinct(model) for model in models]
        self._norms: list[dict[str, Tensor]] = [{} for _ in models]
        self._handles: list[Any] = []
        self._without_hooks: list[Tensor] = []
        self._received = False
        self._unmade: list[tuple[str, Tensor, dict[str, Tensor]]] = []
        self.outputs = OutputGradients(models)
        self._trained: set[int] | None = None
        if optimizer is not None:
            self._trained = {id(p) for group in optimizer.param_groups for p in group["params"]}

    def start(self) -> None:
        self.outputs.start()
        for parameters, norms in zip(self._parameters, self._norms, strict=True):
            for path, parameter in parameters:
                if isinstance(parameter, UninitializedTensorMixin):
                    self._unmade.append((path, parameter, norms))
                elif parameter.requires_grad:
                    self._watch(path, parameter, norms)
        if self._unmade:  # of lazy modules, which make their parameters right before their first forward
            self._handles.append(register_module_forward_hook(self._watch_made))

    def _watch(self, path: str, parameter: Tensor, norms: dict[str, Tensor]) -> None:
        if parameter._backward_hooks is None:
            self._without_hooks.append(parameter)
        self._handles.append(parameter.register_hook(_measure(path, norms)))

    def _watch_made(self, *_: Any) -> None:
        made = [each for each in self._unmade if not isinstance(each[1], UninitializedTensorMixin)]
        if made:
            self._unmade = [each for each in self._unmade if isinstance(each[1], UninitializedTensorMixin)]
            for path, parameter, norms in made:
                if parameter.requires_grad:
                    self._watch(path, parameter, norms)

    def stop(self) -> None:
        self.outputs.stop()
        for handle in self._handles:
            handle.remove()
        for parameter in self._without_hooks:
            if not parameter._backward_hooks:
                parameter._backward_hooks = None  # an emptied dictionary would stay behind
        self._handles.clear()
        self._without_hooks.clear()

    def trained_parameters(self, index: int) -> list[tuple[str, Tensor]]:
        """Parameters of one model that require a gradient, each once, under its first path."""
        return [(path, parameter) for path, parameter in self._parameters[index] if parameter.requires_grad]

    def receive(self, index: int, gradients: Mapping[str, Tensor]) -> None:
        """Take the gradients of one model from a backward pass that ran without hooks; absent ones did not arrive."""
        self._received = True
        for path, gradient in gradients.items():
            _measure(path, self._norms[index])(gradient)

    def measurement(self, index: int, structure_hash: str) -> Measurement | None:
        """Quantities of one model; None when no backward pass ran and no optimizer was given.

        Quantities of parameters: ``gradient_norm`` (L2), ``gradient_reached`` (1 or 0, of those that require a
        gradient), ``requires_grad``, ``in_optimizer``. Of modules: ``gradient_norm`` of all parameters at or below;
        ``output_gradient_norm`` (L2 over all outputs and calls) and ``output_gradient_reached`` (1 or 0) of modules
        that returned something differentiable.
        """
        ran = self._received or any(self._norms) or self.outputs.arrived
        if not ran and self._trained is None:
            return None
        model = self._models[index]
        norms = dict(zip(self._norms[index], values_of(list(self._norms[index].values())), strict=True))
        paths: list[str] = []
        subjects: list[int] = []
        columns: dict[str, list[float]] = {
            name: [] for name in ("gradient_norm", "gradient_reached", "requires_grad", "in_optimizer")
        }
        outputs = self.outputs.of_model(index) if ran else {}
        output_norms: list[float] = []
        output_reached: list[float] = []
        below = [0.0] * len(model.table.entries)
        reached_below = [False] * len(below)
        owners: dict[str, list[int]] = {}
        first: dict[int, str] = {}
        for path, tensor, module, is_buffer in model.table.tensors():
            if not is_buffer:
                owners.setdefault(first.setdefault(id(tensor), path), []).append(module)
        for path, parameter in self._parameters[index]:
            norm = norms.get(path, math.nan)
            reached = path in norms
            if math.isnan(norm) and reached and has_value(self._norms[index][path]):
                norm = math.inf  # a gradient that is not finite; NaN says that there is no value
            if reached:
                for module in _ancestors(model, owners.get(path, [])):
                    below[module] += norm * norm
                    reached_below[module] = True
            paths.append(path)
            subjects.append(1)
            columns["gradient_norm"].append(norm)
            columns["gradient_reached"].append(float(reached) if ran and parameter.requires_grad else math.nan)
            columns["requires_grad"].append(float(parameter.requires_grad))
            columns["in_optimizer"].append(math.nan if self._trained is None else float(id(parameter) in self._trained))
        for row, entry in enumerate(model.table.entries):
            if reached_below[row] or row in outputs:
                paths.append(entry.path)
                subjects.append(0)
                columns["gradient_norm"].append(math.sqrt(below[row]) if reached_below[row] else math.nan)
                for name in ("gradient_reached", "requires_grad", "in_optimizer"):
                    columns[name].append(math.nan)
                norm, arrived = outputs.get(row, (math.nan, None))
                output_norms.append(norm)
                output_reached.append(math.nan if arrived is None else float(arrived))
        if outputs:
            columns["output_gradient_norm"] = [math.nan] * (len(paths) - len(output_norms)) + output_norms
            columns["output_gradient_reached"] = [math.nan] * (len(paths) - len(output_norms)) + output_reached
        return Measurement.build(model.name, structure_hash, paths, subjects, columns)


def _distinct(model: ObservedModel) -> list[tuple[str, Tensor]]:
    """Each parameter once, under its first path."""
    seen: set[int] = set()
    found = []
    for path, tensor, _, is_buffer in model.table.tensors():
        if not is_buffer and id(tensor) not in seen:
            seen.add(id(tensor))
            found.append((path, tensor))
    return found


def _ancestors(model: ObservedModel, rows: Sequence[int]) -> set[int]:
    """Modules that own a parameter, and those around them."""
    found: set[int] = set()
    for row in rows:
        while row >= 0 and row not in found:
            found.add(row)
            row = model.table.entries[row].parent
    return found


def _measure(path: str, norms: dict[str, Tensor]) -> Any:
    def hook(gradient: Tensor) -> None:
        norms[path] = norm_of(gradient)

    return hook
