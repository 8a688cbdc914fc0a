"""How a value of a recorded loss came about: seen back through views, casts and scalings, into the models as well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tb_plugin_structure.analysis.audit.arguments import Arguments, kernel_arguments
from tb_plugin_structure.analysis.audit.naming import base_name
from tb_plugin_structure.analysis.audit.recorded_loss import RecordedLoss
from tb_plugin_structure.analysis.audit.side import Side
from tb_plugin_structure.records.structure import Structure

PRODUCTS = frozenset({"addmm", "mm", "bmm", "baddbmm", "linear", "convolution", "_convolution", "matmul"})
"""What a layer without an activation ends in: its results are logits or plain features."""

_KEEPING = frozenset(
    {
        "view", "_unsafe_view", "reshape", "permute", "transpose", "t", "expand", "squeeze", "unsqueeze", "slice",
        "select", "index", "index_select", "masked_select", "flatten", "clone", "contiguous", "alias", "detach",
        "_to_copy", "to", "lift_fresh",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Made:
    """The kernel that made a value.

    Attributes:
        kernel: Its base name: ``_softmax``, ``addmm``.
        arguments: Its arguments.
        shape: The shape of its result.
        scale: The product of the numbers that its result was multiplied with in the loss.
        role: Model whose own kernel it is; "" for the loss.
        inputs: Rows of its tensors, in the record of the loss or of that model.
        structure: That record.
        operator: Name of the operator that it is part of: ``dropout``.
    """

    kernel: str
    arguments: Arguments
    shape: tuple[int, ...]
    scale: float
    role: str
    inputs: tuple[int, ...]
    structure: Structure
    operator: str

    def producer(self, tensor: int) -> str:
        """Base name of the kernel that made one of its tensors; "" for none."""
        kernel = int(self.structure.tensors["producer"][tensor])
        return base_name(self.structure.kernels.text("name", kernel)) if kernel >= 0 else ""


def made_by(loss: RecordedLoss, sides: Mapping[str, Side], tensor: int) -> Made | None:
    """The kernel that made a value, of the loss or of the model that it comes from; None where it is not known."""
    structure, role, scale = loss.outside, "", 1.0
    while True:
        kernel = int(structure.tensors["producer"][tensor])
        if kernel < 0:
            side = sides.get(next(iter(loss.origin.get(tensor, ())), "")) if not role else None
            row = loss.model_tensor(tensor, side.structure) if side is not None else -1
            if side is None or row < 0:
                return None
            structure, role, tensor = side.structure, side.role, row
            continue
        name = base_name(structure.kernels.text("name", kernel))
        arguments = kernel_arguments(structure, kernel)
        inputs = structure.kernels.values("inputs", kernel).tolist()
        factor = _factor(name, arguments)
        if inputs and (name in _KEEPING or factor is not None):
            if factor is not None and not role:
                scale *= factor
            tensor = int(inputs[0])
            continue
        operator = structure.operators.text("name", int(structure.kernels["operator"][kernel]))
        read = tuple(map(int, inputs))
        return Made(name, arguments, structure.shape(tensor), scale, role, read, structure, operator)


def is_layer(made: Made | None, loss: RecordedLoss, sides: Mapping[str, Side]) -> bool:
    """Whether a value is what a layer gave, with no function after it: logits or a plain feature. A product of two
    computed values is none: attention times probabilities, or gates times the experts' probabilities, are probabilities
    themselves."""
    if made is None or made.kernel not in PRODUCTS:
        return False
    structure = next((side.structure for side in sides.values() if side.role == made.role), loss.outside)
    return any(_is_parameter(structure, tensor) for tensor in made.inputs)


def _is_parameter(structure: Structure, tensor: int) -> bool:
    """Whether a value is a parameter, seen through views and casts."""
    while (kernel := int(structure.tensors["producer"][tensor])) >= 0:
        inputs = structure.kernels.values("inputs", kernel).tolist()
        if not inputs or base_name(structure.kernels.text("name", kernel)) not in _KEEPING:
            return False
        tensor = int(inputs[0])
    return int(structure.tensors["parameter"][tensor]) >= 0 or structure.tensors.text("name", tensor) == "parameter"


def unscaled(side: Side, tensor: int) -> int:
    """The value of a model that another one is, seen back through views, casts and scalings."""
    producers = side.structure.tensors["producer"]
    while (kernel := int(producers[tensor])) >= 0:
        name, inputs = side.names.kernel_names[kernel], side.names.inputs[kernel]
        if not inputs or (name not in _KEEPING and _factor(name, side.names.arguments(kernel)) is None):
            break
        tensor = int(inputs[0])
    return tensor


def _factor(name: str, arguments: Arguments) -> float | None:
    """The number by which a kernel scales its tensor; None for kernels that do something else."""
    number = arguments.get(1, "other")
    if name not in ("mul", "div") or isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return float(number) if name == "mul" else 1.0 / number if number else None


def axis_of(made: Made) -> int | None:
    """The dimension of a softmax, counted from the front; None where the record does not say."""
    axis = made.arguments.integer(1, "dim")
    return axis % len(made.shape) if axis is not None and made.shape else None


def temperature_of(loss: RecordedLoss, sides: Mapping[str, Side], tensor: int) -> float | None:
    """What the logits behind a softmax of the loss were divided by; None where that is no number."""
    softmax = made_by(loss, sides, tensor)
    if softmax is None or softmax.role or softmax.kernel not in ("_softmax", "_log_softmax"):
        return None
    logits = made_by(loss, sides, softmax.inputs[0])
    return 1.0 / logits.scale if logits is not None and logits.role and logits.scale else None


@dataclass(frozen=True)
class Divergence:
    """One call of ``kl_div``: the kernel to name it by, the values given as input and as target."""

    kernel: int
    input: int
    target: int
    log_target: bool


def divergences(loss: RecordedLoss) -> Iterator[Divergence]:
    """Every ``kl_div`` that the step ran: ``xlogy(target, target) - target * input``, or with the logarithm as target
    ``exp(target) * (target - input)``."""
    kernels = loss.outside.kernels
    operators = kernels["operator"].tolist()
    groups: dict[int, list[int]] = {}
    for kernel, operator in enumerate(operators):
        if loss.outside.operators.text("name", operator) == "kl_div":
            groups.setdefault(operator, []).append(kernel)
    for group in groups.values():
        made = {int(t) for kernel in group for t in kernels.values("outputs", kernel)}
        by_name = {loss.kernels[kernel]: loss.inputs(kernel) for kernel in reversed(group)}
        log_target = "exp" in by_name and "xlogy" not in by_name
        alone = by_name.get("exp" if log_target else "xlogy")
        given = [t for kernel in group for t in loss.inputs(kernel) if t not in made]
        others = [t for t in given if alone and t != alone[0]]
        if alone and others:
            yield Divergence(group[0], others[0], alone[0], log_target)
