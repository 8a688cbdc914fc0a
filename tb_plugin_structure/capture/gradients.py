"""Gradient flow of the user's own backward pass: what reached each parameter, measured and left as it is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

from tb_plugin_structure.capture.gradient_history import Kept, was_kept
from tb_plugin_structure.capture.gradient_norms import has_value, norm_of, values_of
from tb_plugin_structure.capture.input_order import InputOrder
from tb_plugin_structure.capture.observer import ObservedModel
from tb_plugin_structure.capture.other_parameters import held_by
from tb_plugin_structure.capture.output_gradients import OutputGradients
from tb_plugin_structure.capture.wrapped_optimizers import stepping_optimizer
from tb_plugin_structure.records.measurement import Measurement

_PROBED = 3
"""Parameters whose gradients are looked at as the optimizer steps: each look waits for the device."""


class GradientFlow:
    """Hooks on the trained parameters of some models; they look at each gradient as autograd hands it over.

    The gradient is that of one backward pass, before it is added to ``.grad`` and before any reduction over ranks. With
    several backward passes in a region the last one counts.
    """

    def __init__(
        self,
        models: Sequence[ObservedModel],
        optimizer: torch.optim.Optimizer | None,
        inputs: InputOrder | None = None,
        stepped: Sequence[torch.optim.Optimizer] = (),
    ) -> None:
        self._models = models
        self._optimizer = optimizer
        self._inputs = inputs
        self.kept: Kept = {}
        """Gradients that were used already when the region began."""
        self._stale: list[dict[str, Tensor]] = [{} for _ in models]
        self._lost: list[set[str]] = [set() for _ in models]
        self._parameters = [_distinct(model) for model in models]
        self._norms: list[dict[str, Tensor]] = [{} for _ in models]
        self._handles: list[Any] = []
        self._without_hooks: list[Tensor] = []
        self._received = False
        self._unmade: list[tuple[str, Tensor, int]] = []
        self.outputs = OutputGradients(models)
        self._trained: set[int] | None = None
        if optimizer is not None:
            self._trained = held_by([optimizer])
        self._stepped = stepped

    def start(self) -> None:
        self.outputs.start()
        if self._inputs is not None:
            self._inputs.start()
        if (stepping := stepping_optimizer(self._optimizer)) is not None:
            self._handles.append(stepping.register_step_pre_hook(self._steps))
        for index, parameters in enumerate(self._parameters):
            for path, parameter in parameters:
                if isinstance(parameter, UninitializedTensorMixin):
                    self._unmade.append((path, parameter, index))
                elif parameter.requires_grad:
                    self._watch(path, parameter, index)
        if self._unmade:  # of lazy modules, which make their parameters right before their first forward
            self._handles.append(register_module_forward_hook(self._watch_made))

    def _watch(self, path: str, parameter: Tensor, index: int) -> None:
        if parameter._backward_hooks is None:
            self._without_hooks.append(parameter)
        norms, stale = self._norms[index], self._stale[index]
        measure = _measure(path, norms)

        def hook(gradient: Tensor) -> None:
            if self.kept and path not in norms and was_kept(parameter, self.kept) and parameter.grad is not None:
                stale[path] = norm_of(parameter.grad)
            measure(gradient)

        self._handles.append(parameter.register_hook(hook if self.kept else measure))

    def _steps(self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The optimizer steps within the region: with the gradients that arrived, or are they gone?"""
        if any(map(callable, (*args[1:], *kwargs.values()))):
            return  # a closure, which makes them only now
        for norms, parameters, lost in zip(self._norms, self._parameters, self._lost, strict=True):
            arrived = [(path, p) for path, p in parameters if path in norms and self._holds(p)]
            probes = [(norms[path], p.grad) for path, p in arrived[:_PROBED]]
            if arrived and (all(p.grad is None for _, p in arrived) or all(_is_gone(*probe) for probe in probes)):
                lost.update(path for path, _ in arrived)
            else:
                lost.clear()

    def _holds(self, parameter: Tensor) -> bool:
        return self._trained is not None and id(parameter) in self._trained

    def _watch_made(self, *_: Any) -> None:
        made = [each for each in self._unmade if not isinstance(each[1], UninitializedTensorMixin)]
        if made:
            self._unmade = [each for each in self._unmade if isinstance(each[1], UninitializedTensorMixin)]
            for path, parameter, index in made:
                if parameter.requires_grad:
                    self._watch(path, parameter, index)

    def stop(self) -> None:
        self.outputs.stop()
        if self._inputs is not None:
            self._inputs.stop()
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
        gradient), ``requires_grad``, ``in_optimizer`` (of the one that was given, or one that stepped). Of modules:
        ``gradient_norm`` of all parameters at or below; ``output_gradient_norm`` (L2 over all outputs and calls) and
        ``output_gradient_reached`` (1 or 0) of modules that returned something differentiable. Only where it is the
        case, of parameters ``stale_gradient`` (1: the gradient was added to one that the optimizer had stepped with)
        and ``lost_gradient`` (1: it was gone when the optimizer stepped); of inputs, where another model has the same,
        ``input_order``.
        """
        ran = self._received or any(self._norms) or self.outputs.arrived
        if not ran and self._trained is None:
            return None
        model = self._models[index]
        trained = None if self._trained is None else self._trained | held_by(self._stepped)
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
            columns["in_optimizer"].append(math.nan if trained is None else float(id(parameter) in trained))
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
        stale = [path for path, norm in self._stale[index].items() if has_value(norm) and float(norm) > 0]
        for name, those in (("stale_gradient", stale), ("lost_gradient", sorted(self._lost[index]))):
            if those:
                marked = set(those)
                columns[name] = [
                    float(path in marked) if subject == 1 else math.nan
                    for path, subject in zip(paths, subjects, strict=True)
                ]
        orders = self._inputs.of_model(index) if self._inputs is not None else {}
        if orders:
            columns = {name: [*values, *[math.nan] * len(orders)] for name, values in columns.items()}
            columns["input_order"] = [*[math.nan] * len(paths), *map(float, orders.values())]
            paths, subjects = [*paths, *orders], [*subjects, *[2] * len(orders)]
        return Measurement.build(model.name, structure_hash, paths, subjects, columns)


def _is_gone(norm: Tensor, gradient: Tensor | None) -> bool:
    """Whether nothing is left of a gradient that was not zero."""
    if not has_value(norm) or not float(norm) > 0:
        return False
    return gradient is None or not bool(gradient.any())


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
