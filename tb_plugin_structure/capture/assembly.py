"""Turns what an observer appended into `Structure` records, one a model and one for what ran between them."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from tb_plugin_structure.capture.arguments import encode_arguments
from tb_plugin_structure.capture.autograd_links import link_autograd
from tb_plugin_structure.capture.dispatch import OUTSIDE, call_sites
from tb_plugin_structure.capture.events import ModuleCall
from tb_plugin_structure.capture.failures import capture_error
from tb_plugin_structure.capture.macs import has_formula, macs_of, may_multiply
from tb_plugin_structure.capture.observer import ObservedModel, Observer
from tb_plugin_structure.capture.operators import Attributes, Operator, OperatorNames
from tb_plugin_structure.capture.sharding import Spread
from tb_plugin_structure.capture.static_tables import StaticTables, dtype_name, outside_tables, size_of
from tb_plugin_structure.capture.value_flow import Array, Lists, ValueFlow, list_column, renumbered, sums
from tb_plugin_structure.capture.values import BUFFER, EXTERNAL, INPUT, KERNEL, PARAMETER
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import structure_pb2

NOBODY = -2
"""Owner of what belongs to no record: the gradient of one that ``loss.backward()`` starts from, and what follows it."""
_BACKWARD_ENTRY = "torch/autograd/__init__.py"
MAXIMUM_INPUTS_DESCRIBED = 256


def holds_nothing_alive(observer: Observer) -> bool:
    """Whether what was recorded can wait to be put together: no arguments but tensors, numbers and text, no sizes that
    are symbols, and no error, whose frames would keep the tensors of the pass."""
    if observer.failures or observer.fault is not None or observer.values.symbolic:
        return False
    overloads = {id(kernel[0]): kernel[0] for kernel in observer.kernels}
    return all(facts.has_plain_arguments for facts in overloads.values())


class Assembly:
    """Shared over the models of a region."""

    def __init__(self, observer: Observer, source: str) -> None:
        self.observer = observer
        self.values = observer.values
        borders = {call.begin for call in observer.calls} | {call.end for call in observer.calls}
        sites, self.sites, self.groups = call_sites(observer.kernels, borders)
        self.names = OperatorNames(sites, source)
        self.attributes = Attributes()
        self.rows_of_model: dict[int, Array] = {}
        """Model -> row of each value in the model's own record, -1 where it is not in it."""
        link_autograd(observer)
        self.ordinals = _ordinals(observer.calls)
        model_of_call = [call.model for call in observer.calls]
        starts_backward = [
            bool(site) and site[0][0].co_filename.replace(os.sep, "/").endswith(_BACKWARD_ENTRY) for site in sites
        ]
        self.owner = [
            model_of_call[kernel[1]] if kernel[1] >= 0 else NOBODY if starts_backward[site] else OUTSIDE
            for kernel, site in zip(observer.kernels, self.sites, strict=True)
        ]
        self.losses = [
            kernel[3][0] for number, kernel in enumerate(observer.kernels) if self.owner[number] == NOBODY and kernel[3]
        ]
        """Values that a backward pass started from."""
        for begin, end in observer.discarded():
            for number in range(begin, end):
                if self.owner[number] == OUTSIDE:
                    self.owner[number] = NOBODY
        metas = self.values.metas
        self.shapes: list[tuple[int, ...]] = [meta[0] for meta in metas]
        for row in self.values.symbolic:
            self.shapes[row] = tuple(map(size_of, self.shapes[row]))
        sizes: dict[int, int] = {}  # few metas are different ones
        for meta in metas:
            if id(meta) not in sizes:
                sizes[id(meta)] = math.prod(meta[0]) * meta[2].itemsize
        self.bytes = [sizes[id(meta)] for meta in metas]
        for row in self.values.symbolic:
            self.bytes[row] = math.prod(self.shapes[row]) * metas[row][2].itemsize
            if min(self.shapes[row], default=0) < 0:
                self.bytes[row] = 0  # unknown, not negative
        self.producers = np.array(self.values.producers, np.int64)
        # A storage is new where its number appears first; views and writes in place come later.
        storages = np.array(self.values.storages, np.int64)
        self.is_new_storage = np.zeros(len(storages), bool)
        self.is_new_storage[np.unique(storages, return_index=True)[1]] = True

    def structure(
        self, index: int, static: StaticTables | None, *, variant: str, config: Any, notes: Sequence[str]
    ) -> Structure:
        """The record of one model, or of what ran outside of all (index OUTSIDE, no static tables)."""
        observer = self.observer
        model = observer.models[index] if index >= 0 else None
        numbers = [kernel for kernel, owner in enumerate(self.owner) if owner == index]
        kernels = [observer.kernels[kernel] for kernel in numbers]
        calls = [number for number, call in enumerate(observer.calls) if call.model == index]
        entries = [observer.calls[call] for call in calls]
        operators = self.names.operators(
            kernels, [self.sites[kernel] for kernel in numbers], [self.groups[kernel] for kernel in numbers]
        )

        reads = [kernel[3] for kernel in kernels]
        also = [observer.also_reads.get(kernel, ()) for kernel in numbers]
        made = [observer.kernel_outputs[kernel] for kernel in numbers]
        call_reads = [[row for _, row in entry.inputs] for entry in entries]
        call_makes = [[row for _, row in entry.outputs] for entry in entries]
        kernel_lists = [list_column(lists) for lists in (reads, also, made)]
        call_lists = [list_column(lists) for lists in (call_reads, call_makes)]
        rows = np.unique(np.concatenate([flat for flat, _ in (*kernel_lists, *call_lists)]))
        local = np.full(len(self.producers) + 1, -1, np.int64)
        local[rows] = np.arange(len(rows))
        self.rows_of_model[index] = local

        sizes = np.array([operator.end - operator.begin for operator in operators], np.int64)
        operator_of = np.repeat(np.arange(len(operators)), sizes)
        flow = ValueFlow(self.producers, numbers, operator_of, len(operators))
        read_lists = flow.read_by_operators(kernel_lists[0], kernel_lists[1])
        made_lists = flow.made_by_operators(
            kernel_lists[2], kernel_lists[0], kernel_lists[1], call_lists[1][0], [made[op.end - 1] for op in operators]
        )

        encoded = [encode_arguments(kernel[4], kernel[5]) for kernel in kernels]
        macs = [self._macs(kernel, outputs) for kernel, outputs in zip(kernels, made, strict=True)]
        new_bytes = self._new_bytes(numbers, kernel_lists[2])
        starts = np.array([op.begin for op in operators], np.int64)
        attributes = [self.attributes.of(kernels[op.begin : op.end], encoded[op.begin : op.end]) for op in operators]
        tensors = self._tensors(index, rows.tolist(), numbers, static)
        modules, parameters = outside_tables() if static is None else (static.modules, static.parameters)
        columns: dict[str, dict[str, Any]] = {
            "modules": modules | {"calls": np.bincount([e.module for e in entries], minlength=len(modules["path"]))},
            "parameters": parameters | ({"bytes": static.bytes} if static is not None else {}),
            "module_calls": self._module_calls(
                calls, entries, numbers, starts, [renumbered(local, x) for x in call_lists]
            ),
            "operators": {
                "name": [op.name for op in operators],
                "call": self._calls_of(operators, kernels, calls),
                "kernel_begin": starts,
                "kernel_end": starts + sizes,
                "inputs": renumbered(local, read_lists),
                "outputs": renumbered(local, made_lists),
                "attribute_names": [names for names, _ in attributes],
                "attribute_values": [values for _, values in attributes],
                "source": [op.source for op in operators],
                "macs": sums(np.array(macs, np.float64), starts),
                "activation_bytes": sums(new_bytes, starts),
                "uncertain": [int(op.uncertain) for op in operators],
            },
            "kernels": {
                "name": [kernel[0].name for kernel in kernels],
                "operator": operator_of,
                "inputs": renumbered(local, kernel_lists[0]),
                "also_reads": renumbered(local, kernel_lists[1]),
                "outputs": renumbered(local, kernel_lists[2]),
                "arguments": encoded,
                "macs": macs,
            },
            "tensors": tensors,
        }
        if model is None:
            columns["tensors"] |= self._links_to_models(rows.tolist(), tensors["origin"])
            columns["modules"]["calls"] = [1]
            losses = [int(local[row]) for row in dict.fromkeys(self.losses) if local[row] >= 0]
            columns["module_calls"] = _outside_call(len(operators), losses)
        header = structure_pb2.StructureHeader(
            model=model.name if model else "outside",
            model_class=static.model_class.__name__ if static else "outside",
            variant=variant,
            notes=list(notes),
        )
        header.totals.macs = float(sum(value for value in macs if value == value))
        header.totals.kernels_without_formula = sum(value != value for value in macs)
        header.totals.activation_bytes = int(new_bytes.sum())
        if model is not None and static is not None:
            self._complete(header, model, static)
        return Structure.build(header, columns, config)

    # ---- kernels and operators

    def _macs(self, kernel: Any, outputs: Sequence[int]) -> float:
        packet = kernel[0].packet
        if not has_formula(packet):
            return math.nan if may_multiply(packet) else 0.0
        shapes = self.shapes
        return macs_of(packet, [shapes[row] for row in kernel[3]], [shapes[row] for row in outputs], kernel[4])

    def _new_bytes(self, numbers: Sequence[int], made: Lists) -> Array:
        """Bytes of new storage that each kernel made: views and results in place are nothing new."""
        flat, offsets = made
        kernel = np.repeat(np.array(numbers, np.int64), np.diff(offsets))
        position = np.repeat(np.arange(len(numbers)), np.diff(offsets))
        new = self.is_new_storage[flat] & (self.producers[flat] == kernel)
        sizes = np.array([self.bytes[row] for row in flat.tolist()], np.float64)
        return np.bincount(position[new], weights=sizes[new], minlength=len(numbers))

    def _calls_of(self, operators: Sequence[Operator], kernels: Sequence[Any], calls: Sequence[int]) -> list[int]:
        row_of = {call: row for row, call in enumerate(calls)}
        row_of[OUTSIDE] = 0
        return [row_of[kernels[op.begin][1]] for op in operators]

    # ---- module calls

    def _module_calls(
        self,
        calls: Sequence[int],
        entries: Sequence[ModuleCall],
        numbers: Sequence[int],
        starts: Array,
        lists: Sequence[Lists],
    ) -> dict[str, Any]:
        row_of = {call: row for row, call in enumerate(calls)}
        first_kernels = np.array(numbers, np.int64)[starts] if len(starts) else np.zeros(0, np.int64)
        return {
            "module": [entry.module for entry in entries],
            "parent": [row_of[entry.parent] if entry.parent >= 0 else -1 for entry in entries],
            "ordinal": [self.ordinals[call] for call in calls],
            "operator_begin": np.searchsorted(first_kernels, [entry.begin for entry in entries]),
            "operator_end": np.searchsorted(first_kernels, [entry.end for entry in entries]),
            "inputs": lists[0],
            "input_names": [[name for name, _ in entry.inputs] for entry in entries],
            "outputs": lists[1],
            "output_names": [[name for name, _ in entry.outputs] for entry in entries],
            "raised": [int(entry.raised) for entry in entries],
            "modified_after_return": [int(self._modified_later(entry)) for entry in entries],
            "duration_ns": [math.nan] * len(entries),
        }

    def _modified_later(self, call: ModuleCall) -> bool:
        """Whether a returned tensor was written in place after the call."""
        values = self.values
        for _, row in call.outputs:
            writes = values.writes.get(values.storages[row])
            if writes is None or values.producers[writes[-1]] < call.end:
                continue  # no write is later than the last one
            if any(values.producers[other] >= call.end for other in values.through_storage(row)):
                return True
        return False

    # ---- tensors

    def _tensors(self, index: int, rows: list[int], numbers: Sequence[int], static: StaticTables | None) -> Any:
        values, observer = self.values, self.observer
        own = observer.models[index].name if index >= 0 else ""
        local_kernels = np.full(len(observer.kernels) + 1, -1, np.int64)  # a producer of -1 reads the last entry
        local_kernels[numbers] = np.arange(len(numbers))
        producer = local_kernels[self.producers[rows]].tolist() if rows else []
        # What a model is called with is its input, also when the region computed it beforehand.
        given = {
            row: argument
            for call in observer.calls
            if call.model == index and call.parent < 0
            for argument, row in call.inputs
        }
        origin = [KERNEL] * len(rows)
        parameter = [-1] * len(rows)
        names = [""] * len(rows)
        for position, row in enumerate(rows):
            if producer[position] >= 0:
                continue
            kernel = values.producers[row]
            number, name = -1, ""
            if kernel >= 0 and row in given and self.owner[kernel] < 0:
                kind, name = INPUT, given[row]
            elif kernel >= 0:
                kind, name = EXTERNAL, self._external_name(kernel)
            else:
                source = values.sources[row]
                kind, name = source.origin, source.name
                if source.model and source.model != own:
                    kind, name = EXTERNAL, f"{source.model}/{source.name}"
                elif kind in (PARAMETER, BUFFER) and static is not None:
                    number = static.row_of_path.get(source.name, -1)
            origin[position], parameter[position], names[position] = kind, number, name
        spreads = [values.spreads.get(row) for row in rows] if values.spreads else []
        metas = [values.metas[row] for row in rows]
        storages: dict[int, int] = {}
        devices = {device: str(device) for device in {meta[3] for meta in metas}}
        layouts = {layout: str(layout).removeprefix("torch.") for layout in {meta[4] for meta in metas}}
        dtypes = {dtype: dtype_name(dtype) for dtype in {meta[2] for meta in metas}}
        return {
            "shape": list_column([self.shapes[row] for row in rows]),
            "strides": list_column([meta[1] for meta in metas]),
            "dtype": [dtypes[meta[2]] for meta in metas],
            "device": [devices[meta[3]] for meta in metas],
            "layout": [layouts[meta[4]] for meta in metas],
            "requires_grad": [values.requires_grad[row] for row in rows],
            "origin": origin,
            "producer": producer,
            "parameter": parameter,
            "name": names,
            "storage": [storages.setdefault(values.storages[row], len(storages)) for row in rows],
            "storage_offset": [meta[5] for meta in metas],
            "bytes": [self.bytes[row] for row in rows],
        } | _spread_columns(spreads)

    def _links_to_models(self, rows: Sequence[int], origins: Sequence[int]) -> dict[str, Any]:
        """Where each external value stands in the record of the model that made it."""
        values, models = self.values, self.observer.models
        numbers = {model.name: index for index, model in enumerate(models)}
        found = []
        for row, origin in zip(rows, origins, strict=True):
            kernel = values.producers[row]
            index = -1
            if origin == EXTERNAL:
                index = self.owner[kernel] if kernel >= 0 else numbers.get(values.sources[row].model, -1)
            found.append(int(self.rows_of_model[index][row]) if index >= 0 and index in self.rows_of_model else -1)
        return {"model_tensor": found} if any(row >= 0 for row in found) else {}

    def _external_name(self, kernel: int) -> str:
        """'model/module path' of the call that made a value, 'outside' for what ran between models."""
        call = self.observer.kernels[kernel][1]
        if call < 0:
            return "outside"
        entry = self.observer.calls[call]
        model = self.observer.models[entry.model]
        path = model.table.entries[entry.module].path
        return f"{model.name}/{path}" if path else model.name

    def maker(self, row: int) -> str:
        """'model/module path' of the call that made a value, '' for what no model made and for -1."""
        kernel = self.values.producers[row] if row >= 0 else -1
        name = self._external_name(kernel) if kernel >= 0 else ""
        return "" if name == "outside" else name

    # ---- header

    def _complete(self, header: structure_pb2.StructureHeader, model: ObservedModel, static: StaticTables) -> None:
        totals = header.totals
        for elements, size, buffer, trained in zip(
            static.elements, static.bytes, static.is_buffer, static.requires_grad, strict=True
        ):
            if buffer:
                totals.buffer_bytes += size
            else:
                totals.parameters += elements
                totals.trainable_parameters += elements if trained else 0
                totals.parameter_bytes += size
        header.provenance.CopyFrom(static.provenance)
        if model.arguments is not None:
            positional, named = model.arguments
            for name, outline in (*((str(at), item) for at, item in enumerate(positional)), *named.items()):
                _describe(header, name, outline)
        error = capture_error(self.observer, model)
        if error is not None:
            header.error.CopyFrom(error)


def _ordinals(calls: Sequence[ModuleCall]) -> list[int]:
    """For each call, how often its module was called before within the same call."""
    counts: dict[tuple[int, int, int], int] = {}
    found: list[int] = []
    for call in calls:
        key = (call.parent, call.model, call.module)
        ordinal = counts.get(key, 0)
        counts[key] = ordinal + 1
        found.append(ordinal)
    return found


def _spread_columns(spreads: Sequence[Spread | None]) -> dict[str, Any]:
    """Columns of values that are spread over processes; none when no value is."""
    if not any(spreads):
        return {}
    return {
        "local_shape": list_column([spread.local_shape if spread else () for spread in spreads]),
        "placement": [spread.placement if spread else "" for spread in spreads],
    }


def _outside_call(operators: int, losses: list[int]) -> dict[str, Any]:
    """One call that stands for all that ran between the models; it returns what backward passes started from."""
    return {
        "module": [0],
        "parent": [-1],
        "ordinal": [0],
        "operator_begin": [0],
        "operator_end": [operators],
        "inputs": [[]],
        "input_names": [[]],
        "outputs": [losses],
        "output_names": [["loss"] * len(losses)],
        "raised": [0],
        "modified_after_return": [0],
        "duration_ns": [math.nan],
    }


def _describe(header: structure_pb2.StructureHeader, name: str, outline: Any) -> None:
    if len(header.inputs) >= MAXIMUM_INPUTS_DESCRIBED:
        return
    if isinstance(outline, dict):
        for key, item in outline.items():
            _describe(header, f"{name}.{key}", item)
    elif isinstance(outline, list):
        for position, item in enumerate(outline):
            _describe(header, f"{name}.{position}", item)
    else:
        header.inputs.add(name=name, description=outline)
