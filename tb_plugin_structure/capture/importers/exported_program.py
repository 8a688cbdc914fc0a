"""A ``torch.export.ExportedProgram`` as a structure: its modules, calls and operators as the export saw them.

The graph names the module calls around each node (``nn_module_stack``; a second call of a module has a key of its
own), holds a fake tensor for each value and the source line. Modules that run no operator (``Identity``) leave no
trace in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor as TorchTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import GraphModule, Node
from torch.utils import _pytree

from tb_plugin_structure.capture import provenance
from tb_plugin_structure.capture.call_sites import TORCH_ROOT, relative_file
from tb_plugin_structure.capture.importers.stored_operators import StoredOperators, add_parameters, attribute_text
from tb_plugin_structure.capture.kernels import KernelFacts, facts_of
from tb_plugin_structure.capture.operators import name_of_kernels
from tb_plugin_structure.capture.static_tables import dtype_name
from tb_plugin_structure.records.graph_builder import GraphBuilder, Scope, Tensor
from tb_plugin_structure.records.structure import Structure

NOTES = (
    "Read from an ExportedProgram: one path through the model, as exported; modules that run no operator show no call, "
    "attributes of modules are not kept.",
)
_FRAME = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+), in .*$')
_TORCH_FILE = re.compile(r"(^|[/\\])(site-packages|dist-packages)[/\\]torch[/\\]")
_SYMBOLS = {
    "add": "+",
    "sub": "-",
    "rsub": "-",
    "mul": "*",
    "div": "/",
    "matmul": "@",
    "pow": "**",
    "remainder": "%",
    "floor_divide": "//",
}
_SILENT = ("aten._assert", "aten.sym_", "aten._guard", "torch._check")
_INLINED = ("wrap_with_", "invoke_subgraph")
"""Higher-order operators that only set a mode around a part of the graph, which is read in their place."""


def structure_of_program(
    program: ExportedProgram, name: str = "model", *, variant: str = "", source: str = "location"
) -> Structure:
    """Read an exported program. Nothing runs.

    Args:
        program: What ``torch.export.export`` or ``torch.export.load`` returned.
        name: Name of the model in the record.
        variant: Name of the variant.
        source: "location" keeps 'file:line' of each operator (never absolute), "text" the line too, "none" neither.

    Returns:
        The record. A dimension that is a symbol has the size it was exported with, where the program still knows it,
        else -1; ``header.inputs`` names the symbols.

    Raises:
        ValueError: When the program holds no operator.
    """
    return _Reader(program, source).structure(name, variant)


class _Reader:
    def __init__(self, program: ExportedProgram, source: str) -> None:
        self._program = program
        self._source = source
        class_name, class_module = self._model_class()
        self._builder = GraphBuilder(class_name, class_module)
        self._operators = StoredOperators(self._builder)
        self._rows: dict[Node, Any] = {}
        self._descriptions: dict[str, str] = {}
        self._training = False

    def structure(self, name: str, variant: str) -> Structure:
        program = self._program
        add_parameters(self._builder, list(self._tensors()))
        specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs if hasattr(spec.arg, "name")}
        for node in program.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node, specs.get(node.name))
            elif node.op == "output":
                self._results(node)
            else:
                self._node(node, program.graph_module)
        return self._builder.build(
            name,
            variant=variant,
            notes=NOTES,
            versions={"torch": torch.__version__, "tb_plugin_structure": provenance._own_version()},
            input_descriptions=self._descriptions,
            training=self._training,
        )

    # ---- what the program starts from

    def _model_class(self) -> tuple[str, str]:
        for node in self._program.graph.nodes:
            for path, kind in (node.meta.get("nn_module_stack") or {}).values():
                return _class_of(kind) if not path else ("Module", "")
        return "Module", ""

    def _tensors(self) -> Iterator[tuple[str, TorchTensor, bool]]:
        signature = self._program.graph_signature
        buffers = set(signature.buffers)
        state = self._program.state_dict
        for path in dict.fromkeys([*signature.parameters, *signature.buffers]):
            value = state.get(path, self._program.constants.get(path))
            if isinstance(value, TorchTensor):
                yield path, value, path in buffers
        for path, value in state.items():
            if path not in buffers and path not in signature.parameters and isinstance(value, TorchTensor):
                yield path, value, not isinstance(value, torch.nn.Parameter)

    def _placeholder(self, node: Node, spec: Any) -> None:
        kind = spec.kind if spec is not None else InputKind.USER_INPUT
        value = node.meta.get("val")
        if kind in (InputKind.PARAMETER, InputKind.BUFFER) and self._builder.is_parameter(spec.target):
            self._rows[node] = self._builder.reading(spec.target)
        elif not isinstance(value, TorchTensor):
            return
        elif kind == InputKind.USER_INPUT:
            self._rows[node] = self._builder.input(node.name, _tensor(value))
            sizes = ", ".join(str(size) for size in value.shape)
            self._descriptions[node.name] = f"{dtype_name(value.dtype)}[{sizes}]"
        else:
            self._rows[node] = self._builder.constant(_tensor(value))

    # ---- operators

    def _node(self, node: Node, owner: torch.nn.Module) -> None:
        if node.op == "get_attr":
            value = _attribute(owner, str(node.target))
            if isinstance(value, TorchTensor):
                self._rows[node] = self._builder.constant(_tensor(value))
        elif node.op == "call_function":
            inner = self._inlined(node, owner)
            if inner is None:
                self._call(node)
            else:
                self._inline(node, *inner)

    def _inlined(self, node: Node, owner: torch.nn.Module) -> tuple[GraphModule, list[Any]] | None:
        """(graph, its arguments) of an operator that is nothing but a part of the graph."""
        if not str(getattr(node.target, "__name__", "")).startswith(_INLINED):
            return None
        for position, argument in enumerate(node.args):
            if isinstance(argument, Node) and argument.op == "get_attr":
                inner = _attribute(owner, str(argument.target))
                if isinstance(inner, GraphModule):
                    count = sum(each.op == "placeholder" for each in inner.graph.nodes)
                    return inner, list(node.args[position + 1 :])[-count:] if count else []
        return None

    def _inline(self, node: Node, inner: GraphModule, arguments: list[Any]) -> None:
        given = iter(arguments)
        for each in inner.graph.nodes:
            if each.op == "placeholder":
                value = next(given, None)
                if isinstance(value, Node) and value in self._rows:
                    self._rows[each] = self._rows[value]
            elif each.op == "output":
                self._rows[node] = self._row_of(each.args[0])
            else:
                self._node(each, inner)

    def _row_of(self, value: Any) -> Any:
        if isinstance(value, Node):
            return self._rows.get(value)
        return [self._row_of(item) for item in value] if isinstance(value, (list, tuple)) else None

    def _call(self, node: Node) -> None:
        function = node.target
        if getattr(function, "__name__", "") == "getitem" and isinstance(node.args[0], Node):
            whole, index = self._rows.get(node.args[0]), node.args[1]
            if isinstance(whole, list) and isinstance(index, int) and -len(whole) <= index < len(whole):
                self._rows[node] = whole[index]
            return
        inputs: list[int] = []
        arguments = [self._outlined(value, inputs) for value in node.args]
        named = {key: self._outlined(value, inputs) for key, value in node.kwargs.items()}
        made: list[Tensor] = []
        shape = _numbered(node.meta.get("val"), made)
        facts = facts_of(function)
        if (not made and not inputs) or facts.name.startswith(_SILENT):
            return  # arithmetic of sizes, checks
        written = self._written(node, facts)
        attributes = self._attributes(facts, node)
        rows = self._operators.add(
            self._scope(node),
            facts,
            self._name(facts, node),
            inputs,
            written,
            made,
            arguments + list(named.values()),
            attributes=attributes,
            source=self._location(node),
        )
        self._rows[node] = _filled(shape, rows)

    def _outlined(self, value: Any, inputs: list[int]) -> Any:
        """An argument with its tensors as ``{"t": k}``; their rows are appended to `inputs`."""
        if isinstance(value, Node):
            found = self._rows.get(value)
            if isinstance(found, int):
                inputs.append(found)
                return {"t": len(inputs) - 1}
            if isinstance(found, list):
                return [self._outlined_row(row, inputs) for row in found]
            return None
        if isinstance(value, (list, tuple)):
            return [self._outlined(item, inputs) for item in value]
        if isinstance(value, dict):
            return {str(key): self._outlined(item, inputs) for key, item in value.items()}
        return value

    def _outlined_row(self, row: Any, inputs: list[int]) -> Any:
        if isinstance(row, int):
            inputs.append(row)
            return {"t": len(inputs) - 1}
        return None

    def _written(self, node: Node, facts: KernelFacts) -> list[int]:
        values = [node.args[position] for position in facts.written_positions if position < len(node.args)]
        values += [node.kwargs[name] for name in facts.written_names if name in node.kwargs]
        rows = [self._rows.get(value) for value in values if isinstance(value, Node)]
        return [row for row in rows if isinstance(row, int)]

    def _attributes(self, facts: KernelFacts, node: Node) -> list[tuple[str, str]]:
        found: dict[str, str] = {}
        given = dict(zip(facts.argument_names, node.args, strict=False)) | node.kwargs
        for name, value in given.items():
            items = value if isinstance(value, (list, tuple)) else (value,)
            if any(isinstance(item, Node) for item in items):
                continue
            text = attribute_text(value)
            if text is not None:
                found[name] = text
            if name in ("train", "training") and value is True:
                self._training = True
        return list(found.items())

    def _scope(self, node: Node) -> list[Scope]:
        found = []
        for key, (path, kind) in (node.meta.get("nn_module_stack") or {}).items():
            clean = re.sub(r"\._modules\['([^']*)'\]", r".\1", str(path)).split("@")[0]
            if clean:
                found.append(Scope(key, clean, *_class_of(kind)))
        return found

    def _name(self, facts: KernelFacts, node: Node) -> str:
        name = facts.packet.rpartition("::")[2]
        symbol = _SYMBOLS.get(name)
        if symbol and self._source != "none":
            line = _user_frame(node)[1]
            if symbol in line and f"{name}(" not in line:
                return symbol
        return name_of_kernels([name])

    def _location(self, node: Node) -> str:
        if self._source == "none":
            return ""
        location, line = _user_frame(node)
        return f"{location}  {line}".rstrip() if self._source == "text" else location

    # ---- what it returns

    def _results(self, node: Node) -> None:
        returned = node.args[0] if isinstance(node.args[0], (list, tuple)) else (node.args[0],)
        specs = self._program.graph_signature.output_specs
        mine = [
            value
            for value, spec in zip(returned, specs, strict=False)
            if spec.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
        ]
        names = self._result_names(len(mine))
        for name, value in zip(names, mine, strict=True):
            row = self._rows.get(value) if isinstance(value, Node) else None
            if isinstance(row, int):
                self._builder.result(name, row)

    def _result_names(self, count: int) -> list[str]:
        """'' for a single tensor, '0', 'logits', 'past.0.1' within containers."""
        try:
            nested = _pytree.tree_unflatten(list(range(count)), self._program.call_spec.out_spec)
            leaves, _ = _pytree.tree_flatten_with_path(nested)
            by_leaf = {leaf: ".".join(map(_key_text, path)) for path, leaf in leaves}
            return [by_leaf[number] for number in range(count)]
        except Exception:  # a container whose class is not importable here, or whose constructor looks at its fields
            return [str(number) for number in range(count)] if count > 1 else [""]


def _attribute(owner: Any, target: str) -> Any:
    for piece in target.split("."):
        owner = getattr(owner, piece, None)
    return owner


def _class_of(kind: Any) -> tuple[str, str]:
    """(class name, module) of an entry of the module stack: a class, or its qualified name."""
    if isinstance(kind, type):
        return kind.__qualname__.rpartition(".")[2], kind.__module__
    module, _, name = str(kind).rpartition(".")
    return name, module


def _tensor(value: TorchTensor) -> Tensor:
    return Tensor(
        [_size(size) for size in value.shape],
        dtype_name(value.dtype),
        str(value.device),
        bool(value.requires_grad),
        layout=str(value.layout).removeprefix("torch."),
    )


def _size(size: Any) -> int:
    """A size, for a symbol the one it was exported with; -1 when the program has forgotten it."""
    if isinstance(size, int):
        return size
    hint = getattr(getattr(size, "node", None), "hint", None)
    return hint if isinstance(hint, int) else -1


def _numbered(value: Any, made: list[Tensor]) -> Any:
    """A node's value with each tensor replaced by its number in `made`, to which it is appended."""
    if isinstance(value, TorchTensor):
        made.append(_tensor(value))
        return len(made) - 1
    if isinstance(value, (list, tuple)):
        return [_numbered(item, made) for item in value]
    return None


def _filled(shape: Any, rows: Sequence[int]) -> Any:
    if isinstance(shape, int):
        return rows[shape]
    if isinstance(shape, list):
        return [_filled(item, rows) for item in shape]
    return None


def _user_frame(node: Node) -> tuple[str, str]:
    """('file:line', its text) of the innermost frame outside torch, or of the innermost one; the file relative."""
    lines = str(node.meta.get("stack_trace") or "").splitlines()
    best = ("", "")
    for position, line in enumerate(lines):
        match = _FRAME.match(line)
        if match is None:
            continue
        text = lines[position + 1].strip() if position + 1 < len(lines) else ""
        torchs = match["file"].startswith(TORCH_ROOT) or _TORCH_FILE.search(match["file"])
        if not torchs or not best[0]:
            best = (f"{relative_file(match['file'])}:{match['line']}", "" if _FRAME.match(text) else text)
    return best


def _key_text(key: Any) -> str:
    for attribute in ("idx", "key", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)
