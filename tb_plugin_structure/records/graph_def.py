"""A graph that ``SummaryWriter.add_graph`` wrote, as a structure: names, operators and shapes as far as it has them.

Such a graph is a flat list of nodes. Names carry the scope of modules, ``Net/Sequential[blocks]/Block[0]/input.5``;
operators have an ``aten::`` type, parameters are ``prim::GetAttr``; lists and constants are nodes of their own.
Repeated calls of one module share a scope, parameter shapes and dtypes are not kept, and many nodes have no shape.
"""

from __future__ import annotations

import re
from typing import Any

from tb_plugin_structure.records.graph_builder import GraphBuilder, Scope, Tensor
from tb_plugin_structure.records.structure import Structure

NOTES = (
    "Read from a graph that add_graph wrote: it keeps no parameter shapes, dtypes or devices, and repeated calls of a "
    "module are one scope.",
)
_SCOPE = re.compile(r"^(?P<kind>[^\[\]]+)\[(?P<name>.*)\]$")
_MAXIMUM_LIST = 100_000
_MAXIMUM_LITERAL = 1_000


def structure_of_graph(graph: Any, model: str) -> Structure:
    """Convert a ``GraphDef`` message.

    Args:
        graph: TensorBoard's ``graph_pb2.GraphDef``.
        model: Name to give to the model.

    Raises:
        ValueError: When the graph has no operator, e.g. one that TensorFlow wrote.
    """
    nodes = {node.name: node for node in graph.node}
    operators = [node for node in graph.node if _is_operator(node.op)]
    if not operators:
        raise ValueError("the graph has no PyTorch operator (aten::...); it was not written by PyTorch's add_graph")
    reader = _Reader(nodes, _scope(operators[0].name)[0])
    for node in operators:
        reader.add(node)
    described = {
        node.name.partition("/")[2]: str(_shape(node) or "unknown shape")
        for node in graph.node
        if node.op == "IO Node" and node.name.startswith("input/")
    }
    return reader.builder.build(model, notes=NOTES, input_descriptions=described)


def _is_operator(op: str) -> bool:
    return "::" in op and not op.startswith("prim::")


def _shape(node: Any) -> list[int]:
    if "_output_shapes" not in node.attr:
        return []
    shapes = node.attr["_output_shapes"].list.shape
    return [int(dimension.size) for dimension in shapes[0].dim] if shapes else []


def _scope(name: str) -> tuple[str, list[Scope]]:
    """The model's class, and each module around a node from the outside in."""
    model, path = "Module", ""
    scope: list[Scope] = []
    for depth, piece in enumerate(name.split("/")[:-1]):
        match = _SCOPE.match(piece)
        if match:
            path = f"{path}.{match['name']}" if path else match["name"]
            scope.append(Scope(path, path, match["kind"]))
        elif depth == 0:
            model = piece
    return model, scope


class _Reader:
    """Walks the operators in order; entering and leaving scopes makes module calls."""

    def __init__(self, nodes: dict[str, Any], class_name: str) -> None:
        self._nodes = nodes
        self.builder = GraphBuilder(class_name)
        self._tensor_of: dict[str, int] = {}
        self._lists: dict[str, list[int]] = {}
        self._literals: dict[str, str] = {}

    def add(self, node: Any) -> None:
        inputs, attributes = [], []
        for position, source in enumerate(node.input):
            name = source.partition(":")[0].lstrip("^")
            found = self._values(name)
            inputs += found
            if not found and name in self._nodes:
                attributes.append((str(position), self._literal(name, 0)))
        (output,) = self.builder.operator(
            _scope(node.name)[1],
            node.op.partition("::")[2].rstrip("_"),
            inputs,
            [Tensor(_shape(node))],
            kernel=node.op.replace("::", "."),
            attributes=attributes,
        )
        self._tensor_of[node.name] = output

    # ---- values

    def _values(self, name: str, depth: int = 0) -> list[int]:
        """Tensors that a node stands for; lists and tuples are looked into, each once."""
        if name in self._tensor_of:
            return [self._tensor_of[name]]
        if name in self._lists:
            return self._lists[name]
        node = self._nodes.get(name)
        if node is None or depth > 32:
            return []
        if node.op == "IO Node":
            row = self._tensor_of[name] = self.builder.input(name.partition("/")[2], Tensor(_shape(node)))
            return [row]
        if node.op == "prim::GetAttr":
            scope = _scope(name)[1]
            attribute = name.split("/")[-2] if "/" in name else name
            path = f"{scope[-1].path}.{attribute}" if scope else attribute
            row = self._tensor_of[name] = self.builder.parameter_without_shape(path)
            return [row]
        found: list[int] = []
        self._lists[name] = []  # while it is looked into, so that a list that contains itself ends here
        if node.op.startswith("prim::") and node.op != "prim::Constant":
            for source in node.input:
                found += self._values(source.partition(":")[0].lstrip("^"), depth + 1)
                if len(found) > _MAXIMUM_LIST:
                    raise ValueError(f"a list of the graph has more than {_MAXIMUM_LIST:,} tensors")
        self._lists[name] = found
        return found

    def _literal(self, name: str, depth: int) -> str:
        """A constant, or a list of constants, as text."""
        node = self._nodes.get(name)
        if node is None or depth > 8:
            return "?"
        if name not in self._literals:
            self._literals[name] = self._literal_of(node, depth)[:_MAXIMUM_LITERAL]
        return self._literals[name]

    def _literal_of(self, node: Any, depth: int) -> str:
        if node.op == "prim::ListConstruct":
            items = (self._literal(source.partition(":")[0], depth + 1) for source in node.input[:_MAXIMUM_LITERAL])
            return f"[{', '.join(items)}]"
        text = node.attr["attr"].s.decode("utf-8", "replace") if "attr" in node.attr else ""
        match = re.search(r"value\s*:\s*(.*?)\s*}?$", text)
        return match[1].strip() if match else "None"
