"""Builds a structure from a graph that another tool wrote: modules, calls, operators and values, in execution order.

A stored graph is a program, not a run. What it does not hold (attributes of modules, strides, times) stays empty; what
follows from the order of its operators (which calls there are, what enters and leaves them) is derived here, once for
all sources.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from tb_plugin_structure.records.graph_parts import Call, Module, Operator, Shape, bytes_of
from tb_plugin_structure.records.graph_parts import Parameter as Parameter
from tb_plugin_structure.records.graph_parts import Scope as Scope
from tb_plugin_structure.records.graph_parts import Tensor as Tensor
from tb_plugin_structure.records.schema import ORIGINS, STRUCTURE_TABLES
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import structure_pb2

MAXIMUM_DEPTH = 1_000
"""Modules of a graph may nest this deep; names come from files that anybody may have written."""

_NAN = float("nan")

_PARAMETER_COLUMNS = 9
"""The columns of parameters that a graph from elsewhere has something to say about; the first of the schema."""


class GraphBuilder:
    """Add parameters, inputs and operators in execution order, then :meth:`build`.

    >>> builder = GraphBuilder("Net")
    >>> x = builder.input("x", Tensor((1, 3), "float32"))
    >>> (y,) = builder.operator([Scope("fc", "fc", "Linear")], "linear", [x], [Tensor((1, 2), "float32")])
    >>> builder.result("", y)
    >>> structure = builder.build("student")
    """

    def __init__(self, class_name: str, class_module: str = "") -> None:
        self._modules = [Module("", -1, class_name, class_module)]
        self._module_row = {"": 0}
        self._parameters: list[Parameter] = []
        self._parameter_row: dict[str, int] = {}
        self._parameter_tensor: dict[int, int] = {}
        self._tensors: list[Tensor] = []
        self._origins: list[str] = []
        self._producers: list[int] = []
        self._parameter_of: list[int] = []
        self._operators: list[Operator] = []
        self._ordinals: Counter[tuple[int, int]] = Counter()
        self._calls = [Call("", 0, -1, 0, 0, 0)]
        self._stack = [0]
        self._inputs: list[tuple[str, int]] = []
        self._results: list[tuple[str, int]] = []

    # ---- modules and parameters

    def module(self, path: str, class_name: str = "", class_module: str = "") -> int:
        """Row of a module; it and the modules around it are added when they are new. A class that is told later counts
        when none was known."""
        row = self._module_row.get(path)
        if row is None:
            pieces = path.split(".")
            if len(pieces) > MAXIMUM_DEPTH:
                raise ValueError(f"a module of the graph lies {len(pieces):,} deep; the limit is {MAXIMUM_DEPTH:,}")
            row = 0
            for depth in range(1, len(pieces) + 1):
                name, parent = ".".join(pieces[:depth]), row
                known = self._module_row.get(name)
                if known is None:
                    known = self._module_row[name] = len(self._modules)
                    self._modules.append(Module(name, parent))
                row = known
        module = self._modules[row]
        if class_name and (not module.class_name or row == 0):
            module.class_name, module.class_module = class_name, class_module
        return row

    def parameter(self, parameter: Parameter) -> int:
        """Add a parameter or buffer to the module that its path names. Returns its row."""
        row = len(self._parameters)
        self._parameters.append(parameter)
        for path in (parameter.path, *parameter.aliases):
            self._parameter_row[path] = row
            self._modules[self.module(path.rpartition(".")[0])].parameters.append(row)
        return row

    def is_parameter(self, path: str) -> bool:
        return path in self._parameter_row

    # ---- values that no operator makes

    def input(self, name: str, tensor: Tensor) -> int:
        """An argument of the model, in order."""
        row = self._tensor(tensor, "input", name=name)
        self._inputs.append((name, row))
        return row

    def constant(self, tensor: Tensor) -> int:
        """A tensor that the graph holds as a literal."""
        return self._tensor(tensor, "constant")

    def reading(self, path: str) -> int:
        """The value of a parameter or buffer, one row however often it is read.

        Raises KeyError when there is no parameter of this path.
        """
        number = self._parameter_row[path]
        row = self._parameter_tensor.get(number)
        if row is None:
            known = self._parameters[number]
            tensor = Tensor(known.shape, known.dtype, known.device, known.requires_grad)
            origin = "buffer" if known.is_buffer else "parameter"
            row = self._parameter_tensor[number] = self._tensor(tensor, origin, name=known.path)
            self._parameter_of[row] = number
        return row

    def parameter_without_shape(self, path: str) -> int:
        """A value that is known to be a parameter, where the source kept no table of parameters."""
        return self._tensor(Tensor(), "parameter", name=path)

    def _tensor(self, tensor: Tensor, origin: str, *, producer: int = -1, name: str = "") -> int:
        row = len(self._tensors)
        tensor.name = name
        if tensor.storage < 0:
            tensor.storage = row
        self._tensors.append(tensor)
        self._origins.append(origin)
        self._producers.append(producer)
        self._parameter_of.append(-1)
        return row

    def storage(self, row: int) -> int:
        """Equal numbers share memory."""
        return self._tensors[row].storage

    def shape(self, row: int) -> Shape | None:
        return self._tensors[row].shape

    def dtype(self, row: int) -> str:
        return self._tensors[row].dtype

    # ---- operators

    def operator(
        self,
        scope: Sequence[Scope],
        name: str,
        inputs: Sequence[int],
        outputs: Sequence[Tensor],
        *,
        kernel: str = "",
        also_reads: Sequence[int] = (),
        attributes: Sequence[tuple[str, str]] = (),
        source: str = "",
        macs: float = _NAN,
    ) -> list[int]:
        """Add an operator that runs within the calls of `scope`, the model's own call left out. Returns rows of its
        outputs. `macs`: NaN when unknown."""
        self.enter(scope)
        kernel_row = len(self._operators)
        rows = [self._tensor(tensor, "kernel", producer=kernel_row) for tensor in outputs]
        new = sum(
            bytes_of(tensor.shape, tensor.dtype)
            for row, tensor in zip(rows, outputs, strict=True)
            if tensor.storage == row
        )
        self._operators.append(
            Operator(
                name,
                kernel or name,
                self._stack[-1],
                list(inputs),
                [row for row in dict.fromkeys(also_reads) if row not in inputs],
                rows,
                attributes,
                source,
                macs,
                new,
            )
        )
        return rows

    def enter(self, scope: Sequence[Scope]) -> int:
        """Leave and enter calls until exactly those of `scope` are open. Returns the innermost call's number."""
        shared = 0
        while (
            shared < min(len(self._stack) - 1, len(scope))
            and self._calls[self._stack[shared + 1]].key == scope[shared].call
        ):
            shared += 1
        while len(self._stack) > shared + 1:
            self._calls[self._stack.pop()].end = len(self._operators)
        for each in scope[shared:]:
            parent = self._stack[-1]
            module = self.module(each.path, each.class_name, each.class_module)
            ordinal = self._ordinals[parent, module]
            self._ordinals[parent, module] += 1
            begin = len(self._operators)
            self._stack.append(len(self._calls))
            self._calls.append(Call(each.call, module, parent, ordinal, begin, begin))
        return self._stack[-1]

    def call_values(
        self, call: int, arguments: Iterable[tuple[str, int]], results: Iterable[tuple[str, int]] | None
    ) -> None:
        """What a call was given and returned, where the source says so; otherwise it follows from its operators."""
        self._calls[call].arguments = list(arguments)
        if results is not None:
            self._calls[call].results = list(results)

    def result(self, name: str, row: int) -> None:
        """A value that the model returns."""
        self._results.append((name, row))

    # ---- the record

    def build(
        self,
        model: str,
        *,
        variant: str = "",
        notes: Sequence[str] = (),
        versions: Mapping[str, str] | None = None,
        input_descriptions: Mapping[str, str] | None = None,
        training: bool = False,
    ) -> Structure:
        """The record. `input_descriptions` replaces what is said of an input, e.g. where its sizes are symbols.

        Raises:
            ValueError: When the graph holds no operator.
        """
        if not self._operators:
            raise ValueError("the graph has no operator; there is nothing to show")
        self.enter(())
        self._calls[0].end = len(self._operators)
        for module in self._modules:
            module.class_name = module.class_name or "Module"
        header = structure_pb2.StructureHeader(
            model=model, variant=variant, model_class=self._modules[0].class_name, notes=notes
        )
        header.provenance.versions.update(versions or {})
        header.provenance.training = training
        header.provenance.device = ",".join(sorted({p.device for p in self._parameters if p.device}))
        described = input_descriptions or {}
        for name, row in self._inputs:
            tensor = self._tensors[row]
            text = described.get(name) or f"{tensor.dtype or 'tensor'}{list(tensor.shape or ())}"
            header.inputs.add(name=name, description=text)
        totals = header.totals
        totals.macs = sum(op.macs for op in self._operators if op.macs == op.macs)
        totals.kernels_without_formula = sum(op.macs != op.macs for op in self._operators)
        totals.activation_bytes = sum(op.activation_bytes for op in self._operators)
        for parameter in self._parameters:
            size = bytes_of(parameter.shape, parameter.dtype)
            if parameter.is_buffer:
                totals.buffer_bytes += size
            else:
                elements = max(0, math.prod(parameter.shape))
                totals.parameters += elements
                totals.trainable_parameters += elements if parameter.requires_grad else 0
                totals.parameter_bytes += size
        return Structure.build(header, self._columns(training))

    def _columns(self, training: bool) -> dict[str, dict[str, Any]]:
        called = Counter(call.module for call in self._calls)
        modules, calls, operators, tensors = self._modules, self._calls, self._operators, self._tensors
        call_inputs, call_outputs = zip(*map(self._call_values, range(len(calls))), strict=True)
        unknown = [_NAN] * len(calls)
        parameter_rows = [
            (
                parameter.path,
                list(parameter.aliases),
                list(parameter.shape),
                parameter.dtype,
                parameter.device,
                int(parameter.is_buffer),
                int(parameter.requires_grad),
                bytes_of(parameter.shape, parameter.dtype),
                list(parameter.sketch),
            )
            for parameter in self._parameters
        ]
        return {
            "modules": {
                "path": [module.path for module in modules],
                "aliases": [[]] * len(modules),
                "class_name": [module.class_name for module in modules],
                "class_module": [module.class_module for module in modules],
                "parent": [module.parent for module in modules],
                "attribute_names": [[]] * len(modules),
                "attribute_values": [[]] * len(modules),
                "parameters": [list(dict.fromkeys(module.parameters)) for module in modules],
                "training": [int(training)] * len(modules),
                "calls": [called[row] for row in range(len(modules))],
            },
            "parameters": {
                each.name: [row[position] for row in parameter_rows]
                # Columns that came later (shape and placement of a rank) are left out.
                for position, each in enumerate(STRUCTURE_TABLES["parameters"][:_PARAMETER_COLUMNS])
            },
            "module_calls": {
                "module": [call.module for call in calls],
                "parent": [call.parent for call in calls],
                "ordinal": [call.ordinal for call in calls],
                "operator_begin": [call.begin for call in calls],
                "operator_end": [call.end for call in calls],
                "inputs": [[row for _, row in values] for values in call_inputs],
                "input_names": [[name for name, _ in values] for values in call_inputs],
                "outputs": [[row for _, row in values] for values in call_outputs],
                "output_names": [[name for name, _ in values] for values in call_outputs],
                "raised": [0] * len(calls),
                "modified_after_return": [0] * len(calls),
                "duration_ns": unknown,
            },
            "operators": {
                "name": [op.name for op in operators],
                "call": [op.call for op in operators],
                "kernel_begin": list(range(len(operators))),
                "kernel_end": list(range(1, len(operators) + 1)),
                "inputs": [list(dict.fromkeys([*op.inputs, *op.also_reads])) for op in operators],
                "outputs": [op.outputs for op in operators],
                "attribute_names": [[name for name, _ in op.attributes] for op in operators],
                "attribute_values": [[value for _, value in op.attributes] for op in operators],
                "source": [op.source for op in operators],
                "macs": [op.macs for op in operators],
                "activation_bytes": [float(op.activation_bytes) for op in operators],
                "uncertain": [0] * len(operators),
            },
            "kernels": {
                "name": [op.kernel for op in operators],
                "operator": list(range(len(operators))),
                "inputs": [op.inputs for op in operators],
                "also_reads": [op.also_reads for op in operators],
                "outputs": [op.outputs for op in operators],
                "arguments": [""] * len(operators),
                "macs": [op.macs for op in operators],
            },
            "tensors": {
                "shape": [list(tensor.shape or ()) for tensor in tensors],
                "strides": [[]] * len(tensors),
                "dtype": [tensor.dtype for tensor in tensors],
                "device": [tensor.device for tensor in tensors],
                "layout": [tensor.layout for tensor in tensors],
                "requires_grad": [int(tensor.requires_grad) for tensor in tensors],
                "origin": [ORIGINS.index(origin) for origin in self._origins],
                "producer": self._producers,
                "parameter": self._parameter_of,
                "name": [tensor.name for tensor in tensors],
                "storage": [tensor.storage for tensor in tensors],
                "storage_offset": [0] * len(tensors),
                "bytes": [bytes_of(tensor.shape, tensor.dtype) for tensor in tensors],
            },
        }

    def _call_values(self, number: int) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
        """(arguments, results) of a call: as told, else what its operators read from outside and others read of it."""
        call = self._calls[number]
        arguments, results = call.arguments, call.results
        if number == 0:
            arguments = self._inputs or arguments
            results = self._results or results
        if arguments is None:
            read = dict.fromkeys(row for op in self._operators[call.begin : call.end] for row in op.inputs)
            # Parameters belong to the module and are no inputs.
            arriving = [
                row
                for row in read
                if not call.begin <= self._producers[row] < call.end
                and self._origins[row] in ("kernel", "input", "constant")
            ]
            arguments = [(str(position), row) for position, row in enumerate(arriving)]
        if results is None:
            made = [row for op in self._operators[call.begin : call.end] for row in op.outputs]
            leaving = [row for row in made if self._leaves(row, call)]
            results = [("" if len(leaving) == 1 else str(position), row) for position, row in enumerate(leaving)]
        return arguments, results

    def _leaves(self, row: int, call: Call) -> bool:
        """Whether a value that a call made is read after it. Where the source does not say what the model returns, what
        nobody reads is returned."""
        readers = self._readers.get(row)
        if readers is None:
            return not self._results
        return any(not call.begin <= reader < call.end for reader in readers)

    @cached_property
    def _readers(self) -> dict[int, list[int]]:
        """Value -> numbers of the operators that read it; the model's own results are read after the last one."""
        found: dict[int, list[int]] = {}
        for number, op in enumerate(self._operators):
            for row in (*op.inputs, *op.also_reads):
                found.setdefault(row, []).append(number)
        for _, row in self._results:
            found.setdefault(row, []).append(len(self._operators))
        return found
