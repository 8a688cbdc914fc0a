"""Turns what an observer appended into `Structure` records, one a model and one for what ran between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tb_plugin_structure.capture import provenance
from tb_plugin_structure.capture.arguments import encode_arguments
from tb_plugin_structure.capture.call_sites import (
    Site,
    source_location,
    source_text,
    split_repetitions,
    written_at,
)
from tb_plugin_structure.capture.failures import capture_error
from tb_plugin_structure.capture.macs import has_formula, macs_of, may_multiply
from tb_plugin_structure.capture.modules import attributes_of
from tb_plugin_structure.capture.observer import OUTSIDE, ObservedModel, Observer
from tb_plugin_structure.capture.sketches import sketch
from tb_plugin_structure.capture.values import BUFFER, CONSTANT, EXTERNAL, INPUT, KERNEL, PARAMETER, Meta
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import structure_pb2

MAXIMUM_ATTRIBUTE_TEXT = 200
NOBODY = -2
"""Owner of what belongs to no record: the gradient of one that ``loss.backward()`` starts from."""
_BACKWARD_ENTRY = "torch/autograd/__init__.py"
_NOT_NAMING = frozenset(
    [
        "view",
        "_unsafe_view",
        "reshape",
        "t",
        "transpose",
        "permute",
        "expand",
        "unsqueeze",
        "squeeze",
        "slice",
        "select",
        "alias",
        "detach",
        "clone",
        "_to_copy",
        "as_strided",
        "unbind",
        "split",
        "split_with_sizes",
        "contiguous",
        "lift_fresh",
        "empty",
    ]
)
"""Kernels that prepare or hand on; another kernel of the group names it when the source does not."""

_PLAIN_NAMES = {"_local_scalar_dense": "item", "native_layer_norm": "layer_norm", "_to_copy": "to"}


class StaticTables:
    """Modules and parameters of a model as columns. Read after the pass: lazy modules have their shapes by then."""

    def __init__(self, model: ObservedModel) -> None:
        self.model = model
        entries = model.table.entries
        registrations = model.table.tensors()
        row_of: dict[int, int] = {}
        paths: list[str] = []
        aliases: list[list[str]] = []
        tensors: list[Tensor] = []
        is_buffer: list[int] = []
        owned: list[list[int]] = [[] for _ in entries]
        self.row_of_path: dict[str, int] = {}
        for path, tensor, module, buffer in registrations:
            row = row_of.get(id(tensor))
            if row is None:
                row = row_of[id(tensor)] = len(tensors)
                paths.append(path)
                aliases.append([])
                tensors.append(tensor)
                is_buffer.append(int(buffer))
            else:
                aliases[row].append(path)
            self.row_of_path[path] = row
            owned[module].append(row)
        self.tensors = tensors
        self.is_buffer = is_buffer
        shapes = [_shape(tensor) for tensor in tensors]
        self.elements = [math.prod(shape) for shape in shapes]
        self.bytes = [count * tensor.element_size() for count, tensor in zip(self.elements, tensors, strict=True)]
        with torch.no_grad():
            sketches = [sketch(tensor) for tensor in tensors]
        self.parameters = {
            "path": paths,
            "aliases": aliases,
            "shape": shapes,
            "dtype": [_dtype_name(tensor.dtype) for tensor in tensors],
            "device": [str(tensor.device) for tensor in tensors],
            "is_buffer": is_buffer,
            "requires_grad": [int(tensor.requires_grad) for tensor in tensors],
            "bytes": self.bytes,
            "sketch": sketches,
        }
        modules = [entry.module() for entry in entries]
        attributes = [attributes_of(module) if module is not None else {} for module in modules]
        self.modules: dict[str, Any] = {
            "path": [entry.path for entry in entries],
            "aliases": [entry.aliases for entry in entries],
            "class_name": [_class_name(module) for module in modules],
            "class_module": [type(module).__module__ if module is not None else "" for module in modules],
            "parent": [entry.parent for entry in entries],
            "attribute_names": [list(found) for found in attributes],
            "attribute_values": [list(found.values()) for found in attributes],
            "parameters": owned,
            "training": [int(module.training) if module is not None else 0 for module in modules],
        }


def _class_name(module: Any) -> str:
    """Class of a module; for TorchScript the class it was made from."""
    if module is None:
        return ""
    original = getattr(module, "original_name", None)
    return original if isinstance(original, str) and original else type(module).__name__


def _shape(tensor: Tensor) -> list[int]:
    try:
        return [_size(size) for size in tensor.shape]
    except (RuntimeError, NotImplementedError):  # a lazy parameter that was never materialised
        return []


def _size(size: Any) -> int:
    if type(size) is int:
        return size
    try:
        return int(size)
    except Exception:  # a symbol: the ragged dimension of a jagged tensor
        return -1


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


class Assembly:
    """Shared over the models of a region: kernels as text, costs, operators."""

    def __init__(self, observer: Observer, source: str) -> None:
        self.observer = observer
        self.source = source
        self.values = observer.values
        self._names: dict[Any, tuple[str, str]] = {}
        self.model_of_call = [call.model for call in observer.calls]
        starts_backward = [
            bool(site) and site[0][0].co_filename.replace("\\", "/").endswith(_BACKWARD_ENTRY)
            for site in observer.sites
        ]
        self.owner = [
            self.model_of_call[call] if call >= 0 else NOBODY if starts_backward[site] else OUTSIDE
            for call, site in zip(observer.kernel_calls, observer.kernel_sites, strict=True)
        ]
        self._link_autograd()
        self._shapes: dict[int, tuple[int, ...]] = {}

    # ---- kernels

    def _kernel_name(self, func: Any) -> tuple[str, str]:
        known = self._names.get(func)
        if known is None:
            text = str(func)
            packet = (
                func._schema.name if hasattr(func, "_schema") else f"higher_order::{getattr(func, '__name__', text)}"
            )
            known = self._names[func] = (text, packet)
        return known

    def shape(self, row: int) -> tuple[int, ...]:
        shape = self._shapes.get(row)
        if shape is None:
            shape = self._shapes[row] = tuple(_size(size) for size in self.values.metas[row].shape)
        return shape

    def _link_autograd(self) -> None:
        """Extend `also_reads` by what reaches a value outside the dispatcher (see :mod:`values`)."""
        observer, linked = self.observer, self.values.linked
        if not linked:
            return
        for kernel, rows in enumerate(observer.kernel_inputs):
            extra = [source for row in rows if row in linked for source in linked[row]]
            if extra:
                known = observer.also_reads.get(kernel, [])
                observer.also_reads[kernel] = sorted(set(known).union(extra).difference(rows))

    # ---- records

    def structure(self, index: int, *, variant: str, config: Any, notes: Sequence[str]) -> Structure:
        """The record of one model, or of what ran outside of all (index -1)."""
        observer = self.observer
        model = observer.models[index] if index >= 0 else None
        static = StaticTables(model) if model is not None else None
        kernels = [kernel for kernel, owner in enumerate(self.owner) if owner == index]
        calls = [call for call, entry in enumerate(observer.calls) if entry.model == index] if model else []
        local_call = {call: position for position, call in enumerate(calls)}
        if model is None:
            local_call[OUTSIDE] = 0

        # operators: groups of kernels from one call site, split where the site ran several times
        operators: list[tuple[int, int, Site, str, bool]] = []  # (first kernel, one past the last, site, name, guess)
        position = 0
        for _, members in groupby(kernels, key=observer.kernel_groups.__getitem__):
            group = list(members)
            site = observer.sites[observer.kernel_sites[group[0]]]
            names = [self._kernel_name(observer.kernel_funcs[kernel])[0] for kernel in group]
            written = written_at(*site[0]) if site and self.source != "none" else None
            name = written.name if written is not None else ""
            if not name or (written is not None and not written.certain):
                name = _name_of_kernels(names) if not name or name not in " ".join(names) else name
            period, guess = split_repetitions(site, name, names)
            for begin in range(0, len(group), period):
                end = min(begin + period, len(group))
                operators.append((position + begin, position + end, site, name, guess))
            position += len(group)

        used: dict[int, int] = {}

        def local(row: int) -> int:
            number = used.get(row)
            if number is None:
                number = used[row] = len(used)
            return number

        # kernels
        kernel_operator = np.zeros(len(kernels), np.uint32)
        for number, (begin, end, *_) in enumerate(operators):
            kernel_operator[begin:end] = number
        kernel_names: list[str] = []
        kernel_inputs: list[list[int]] = []
        kernel_also: list[list[int]] = []
        kernel_outputs: list[list[int]] = []
        kernel_arguments: list[str] = []
        kernel_macs: list[float] = []
        kernel_bytes: list[int] = []
        without_formula = 0
        for kernel in kernels:
            name, packet = self._kernel_name(observer.kernel_funcs[kernel])
            rows, outputs = observer.kernel_inputs[kernel], observer.kernel_outputs[kernel]
            args, kwargs = observer.kernel_arguments[kernel]
            kernel_names.append(name)
            kernel_inputs.append([local(row) for row in rows])
            kernel_also.append([local(row) for row in observer.also_reads.get(kernel, ())])
            kernel_outputs.append([local(row) for row in outputs])
            kernel_arguments.append(encode_arguments(args, kwargs))
            if has_formula(packet):
                macs = macs_of(packet, [self.shape(row) for row in rows], [self.shape(row) for row in outputs], args)
            else:
                macs = math.nan if may_multiply(packet) else 0.0
            if macs != macs:
                without_formula += 1
            kernel_macs.append(macs)
            kernel_bytes.append(self._new_bytes(kernel, rows, outputs))

        # module calls
        call_rows = [observer.calls[call] for call in calls]
        call_inputs = [[local(row) for _, row in entry.inputs] for entry in call_rows]
        call_outputs = [[local(row) for _, row in entry.outputs] for entry in call_rows]
        starts = np.array([kernels[begin] for begin, *_ in operators], np.int64)
        operator_begin = [int(np.searchsorted(starts, entry.begin)) for entry in call_rows]
        operator_end = [int(np.searchsorted(starts, entry.end)) for entry in call_rows]
        modified = [int(self._modified_later(entry)) for entry in call_rows]
        counts = [0] * (len(static.modules["path"]) if static else 1)
        for entry in call_rows:
            counts[entry.module] += 1

        # operators
        read_outside = {row for rows in call_outputs for row in rows}
        readers: dict[int, set[int]] = {}
        for position, rows in enumerate(kernel_inputs):
            for row in (*rows, *kernel_also[position]):
                readers.setdefault(row, set()).add(int(kernel_operator[position]))
        operator_inputs: list[list[int]] = []
        operator_outputs: list[list[int]] = []
        operator_attributes: list[dict[str, str]] = []
        operator_macs: list[float] = []
        operator_bytes: list[float] = []
        sources: list[str] = []
        for number, (begin, end, site, *_) in enumerate(operators):
            first_made = self._made_within(kernels[begin:end], used)
            operator_inputs.append(
                list(
                    dict.fromkeys(
                        row
                        for position in range(begin, end)
                        for row in (*kernel_inputs[position], *kernel_also[position])
                        if row not in first_made
                    )
                )
            )
            outputs = [row for row in first_made if row in read_outside or readers.get(row, set()) - {number}]
            if not outputs:
                outputs = kernel_outputs[end - 1]
            operator_outputs.append(list(dict.fromkeys(outputs)))
            operator_attributes.append(self._attributes(kernels[begin:end]))
            macs_within = kernel_macs[begin:end]
            operator_macs.append(float(sum(macs_within)))
            operator_bytes.append(float(sum(kernel_bytes[begin:end])))
            sources.append(self._source(site))

        local_kernel = {kernel: position for position, kernel in enumerate(kernels)}
        tensors = self._tensors(index, list(used), local_kernel, static)
        kernel_call = [observer.kernel_calls[kernels[begin]] for begin, *_ in operators]
        columns: dict[str, dict[str, Any]] = {
            "modules": (static.modules if static else _outside_module()) | {"calls": counts if model else [1]},
            "parameters": static.parameters if static else _no_parameters(),
            "module_calls": {
                "module": [entry.module for entry in call_rows] if model else [0],
                "parent": [local_call[e.parent] if e.parent >= 0 else -1 for e in call_rows] if model else [-1],
                "ordinal": [entry.ordinal for entry in call_rows] if model else [0],
                "operator_begin": operator_begin if model else [0],
                "operator_end": operator_end if model else [len(operators)],
                "inputs": call_inputs if model else [[]],
                "input_names": [[name for name, _ in e.inputs] for e in call_rows] if model else [[]],
                "outputs": call_outputs if model else [[]],
                "output_names": [[name for name, _ in e.outputs] for e in call_rows] if model else [[]],
                "raised": [int(entry.raised) for entry in call_rows] if model else [0],
                "modified_after_return": modified if model else [0],
                "duration_ns": [math.nan] * max(len(call_rows), 0 if model else 1),
            },
            "operators": {
                "name": [name for *_, name, _ in operators],
                "call": [local_call[call] for call in kernel_call],
                "kernel_begin": [begin for begin, *_ in operators],
                "kernel_end": [end for _, end, *_ in operators],
                "inputs": operator_inputs,
                "outputs": operator_outputs,
                "attribute_names": [list(found) for found in operator_attributes],
                "attribute_values": [list(found.values()) for found in operator_attributes],
                "source": sources,
                "macs": operator_macs,
                "activation_bytes": operator_bytes,
                "uncertain": [int(guess) for *_, guess in operators],
            },
            "kernels": {
                "name": kernel_names,
                "operator": kernel_operator,
                "inputs": kernel_inputs,
                "also_reads": kernel_also,
                "outputs": kernel_outputs,
                "arguments": kernel_arguments,
                "macs": kernel_macs,
            },
            "tensors": tensors,
        }
        header = structure_pb2.StructureHeader(
            model=model.name if model else "outside",
            model_class="" if model else "outside",
            variant=variant,
            notes=list(notes),
        )
        totals = header.totals
        totals.macs = float(sum(macs for macs in kernel_macs if macs == macs))
        totals.kernels_without_formula = without_formula
        totals.activation_bytes = int(sum(kernel_bytes))
        if model is not None and static is not None:
            self._complete(header, model, static)
        return Structure.build(header, columns, config)

    def _complete(self, header: structure_pb2.StructureHeader, model: ObservedModel, static: StaticTables) -> None:
        totals = header.totals
        for elements, size, buffer, tensor in zip(
            static.elements, static.bytes, static.is_buffer, static.tensors, strict=True
        ):
            if buffer:
                totals.buffer_bytes += size
            else:
                totals.parameters += elements
                totals.trainable_parameters += elements if tensor.requires_grad else 0
                totals.parameter_bytes += size
        header.model_class = type(model.table.model).__name__
        header.provenance.CopyFrom(
            provenance.describe(
                model.table.model,
                static.tensors,
                training=model.training,
                grad=model.grad_mode or provenance.grad_mode(),
                autocast=model.autocast,
                wrappers=[*model.table.wrappers, *sorted(model.table.inner_wrappers)],
            )
        )
        if model.arguments is not None:
            positional, named = model.arguments
            for position, outline in enumerate(positional):
                _add_arguments(header, str(position), outline)
            for name, outline in named.items():
                _add_arguments(header, name, outline)
        error = capture_error(self.observer, model)
        if error is not None:
            header.error.CopyFrom(error)

    def _made_within(self, kernels: Sequence[int], used: dict[int, int]) -> dict[int, None]:
        """Local rows of the values that these kernels made, in order."""
        producers, outputs = self.values.producers, self.observer.kernel_outputs
        return {used[row]: None for kernel in kernels for row in outputs[kernel] if producers[row] == kernel}

    def _modified_later(self, call: Any) -> bool:
        """Whether a returned tensor was written in place after the call."""
        writes, producers = self.values.writes, self.values.producers
        for _, row in call.outputs:
            if self.values.storages[row] in writes and any(
                producers[other] >= call.end for other in self.values.through_storage(row)
            ):
                return True
        return False

    def _new_bytes(self, kernel: int, rows: Sequence[int], outputs: Sequence[int]) -> int:
        """Bytes of new storage: results that this kernel made and that lie in no argument's memory."""
        values = self.values
        total = 0
        for row in outputs:
            if values.producers[row] != kernel:
                continue
            storage = values.storages[row]
            if any(values.storages[other] == storage for other in rows):
                continue
            total += self._bytes(row)
        return total

    def _bytes(self, row: int) -> int:
        meta: Meta = self.values.metas[row]
        shape = self.shape(row)
        if any(size < 0 for size in shape):
            return 0
        return math.prod(shape) * meta.dtype.itemsize

    def _source(self, site: Site) -> str:
        if self.source == "none" or not site:
            return ""
        location = source_location(site, written_at(*site[0]).line)
        if self.source == "text":
            return f"{location}  {source_text(site)}".rstrip()
        return location

    def _attributes(self, kernels: Sequence[int]) -> dict[str, str]:
        """Arguments that are not tensors, by schema name, of the kernels that do more than rearrange."""
        observer = self.observer
        found: dict[str, str] = {}
        chosen = [kernel for kernel in kernels if _packet_name(observer.kernel_funcs[kernel]) not in _NOT_NAMING]
        for kernel in chosen or kernels[:1]:
            schema = getattr(observer.kernel_funcs[kernel], "_schema", None)
            if schema is None:
                continue
            args, kwargs = observer.kernel_arguments[kernel]
            for argument, value in zip(schema.arguments, args, strict=False):
                text = _attribute_text(value)
                if text is not None:
                    found.setdefault(argument.name, text)
            for name, value in (kwargs or {}).items():
                text = _attribute_text(value)
                if text is not None:
                    found.setdefault(name, text)
        return found

    def _tensors(
        self, index: int, rows: list[int], local_kernel: dict[int, int], static: StaticTables | None
    ) -> dict[str, Any]:
        values = self.values
        origin: list[int] = []
        producer: list[int] = []
        parameter: list[int] = []
        names: list[str] = []
        own = self.observer.models[index].name if index >= 0 else ""
        # What a model is called with is its input, also when the region computed it beforehand.
        given = {
            row: argument
            for call in self.observer.calls
            if call.model == index and call.parent < 0
            for argument, row in call.inputs
        }
        for row in rows:
            kernel = values.producers[row]
            made_here = local_kernel.get(kernel, -1) if kernel >= 0 else -1
            producer.append(made_here)
            number = -1
            name = ""
            if made_here >= 0:
                kind = KERNEL
            elif kernel >= 0 and row in given and self.owner[kernel] < 0:
                kind, name = INPUT, given[row]
            elif kernel >= 0:
                kind = EXTERNAL
                name = self._external_name(kernel)
            else:
                source = values.sources[row]
                kind, name = source.origin, source.name
                if source.origin in (PARAMETER, BUFFER):
                    if source.model == own and static is not None:
                        number = static.row_of_path.get(source.name, -1)
                    else:
                        kind, name = EXTERNAL, f"{source.model}/{source.name}"
                elif source.origin == CONSTANT:
                    name = ""
                elif source.model and source.model != own:
                    kind, name = EXTERNAL, f"{source.model}/{source.name}"
            origin.append(kind)
            parameter.append(number)
            names.append(name)
        metas = [values.metas[row] for row in rows]
        storages: dict[int, int] = {}
        return {
            "shape": [self.shape(row) for row in rows],
            "strides": [[_size(stride) for stride in meta.strides] for meta in metas],
            "dtype": [_dtype_name(meta.dtype) for meta in metas],
            "device": [str(meta.device) for meta in metas],
            "layout": [str(meta.layout).removeprefix("torch.") for meta in metas],
            "requires_grad": [values.requires_grad[row] for row in rows],
            "origin": origin,
            "producer": producer,
            "parameter": parameter,
            "name": names,
            "storage": [storages.setdefault(values.storages[row], len(storages)) for row in rows],
            "storage_offset": [_size(meta.offset) for meta in metas],
            "bytes": [self._bytes(row) for row in rows],
        }

    def _external_name(self, kernel: int) -> str:
        """'model/module path' of the call that made a value, 'outside' for what ran between models."""
        call = self.observer.kernel_calls[kernel]
        if call < 0:
            return "outside"
        entry = self.observer.calls[call]
        model = self.observer.models[entry.model]
        path = model.table.entries[entry.module].path
        return f"{model.name}/{path}" if path else model.name


def _packet_name(func: Any) -> str:
    schema = getattr(func, "_schema", None)
    name: str = schema.name if schema is not None else str(func)
    return name.rpartition("::")[2]


def _name_of_kernels(names: Sequence[str]) -> str:
    """Name of an operator whose source does not name it: its last kernel that does more than rearrange."""
    bases = [name.split(".")[1] if name.count(".") >= 1 else name for name in names]
    telling = [base for base in bases if base not in _NOT_NAMING]
    name = (telling or bases)[-1]
    return _PLAIN_NAMES.get(name, name)


def _attribute_text(value: Any) -> str | None:
    if value is None or isinstance(value, dict):
        return None
    if isinstance(value, (list, tuple)):
        if any(isinstance(item, dict) for item in value) or not value:
            return None
        return ("[" + ", ".join(str(item) for item in value) + "]")[:MAXIMUM_ATTRIBUTE_TEXT]
    return str(value).removeprefix("torch.")[:MAXIMUM_ATTRIBUTE_TEXT]


def _add_arguments(header: structure_pb2.StructureHeader, name: str, outline: Any) -> None:
    if len(header.inputs) >= 256:
        return
    if isinstance(outline, dict):
        for key, item in outline.items():
            _add_arguments(header, f"{name}.{key}", item)
    elif isinstance(outline, list):
        for position, item in enumerate(outline):
            _add_arguments(header, f"{name}.{position}", item)
    else:
        header.inputs.add(name=name, description=outline)


def _outside_module() -> dict[str, Any]:
    return {
        "path": [""],
        "aliases": [[]],
        "class_name": ["outside"],
        "class_module": [""],
        "parent": [-1],
        "attribute_names": [[]],
        "attribute_values": [[]],
        "parameters": [[]],
        "training": [0],
    }


def _no_parameters() -> dict[str, Any]:
    names = ("path", "aliases", "shape", "dtype", "device", "is_buffer", "requires_grad", "bytes", "sketch")
    return {name: [] for name in names}
