"""What a monitor knows of a step, as a table: a row for each module and parameter of a model, a column a quantity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tb_plugin_structure.capture.modules import ModuleTable
from tb_plugin_structure.integrations.statistics import Moments, joined, local_part, means, moments
from tb_plugin_structure.records.quantities import DTYPES

NAN = math.nan
FROZEN, TRAINED, PARTLY = 0.0, 1.0, 2.0


class WeightMoments:
    """Mean and deviation of parameters; one that was not written to since is not looked at again (a frozen teacher)."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[tuple[int, int], Moments]] = {}

    def of(self, parameters: Iterable[nn.Parameter]) -> dict[int, Moments]:
        """id of a parameter -> its moments, of those with real floating-point values."""
        wanted = {id(p): p for p in parameters if p.is_floating_point() and not p.is_meta and not p.is_sparse}
        stale = [p for key, p in wanted.items() if key not in self._known or self._known[key][0] != _written(p)]
        for parameter, found in zip(stale, moments(stale), strict=True):
            self._known[id(parameter)] = (_written(parameter), found)
        return {key: self._known[key][1] for key in wanted}


def _written(tensor: Tensor) -> tuple[int, int]:
    """Changes whenever the tensor's values were written, or replaced by others."""
    return local_part(tensor).data_ptr(), tensor._version


def batch_norms(models: Iterable[nn.Module]) -> dict[int, tuple[float, float]]:
    """id of a batch norm -> mean over channels of its running means, and of its running variances."""
    modules = [
        module
        for model in models
        for module in model.modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm)
        and module.running_mean is not None
        and module.running_var is not None
    ]
    mean = means([module.running_mean for module in modules])  # type: ignore[misc]
    variance = means([module.running_var for module in modules])  # type: ignore[misc]
    return {id(module): pair for module, pair in zip(modules, zip(mean, variance, strict=True), strict=True)}


@dataclass
class StepValues:
    """What was found out in one step, of all models together; keys are ids of parameters or modules."""

    gradients: dict[int, float] = field(default_factory=dict)
    """L2 norm of each gradient."""
    changes: dict[int, float] = field(default_factory=dict)
    """L2 norm of what the optimizer's step changed."""
    sizes: dict[int, float] = field(default_factory=dict)
    """L2 norm of what was there before it."""
    weights: dict[int, Moments] = field(default_factory=dict)
    batch_norms: dict[int, tuple[float, float]] = field(default_factory=dict)


class Measured(NamedTuple):
    """As ``StructureWriter.add_measurements`` takes it."""

    paths: list[str]
    subjects: list[int]
    columns: dict[str, list[float]]


def measurements_of(model: nn.Module, values: StepValues, outputs: Mapping[str, Mapping[str, float]]) -> Measured:
    """The table of one model.

    Args:
        model: The model; wrappers are seen through, so that paths are those of its structure.
        values: Of the step.
        outputs: Module path -> quantity -> value, as ``ModuleOutputs`` gives them.
    """
    table = ModuleTable(model)
    parameters, below = _parameters(table)
    rows = _Rows()
    for path, parameter in parameters.items():
        flags = {"requires_grad": float(parameter.requires_grad), "dtype": _dtype([parameter])}
        rows.add(path, 1, _of_parameters([parameter], values) | flags)
    for row, entry in enumerate(table.entries):
        module = entry.module()
        if module is None:
            continue
        of_module = _of_parameters(below[row], values) | {"mode": float(module.training)}
        if below[row]:
            trained = {parameter.requires_grad for parameter in below[row]}
            of_module["trained"] = PARTLY if len(trained) == 2 else TRAINED if trained.pop() else FROZEN
            of_module["dtype"] = _dtype(below[row])
        if id(module) in values.batch_norms:
            of_module["running_mean"], of_module["running_variance"] = values.batch_norms[id(module)]
        rows.add(entry.path, 0, of_module | dict(outputs.get(entry.path, {})))
    return Measured(*rows.columns())


class _Rows:
    def __init__(self) -> None:
        self._rows: dict[tuple[str, int], dict[str, float]] = {}

    def add(self, path: str, subject: int, values: Mapping[str, float]) -> None:
        self._rows.setdefault((path, subject), {}).update(values)

    def columns(self) -> tuple[list[str], list[int], dict[str, list[float]]]:
        names = dict.fromkeys(
            name for values in self._rows.values() for name, value in values.items() if value == value
        )
        # Twenty-nine bits of each double are 0 then, and the record half as long: nobody reads more digits.
        columns = {
            name: torch.tensor([values.get(name, NAN) for values in self._rows.values()], dtype=torch.float32).tolist()
            for name in names
        }
        paths = [path for path, _ in self._rows]
        return paths, [subject for _, subject in self._rows], columns


def _parameters(table: ModuleTable) -> tuple[dict[str, nn.Parameter], list[list[nn.Parameter]]]:
    """Each parameter once, under its first path; and for each module those at or below it, each once."""
    seen: dict[int, str] = {}
    parameters: dict[str, nn.Parameter] = {}
    below: list[dict[int, nn.Parameter]] = [{} for _ in table.entries]
    for path, tensor, row, is_buffer in table.tensors():
        if is_buffer or not isinstance(tensor, nn.Parameter):
            continue
        if id(tensor) not in seen:
            seen[id(tensor)] = path
            parameters[path] = tensor
        above = row
        while above >= 0:
            below[above][id(tensor)] = tensor
            above = table.entries[above].parent
    return parameters, [list(found.values()) for found in below]


def _of_parameters(parameters: Iterable[nn.Parameter], values: StepValues) -> dict[str, float]:
    """Quantities of some parameters, as if they were one vector."""
    keys = [id(parameter) for parameter in parameters]
    found: dict[str, float] = {}
    gradients = [values.gradients[key] for key in keys if key in values.gradients]
    if gradients:
        norm = math.sqrt(sum(value * value for value in gradients))
        found["gradient_norm"] = norm if math.isfinite(norm) else math.inf
    weights = [values.weights[key] for key in keys if key in values.weights]
    if weights:
        together = joined(weights)
        if together.elements:
            found["weight_norm"] = math.sqrt(sum(part.norm**2 for part in weights if part.mean == part.mean))
            found["weight_std"] = together.std
    sizes = sum(values.sizes[key] ** 2 for key in keys if key in values.sizes)
    if sizes > 0:
        changes = sum(values.changes[key] ** 2 for key in keys if key in values.sizes)
        found["update_ratio"] = math.sqrt(changes / sizes)
    return found


def _dtype(parameters: Iterable[nn.Parameter]) -> float:
    """Which of the known element types all of them have."""
    names = {str(parameter.dtype).removeprefix("torch.") for parameter in parameters}
    name = names.pop() if len(names) == 1 else "mixed"
    return float(DTYPES.index(name if name in DTYPES else "other"))
