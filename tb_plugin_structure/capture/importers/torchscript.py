"""A TorchScript module as a structure: the graph of each method that is called, from the model's ``forward`` down.

The scripted modules keep names, classes, parameters and their own graphs, so every call site of a module is a call of
its own. A traced graph knows shapes until it is saved; a loaded one knows none. Both branches of an ``if`` and one
iteration of a loop are shown: it is a program, not a run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from tb_plugin_structure.capture import provenance
from tb_plugin_structure.capture.call_sites import TORCH_ROOT, relative_file
from tb_plugin_structure.capture.importers.script_values import (
    UNKNOWN,
    Module,
    Unknown,
    Value,
    either,
    element_of,
    filled,
    named_rows,
    outlined,
    rows_of,
)
from tb_plugin_structure.capture.importers.stored_operators import StoredOperators, add_parameters, attribute_text
from tb_plugin_structure.capture.kernels import FRESH, KernelFacts, facts_of
from tb_plugin_structure.capture.operators import name_of_kernels
from tb_plugin_structure.capture.static_tables import dtype_name
from tb_plugin_structure.records.graph_builder import GraphBuilder, Scope, Tensor
from tb_plugin_structure.records.structure import Structure

NOTES = (
    "Read from TorchScript: a program, not a run. Both branches of a condition are shown unless it is a constant, and "
    "one iteration of a loop; shapes are known only where the graph keeps them.",
)
_CONTAINERS = ("prim::TupleConstruct", "prim::ListConstruct")
_UNPACKING = ("prim::TupleUnpack", "prim::ListUnpack")
_ELEMENT = ("aten::__getitem__", "prim::TupleIndex")
_SAME = ("prim::unchecked_cast", "prim::unchecked_unwrap_optional", "aten::_unwrap_optional", "aten::detach_copy")
_PLACE = re.compile(
    r'(?m)^\s*(?:File "(?P<scripted>[^"]+)", line (?P<number>\d+)|(?P<traced>[^\s(]+\.py)\((?P<line>\d+)\))'
)
MAXIMUM_CALLS = 200_000


def structure_of_script(
    module: torch.jit.ScriptModule, name: str = "model", *, variant: str = "", source: str = "location"
) -> Structure:
    """Read a scripted or traced module. Nothing runs.

    Args:
        module: What ``torch.jit.script``, ``torch.jit.trace`` or ``torch.jit.load`` returned.
        name: Name of the model in the record.
        variant: Name of the variant.
        source: "none" leaves sources out; otherwise 'file:line' where the graph kept it, never absolute.

    Raises:
        ValueError: When the module has no ``forward``, or its graph no operator.
    """
    reader = _Reader(module, source)
    reader.run()
    return reader.builder.build(
        name,
        variant=variant,
        notes=NOTES,
        versions={"torch": torch.__version__, "tb_plugin_structure": provenance._own_version()},
        input_descriptions=reader.descriptions,
        training=bool(getattr(module, "training", False)),
    )


@dataclass
class _Frame:
    """One call of a method: what the values of its graph are, by their unique number."""

    scope: list[Scope]
    values: dict[int, Any] = field(default_factory=dict)

    def of(self, value: Any) -> Any:
        return self.values.get(value.unique(), UNKNOWN)

    def inputs(self, node: Any) -> list[Any]:
        return [self.of(value) for value in node.inputs()]

    def bind(self, values: Iterable[Any], results: Iterable[Any]) -> None:
        for value, result in zip(values, results, strict=False):
            self.values[value.unique()] = result


class _Reader:
    def __init__(self, module: Any, source: str) -> None:
        self._module = module
        self._source = source
        self.builder = GraphBuilder(_class_name(module))
        self._operators = StoredOperators(self.builder)
        self.descriptions: dict[str, str] = {}
        self._calls = 0

    def run(self) -> None:
        for path, module in self._module.named_modules():
            if path:
                self.builder.module(path, _class_name(module))
        tensors = [(path, tensor, False) for path, tensor in self._module.named_parameters(remove_duplicate=False)]
        tensors += [(path, tensor, True) for path, tensor in self._module.named_buffers(remove_duplicate=False)]
        add_parameters(self.builder, tensors)
        graph = _forward_of(self._module)
        frame = _Frame([])
        mine, *inputs = graph.inputs()
        frame.bind([mine], [Module("", self._module)])
        for value in inputs:
            name = value.debugName().partition(".")[0]
            made: list[Tensor] = []
            shape = _outline(value.type(), made)
            rows = [
                self.builder.input(f"{name}.{number}" if isinstance(shape, list) else name, tensor)
                for number, tensor in enumerate(made)
            ]
            frame.bind([value], [filled(shape, rows)])
            if rows:
                self.descriptions[name] = str(value.type())
        self._block(graph, frame)
        returned = [frame.of(value) for value in graph.outputs()]
        for name, row in named_rows(returned[0] if len(returned) == 1 else returned, ""):
            self.builder.result(name, row)

    # ---- walking

    def _block(self, block: Any, frame: _Frame) -> None:
        for node in block.nodes():
            kind = node.kind()
            if kind == "prim::GetAttr":
                frame.bind(node.outputs(), [self._attribute(frame.of(node.input()), node.s("name"))])
            elif kind == "prim::Constant":
                frame.bind(node.outputs(), [self._constant(node.output())])
            elif kind == "prim::CallMethod":
                self._method(node, frame)
            elif kind == "prim::If":
                self._condition(node, frame)
            elif kind == "prim::Loop":
                self._loop(node, frame)
            else:
                results = self._plain(node, kind, frame.inputs(node))
                if results is None:
                    results = self._operator(node, frame)
                frame.bind(node.outputs(), results)

    def _attribute(self, owner: Any, name: str) -> Any:
        if not isinstance(owner, Module):
            return UNKNOWN
        path = f"{owner.path}.{name}" if owner.path else name
        if self.builder.is_parameter(path):
            return Value((self.builder.reading(path),))
        value = getattr(owner.module, name, UNKNOWN)
        if isinstance(value, torch.Tensor):
            return self._literal(value)
        return Module(path, value) if isinstance(value, torch.nn.Module) else value

    def _constant(self, output: Any) -> Any:
        if str(output.type().kind()) == "FunctionType":
            return UNKNOWN
        value = output.toIValue()
        return self._literal(value) if isinstance(value, torch.Tensor) else value

    def _literal(self, value: torch.Tensor) -> Value:
        return Value((self.builder.constant(Tensor(list(value.shape), dtype_name(value.dtype), str(value.device))),))

    def _method(self, node: Any, frame: _Frame) -> None:
        owner, *given = frame.inputs(node)
        graph = _graph_of(owner.module, node.s("name")) if isinstance(owner, Module) else None
        if graph is None:
            return
        self._calls += 1
        if self._calls > MAXIMUM_CALLS:
            raise ValueError(f"the program makes more than {MAXIMUM_CALLS:,} calls")
        # A trace names the further calls of a module forward1, forward2, ...; other methods are no module calls.
        called = node.s("name").rstrip("0123456789") == "forward" and bool(owner.path)
        inner = _Frame(frame.scope)
        if called:
            inner.scope = [*frame.scope, Scope(self._calls, owner.path, _class_name(owner.module))]
        call = self.builder.enter(inner.scope)
        inner.bind(graph.inputs(), [owner, *given])
        self._block(graph, inner)
        results = [inner.of(value) for value in graph.outputs()]
        frame.bind(node.outputs(), results)
        if called:
            arguments = [pair for position, value in enumerate(given) for pair in named_rows(value, str(position))]
            self.builder.call_values(call, arguments, named_rows(results[0] if len(results) == 1 else results, ""))

    def _condition(self, node: Any, frame: _Frame) -> None:
        blocks = list(node.blocks())
        chosen = frame.of(node.input())
        if isinstance(chosen, bool):
            blocks = [blocks[0 if chosen else 1]]
        for block in blocks:
            self._block(block, frame)
        branches = [[frame.of(value) for value in block.outputs()] for block in blocks]
        frame.bind(node.outputs(), [either(choices) for choices in zip(*branches, strict=True)])

    def _loop(self, node: Any, frame: _Frame) -> None:
        body = next(iter(node.blocks()))
        carried = frame.inputs(node)[2:]
        frame.bind(list(body.inputs())[1:], carried)
        self._block(body, frame)
        _, *after = [frame.of(value) for value in body.outputs()]  # the first is the condition of a further iteration
        frame.bind(node.outputs(), [either(choices) for choices in zip(after, carried, strict=False)])

    def _plain(self, node: Any, kind: str, given: list[Any]) -> list[Any] | None:
        """Results of a node that only hands values around; None for an operator."""
        outputs = list(node.outputs())
        if kind in _CONTAINERS:
            return [given]
        if kind == "prim::DictConstruct":
            return [dict(zip(map(str, given[::2]), given[1::2], strict=False))]
        if kind in _UNPACKING and given:
            # A list whose length is unknown stands for each of its elements.
            return given[0] if isinstance(given[0], list) else [given[0]] * len(outputs)
        if kind in _ELEMENT and not isinstance(given[0], Unknown):
            return [element_of(given[0], given[1] if len(given) > 1 else 0)]
        if kind == "aten::append":
            if isinstance(given[0], list):
                given[0].append(given[1])
            return [given[0]]
        if kind in _SAME:
            return [given[0]]
        if kind in ("aten::__is__", "aten::__isnot__") and not any(isinstance(each, Unknown) for each in given):
            return [(given[0] is given[1]) == (kind == "aten::__is__")]
        if kind == "aten::__not__" and isinstance(given[0], bool):
            return [not given[0]]
        made: list[Tensor] = []
        for value in outputs:
            _outline(value.type(), made)
        if (kind.startswith("prim::") and kind != "prim::CallFunction") or not made:
            return [UNKNOWN] * len(outputs)  # sizes, flags, checks, exceptions
        return None

    # ---- operators

    def _operator(self, node: Any, frame: _Frame) -> list[Any]:
        facts = _facts(node)
        given = frame.inputs(node)
        inputs: list[int] = []
        arguments = [outlined(value, inputs) for value in given]
        outputs = list(node.outputs())
        made: list[Tensor] = []
        shapes = [_outline(value.type(), made) for value in outputs]
        written = [
            row for position in facts.written_positions if position < len(given) for row in rows_of(given[position])[:1]
        ]
        rows = self._operators.add(
            frame.scope,
            facts,
            name_of_kernels([facts.packet.rpartition("::")[2]]),
            inputs,
            written,
            made,
            arguments,
            attributes=_attributes(facts, given),
            source=self._location(node),
        )
        return [filled(shape, rows) for shape in shapes]

    def _location(self, node: Any) -> str:
        if self._source == "none":
            return ""
        for match in _PLACE.finditer(node.sourceRange()):
            file, line = match["traced"] or match["scripted"], match["line"] or match["number"]
            if not file.startswith((TORCH_ROOT, "code/")):
                return f"{relative_file(file)}:{line}"
        return ""


def _forward_of(module: Any) -> Any:
    """Graph of a module's forward, or of the first of several overloads (``nn.LSTM`` has one for packed sequences).

    Raises:
        ValueError: When the module has none.
    """
    forward = getattr(module, "forward", None)
    if forward is not None and hasattr(forward, "graph"):
        return forward.graph
    for method in module._c._type().method_names() if hasattr(module, "_c") else ():
        if method.startswith("forward__") and (graph := _graph_of(module, method)) is not None:
            return graph
    raise ValueError("the TorchScript module has no forward method; there is no graph to show")


def _graph_of(module: Any, method: str) -> Any:
    """Graph of a method. The Python side of a freshly traced module knows `forward` of the model only."""
    try:
        return module._c._get_method(method).graph
    except (AttributeError, RuntimeError):
        return None


def _class_name(module: Any) -> str:
    name = getattr(module, "original_name", None)
    return name if isinstance(name, str) and name else type(module).__name__


def _outline(kind: Any, made: list[Tensor]) -> Any:
    """A type with each tensor in it replaced by its number in `made`, to which what is known of it is appended: all of
    it right after tracing, nothing after loading. A list of tensors, whose length only a run tells, counts as one."""
    if isinstance(kind, torch._C.TupleType):
        return [_outline(element, made) for element in kind.elements()]
    if str(kind.annotation_str) not in ("Tensor", "Optional[Tensor]", "List[Tensor]"):
        return None
    if not isinstance(kind, torch._C.TensorType):
        made.append(Tensor())
        return len(made) - 1
    sizes, dtype, device = kind.sizes(), kind.dtype(), kind.device()
    made.append(
        Tensor(
            None if sizes is None else [size if isinstance(size, int) else -1 for size in sizes],
            dtype_name(dtype) if dtype is not None else "",
            str(device) if device is not None else "",
            bool(kind.requires_grad()),  # type: ignore[attr-defined]
        )
    )
    return len(made) - 1


def _facts(node: Any) -> KernelFacts:
    if node.kind() == "prim::CallFunction":
        # Functions of a loaded file cannot be looked into: one operator under the function's name.
        kernel = str(next(iter(node.inputs())).type()).removeprefix("__torch__.")
        home, _, name = kernel.rpartition(".")
        return _without_schema(kernel, f"{'aten' if home == 'torch.nn.functional' else 'function'}::{name}")
    namespace, _, name = node.kind().partition("::")
    try:
        overload = torch._C.parse_schema(node.schema()).overload_name
        return facts_of(getattr(getattr(getattr(torch.ops, namespace), name), overload or "default"))
    except (AttributeError, RuntimeError):  # an operator of a library that is not loaded here
        return _without_schema(f"{namespace}.{name}", f"{namespace}::{name}")


def _without_schema(kernel: str, packet: str) -> KernelFacts:
    return KernelFacts(None, kernel, packet, FRESH, (), (), False, False, (), None, None)


def _attributes(facts: KernelFacts, given: Sequence[Any]) -> list[tuple[str, str]]:
    found = []
    for name, value in zip(facts.argument_names, given, strict=False):
        items = value if isinstance(value, list) else [value]
        if all(isinstance(item, (bool, int, float, str)) for item in items):
            text = attribute_text(value)
            if text is not None:
                found.append((name, text))
    return found
