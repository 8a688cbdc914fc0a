"""Runs the kernels of a stored record again and compares every value with what the model computed.

What the record does not hold (weights, inputs, constants) is taken from the observed run: the contents that a value had
when a kernel first read it. Everything else must follow from the record.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from tb_plugin_structure.capture import observe
from tb_plugin_structure.capture.arguments import decode_arguments
from tb_plugin_structure.capture.nested import named_tensors
from tb_plugin_structure.records.structure import Structure


class Mismatch(AssertionError):
    """A value that came out different."""


@dataclass
class Observed:
    """Contents of tensors around each kernel."""

    inputs: list[list[Tensor]] = field(default_factory=list)
    results: list[list[Tensor]] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)

    def before_kernel(self, func: Any, args: Any, kwargs: Any, call: Any) -> None:
        self.inputs.append([kept(tensor) for tensor in flat((list(args), kwargs))])

    def after_kernel(self, func: Any, args: Any, kwargs: Any, result: Any, call: Any) -> None:
        self.results.append([kept(tensor) for tensor in results_of(func, args, kwargs, result)])


def flat(value: Any) -> list[Tensor]:
    return [tensor for _, tensor in named_tensors(value)]


def kept(tensor: Tensor) -> Tensor:
    """A copy with the same strides that nothing changes any more."""
    with torch.no_grad():
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested or tensor.is_conj():
            return tensor.detach().clone()
        low = tensor.storage_offset()
        extent = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
        whole = tensor.detach().as_strided((max(0, extent) if tensor.numel() else 0,), (1,), low).clone()
        return whole.as_strided(tensor.shape, tensor.stride(), 0)


def results_of(func: Any, args: Any, kwargs: Any, result: Any) -> list[Tensor]:
    """The tensors of the column ``kernels.outputs``: what was returned, then what was written and not returned."""
    found = flat(result)
    schema = getattr(func, "_schema", None)
    if schema is not None:
        for position, argument in enumerate(schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                value = args[position] if position < len(args) else kwargs.get(argument.name)
                found += [tensor for tensor in flat([value]) if not any(tensor is other for other in found)]
    return found


def function_of(name: str) -> Callable[..., Any]:
    namespace, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)  # type: ignore[no-any-return]


def record(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Structure, Observed]:
    """Observe one pass; the structure has been through its stored form."""
    observed = Observed()
    torch.manual_seed(7)
    with observe({"model": model}, listeners=[observed], gradients=False) as region:
        output = model(*args, **kwargs)
    observed.outputs = [kept(tensor) for tensor in flat(output)]
    structure = Structure.decode(region.structures["model"].encode())
    assert structure.kernels.rows == len(observed.inputs) == len(observed.results)
    return structure, observed


def bits(tensor: Tensor) -> bytes:
    if tensor.is_meta:
        return b""
    if tensor._is_zerotensor():  # zeros without memory, as tangents are
        tensor = torch.zeros(tensor.shape, dtype=tensor.dtype)
    if tensor.layout is torch.strided and not tensor.is_nested:
        tensor = tensor.resolve_neg()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    if tensor.is_nested:
        tensor = torch.cat([part.flatten() for part in tensor.unbind()])
    tensor = tensor.resolve_conj()
    flat = tensor.detach().cpu().contiguous().flatten()
    flat = flat.as_strided(flat.shape, (1,))  # a single element may have any stride
    return bytes(flat.view(torch.uint8).numpy()) if tensor.numel() else b""


def replay(structure: Structure, observed: Observed, *, slice_of_output: bool = False) -> int:
    """Run the kernels again. Returns how many values were compared.

    With `slice_of_output` only those kernels run from which, by the record's edges, the model's outputs come, and only
    the outputs are compared: an edge that is missing shows.
    """
    kernels, tensors = structure.kernels, structure.tensors
    inputs, outputs = kernels.column_lists("inputs"), kernels.column_lists("outputs")
    wanted = needed(structure) if slice_of_output else set(range(kernels.rows))
    values: dict[int, Tensor] = {}
    by_storage: dict[int, Tensor] = {}
    storages = tensors["storage"].tolist()
    start_of: dict[int, int] = {}
    compared = 0
    unwritten: set[int] = set()
    ran: set[int] = set()
    torch.manual_seed(7)

    def given(row: int, contents: Tensor) -> Tensor:
        """A value that no kernel made; values in one storage share it."""
        other = by_storage.get(storages[row])
        if other is None:
            made = contents.clone() if contents.layout is not torch.strided or contents.is_quantized else kept(contents)
        elif contents.layout is not torch.strided:
            made = other
        else:
            strides, offset = tensors.values("strides", row).tolist(), int(tensors["storage_offset"][row])
            start = max(0, offset - start_of.get(storages[row], 0))
            made = torch.empty(0, dtype=contents.dtype).set_(
                other.untyped_storage(), start, structure.shape(row), strides
            )
        if by_storage.setdefault(storages[row], made) is made and other is None:
            start_of[storages[row]] = int(tensors["storage_offset"][row])  # the copy begins where the value did
        return made

    with torch.no_grad():
        for kernel in range(kernels.rows):
            if kernel not in wanted:
                continue
            for position, row in enumerate(inputs[kernel]):
                if row not in values:
                    # What a write through another view changed is a value of the kernel that wrote.
                    if tensors["producer"][row] >= 0 and not (
                        tensors["producer"][row] in ran and storages[row] in by_storage
                    ):
                        raise Mismatch(f"kernel {kernel} reads value {row} before kernel {tensors['producer'][row]}")
                    values[row] = given(row, observed.inputs[kernel][position])
                elif row in unwritten:  # filled by C++ code that does not go through the dispatcher
                    values[row].copy_(observed.inputs[kernel][position])
                    unwritten.discard(row)
            name = kernels.text("name", kernel)
            func = function_of(name)
            args, kw = decode_arguments(kernels.text("arguments", kernel), [values[row] for row in inputs[kernel]])
            try:
                result = func(*args, **kw)
            except RuntimeError as error:
                raise Mismatch(
                    f"kernel {kernel} ({name}) does not run on what the record says it read: {error}"
                ) from error
            ran.add(kernel)
            made = results_of(func, args, kw, result)
            fills_nothing = "empty" in name or "resize_" in name
            for row, tensor, expected in zip(outputs[kernel], made, observed.results[kernel], strict=False):
                values[row] = tensor
                by_storage.setdefault(storages[row], tensor)
                if fills_nothing:
                    unwritten.add(row)
                if fills_nothing or slice_of_output:
                    continue
                if tuple(tensor.shape) != structure.shape(row) or bits(tensor) != bits(expected):
                    raise Mismatch(f"kernel {kernel} ({name}) made another value {row}")
                compared += 1
        for row, expected in zip(structure.module_calls.values("outputs", 0).tolist(), observed.outputs, strict=True):
            # A tensor that was written through another view is a value of the kernel that wrote.
            tensor = values[row] if row in values else given(row, expected)
            if bits(tensor) != bits(expected):
                raise Mismatch(f"output value {row} is another one")
            compared += 1
    return compared


def needed(structure: Structure) -> set[int]:
    """Kernels that the model's outputs depend on, by the edges of the record."""
    producer = structure.tensors["producer"].tolist()
    inputs = structure.kernels.column_lists("inputs")
    also = structure.kernels.column_lists("also_reads")
    todo = [producer[row] for row in structure.module_calls.values("outputs", 0).tolist()]
    found: set[int] = set()
    while todo:
        kernel = todo.pop()
        if kernel >= 0 and kernel not in found:
            found.add(kernel)
            todo += [producer[row] for row in (*inputs[kernel], *also[kernel])]
    return found


def with_edge_moved(structure: Structure, kernel: int, position: int, row: int) -> Structure:
    """The same record with one edge bent: argument `position` of `kernel` reads value `row`."""
    values = structure.kernels["inputs"].copy()
    values[int(structure.kernels.offsets("inputs")[kernel]) + position] = row
    bent = Structure.decode(structure.encode())
    bent.kernels._values["inputs"] = values
    return bent


def arguments(structure: Structure, kernel: int) -> Any:
    return json.loads(structure.kernels.text("arguments", kernel))
