"""A structure as canonical text, for ``git diff``: equal structures give equal text, and a change shows where it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tb_plugin_structure.records.schema import ORIGINS

if TYPE_CHECKING:
    from tb_plugin_structure.records.structure import Structure


def canonical_text(structure: Structure) -> str:
    """Parameters, then module calls and operators in the order in which they ran, one a line.

    Values are named after what made them and never numbered, so that an added layer changes its own lines and those
    that read it. What differs from run to run or from machine to machine is left out: source lines, devices, times,
    memory addresses, and the step.
    """
    return "\n".join([*_head(structure), *_parameters(structure), *_pass(structure)]) + "\n"


def _head(structure: Structure) -> Iterator[str]:
    header = structure.header
    variant = f" variant {header.variant}" if header.variant else ""
    yield f"model {header.model_class}{variant}, {'training' if header.provenance.training else 'evaluation'}"
    for argument in header.inputs:
        yield f"input {argument.name}: {argument.description}"
    if header.HasField("error"):
        yield f"stopped by {header.error.type}"


def _parameters(structure: Structure) -> Iterator[str]:
    table = structure.parameters
    for row in range(table.rows):
        kind = "buffer" if table["is_buffer"][row] else "parameter"
        shape = "×".join(map(str, table.values("shape", row).tolist()))
        frozen = "" if table["is_buffer"][row] or table["requires_grad"][row] else " frozen"
        aliases = "".join(f" = {alias}" for alias in table.texts("aliases", row))
        yield f"{kind} {table.text('path', row)}{aliases}: {table.text('dtype', row)}[{shape}]{frozen}"


def _pass(structure: Structure) -> Iterator[str]:
    """Calls are in the order in which they began and know their first operator, so the two orders merge."""
    calls, operators = structure.module_calls, structure.operators
    begins = calls["operator_begin"].tolist()
    depths: list[int] = []
    for parent in calls["parent"].tolist():
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
    names = _Names(structure)
    call = 0
    for operator in range(operators.rows + 1):
        while call < calls.rows and (begins[call] <= operator or operator == operators.rows):
            yield f"{'  ' * depths[call]}call {_call(structure, call)}"
            call += 1
        if operator < operators.rows:
            within = int(operators["call"][operator])
            yield f"{'  ' * (depths[within] + 1)}{names.operator(operator, within)}"


def _call(structure: Structure, call: int) -> str:
    module = int(structure.module_calls["module"][call])
    settings = ", ".join(f"{name}={value}" for name, value in structure.attributes(module).items())
    return f"{structure.call_path(call) or '(model)'}: {structure.call_class(call)}({settings})"


class _Names:
    """Names of values: the argument, the path of the parameter, or the module call or operator that made it."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._operator_of = structure.kernels["operator"].tolist()
        self._origin = structure.tensors["origin"].tolist()
        self._producer = structure.tensors["producer"].tolist()

    def operator(self, operator: int, call: int) -> str:
        table = self._structure.operators
        pairs = zip(table.texts("attribute_names", operator), table.texts("attribute_values", operator), strict=True)
        settings = "".join(f" {name}={value}" for name, value in pairs)
        reads = ", ".join(self._value(tensor, call) for tensor in table.values("inputs", operator).tolist())
        makes = ", ".join(self._type(tensor) for tensor in table.values("outputs", operator).tolist())
        return f"{table.text('name', operator)}{settings}: {reads or '-'} -> {makes or '-'}"

    def _value(self, tensor: int, call: int) -> str:
        kernel = self._producer[tensor]
        if kernel < 0:
            return self._structure.tensors.text("name", tensor) or ORIGINS[self._origin[tensor]]
        operator = self._operator_of[kernel]
        maker = int(self._structure.operators["call"][operator])
        if maker == call:
            return self._structure.operators.text("name", operator)
        return self._structure.call_path(maker) or "(model)"

    def _type(self, tensor: int) -> str:
        shape = "×".join(map(str, self._structure.shape(tensor)))
        return f"{self._structure.tensors.text('dtype', tensor)}[{shape}]"
