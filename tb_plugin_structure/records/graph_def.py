"""A graph that ``SummaryWriter.add_graph`` wrote, as a structure: names, operators and shapes as far as it has them.

Such a graph is a flat list of nodes. Names carry the scope of modules, ``Net/Sequential[blocks]/Block[0]/input.5``;
operators have an ``aten::`` type, parameters are ``prim::GetAttr``; lists and constants are nodes of their own.
Repeated calls of one module share a scope, parameter shapes and dtypes are not kept, and many nodes have no shape.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np

from tb_plugin_structure.records.schema import ORIGINS, STRUCTURE_TABLES
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import structure_pb2

NOTES = (
    "Read from a graph that add_graph wrote: it keeps no parameter shapes, dtypes or devices, and repeated calls of a "
    "module are one scope.",
)
_SCOPE = re.compile(r"^(?P<kind>[^\[\]]+)\[(?P<name>.*)\]$")
_NAN = float("nan")
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
    builder = _Builder(nodes)
    for node in operators:
        builder.add(node)
    builder.close()
    header = structure_pb2.StructureHeader(model=model, model_class=builder.classes[0], notes=NOTES)
    header.totals.kernels_without_formula = len(operators)
    for node in graph.node:
        if node.op == "IO Node" and node.name.startswith("input/"):
            header.inputs.add(name=node.name.partition("/")[2], description=str(_shape(node) or "unknown shape"))
    return Structure.build(header, builder.columns())


def _is_operator(op: str) -> bool:
    return "::" in op and not op.startswith("prim::")


def _shape(node: Any) -> list[int]:
    if "_output_shapes" not in node.attr:
        return []
    shapes = node.attr["_output_shapes"].list.shape
    return [int(dimension.size) for dimension in shapes[0].dim] if shapes else []


def _scope(name: str) -> list[tuple[str, str]]:
    """(attribute name, class) of each module around a node; the model itself has the name ''."""
    scope = []
    for depth, piece in enumerate(name.split("/")[:-1]):
        match = _SCOPE.match(piece)
        if match:
            scope.append((match["name"], match["kind"]))
        elif depth == 0:
            scope.append(("", piece))
    return scope or [("", "Module")]


class _Builder:
    """Walks the operators in order; entering and leaving scopes makes module calls."""

    def __init__(self, nodes: dict[str, Any]) -> None:
        self._nodes = nodes
        self.paths: list[str] = []
        self.classes: list[str] = []
        self._module_parents: list[int] = []
        self._modules: dict[str, int] = {}
        self._calls: list[dict[str, int]] = []
        self._stack: list[int] = []
        self._operators: list[dict[str, Any]] = []
        self._tensors: list[dict[str, Any]] = []
        self._tensor_of: dict[str, int] = {}
        self._ordinals: Counter[tuple[int, int]] = Counter()
        self._lists: dict[str, list[int]] = {}
        self._literals: dict[str, str] = {}

    # ---- walking

    def add(self, node: Any) -> None:
        scope = _scope(node.name)
        self._enter(scope)
        inputs, attributes = [], []
        for position, source in enumerate(node.input):
            name = source.partition(":")[0].lstrip("^")
            found = self._values(name)
            inputs += found
            if not found and name in self._nodes:
                attributes.append((str(position), self._literal(name, 0)))
        row = len(self._operators)
        output = self._tensor(node.name, _shape(node), "kernel", producer=row)
        self._operators.append(
            {
                "name": node.op.partition("::")[2].rstrip("_"),
                "kernel": node.op.replace("::", "."),
                "call": self._stack[-1],
                "inputs": inputs,
                "output": output,
                "attributes": attributes,
            }
        )

    def close(self) -> None:
        while self._stack:
            self._leave()

    def _enter(self, scope: list[tuple[str, str]]) -> None:
        paths = []
        path = ""
        for name, _ in scope:
            path = name if not path else f"{path}.{name}" if name else path
            paths.append(path)
        shared = 0
        while (
            shared < min(len(self._stack), len(paths))
            and self.paths[self._calls[self._stack[shared]]["module"]] == paths[shared]
        ):
            shared += 1
        if shared == 0 and self._stack:
            shared = 1  # everything runs within the one model
        while len(self._stack) > shared:
            self._leave()
        for depth in range(len(self._stack), len(paths)):
            parent = self._stack[-1] if self._stack else -1
            module = self._module(paths[depth], scope[depth][1], self._calls[parent]["module"] if parent >= 0 else -1)
            ordinal = self._ordinals[parent, module]
            self._ordinals[parent, module] += 1
            self._stack.append(len(self._calls))
            begin = len(self._operators)
            self._calls.append({"module": module, "parent": parent, "ordinal": ordinal, "begin": begin, "end": begin})

    def _leave(self) -> None:
        self._calls[self._stack.pop()]["end"] = len(self._operators)

    def _module(self, path: str, class_name: str, parent: int) -> int:
        row = self._modules.get(path)
        if row is None:
            row = self._modules[path] = len(self.paths)
            self.paths.append(path)
            self.classes.append(class_name)
            self._module_parents.append(parent)
        return row

    # ---- values

    def _tensor(self, name: str, shape: list[int], origin: str, *, producer: int = -1, label: str = "") -> int:
        row = self._tensor_of[name] = len(self._tensors)
        self._tensors.append({"shape": shape, "origin": ORIGINS.index(origin), "producer": producer, "name": label})
        return row

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
            return [self._tensor(name, _shape(node), "input", label=name.partition("/")[2])]
        if node.op == "prim::GetAttr":
            path = ".".join(piece for piece, _ in _scope(name) if piece)
            attribute = name.split("/")[-2] if "/" in name else name
            return [self._tensor(name, [], "parameter", label=f"{path}.{attribute}" if path else attribute)]
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

    # ---- columns

    def columns(self) -> dict[str, dict[str, Any]]:
        count, calls, operators, tensors = len(self.paths), self._calls, self._operators, self._tensors
        called = Counter(call["module"] for call in calls)
        readers: dict[int, list[int]] = {}
        for row, operator in enumerate(operators):
            for tensor in operator["inputs"]:
                readers.setdefault(tensor, []).append(row)
        call_inputs, call_outputs = [], []
        for call in calls:
            inside = range(call["begin"], call["end"])
            read = dict.fromkeys(tensor for row in inside for tensor in operators[row]["inputs"])
            # What comes from outside; parameters belong to the module and are no inputs.
            arrives = [
                t for t in read if tensors[t]["producer"] not in inside and ORIGINS[tensors[t]["origin"]] != "parameter"
            ]
            leaves = [
                operators[row]["output"]
                for row in inside
                if not readers.get(operators[row]["output"])
                or any(reader not in inside for reader in readers[operators[row]["output"]])
            ]
            call_inputs.append(arrives)
            call_outputs.append(leaves)
        rows = len(tensors)
        sizes = [4 * int(np.prod(tensor["shape"], dtype=np.int64)) if tensor["shape"] else 0 for tensor in tensors]
        return {
            "modules": {
                "path": self.paths,
                "aliases": [[]] * count,
                "class_name": self.classes,
                "class_module": [""] * count,
                "parent": self._module_parents,
                "attribute_names": [[]] * count,
                "attribute_values": [[]] * count,
                "parameters": [[]] * count,
                "training": [0] * count,
                "calls": [called[module] for module in range(count)],
            },
            "parameters": {field.name: [] for field in STRUCTURE_TABLES["parameters"]},
            "module_calls": {
                "module": [call["module"] for call in calls],
                "parent": [call["parent"] for call in calls],
                "ordinal": [call["ordinal"] for call in calls],
                "operator_begin": [call["begin"] for call in calls],
                "operator_end": [call["end"] for call in calls],
                "inputs": call_inputs,
                "input_names": [[str(k) for k in range(len(tensors_in))] for tensors_in in call_inputs],
                "outputs": call_outputs,
                "output_names": [["" if len(out) == 1 else str(k) for k in range(len(out))] for out in call_outputs],
                "raised": [0] * len(calls),
                "modified_after_return": [0] * len(calls),
                "duration_ns": [_NAN] * len(calls),
            },
            "operators": {
                "name": [operator["name"] for operator in operators],
                "call": [operator["call"] for operator in operators],
                "kernel_begin": list(range(len(operators))),
                "kernel_end": list(range(1, len(operators) + 1)),
                "inputs": [operator["inputs"] for operator in operators],
                "outputs": [[operator["output"]] for operator in operators],
                "attribute_names": [[name for name, _ in operator["attributes"]] for operator in operators],
                "attribute_values": [[value for _, value in operator["attributes"]] for operator in operators],
                "source": [""] * len(operators),
                "macs": [_NAN] * len(operators),
                "activation_bytes": [float(sizes[operator["output"]]) for operator in operators],
                "uncertain": [0] * len(operators),
            },
            "kernels": {
                "name": [operator["kernel"] for operator in operators],
                "operator": list(range(len(operators))),
                "inputs": [operator["inputs"] for operator in operators],
                "also_reads": [[]] * len(operators),
                "outputs": [[operator["output"]] for operator in operators],
                "arguments": [""] * len(operators),
                "macs": [_NAN] * len(operators),
            },
            "tensors": {
                "shape": [tensor["shape"] for tensor in tensors],
                "strides": [[]] * rows,
                "dtype": [""] * rows,
                "device": [""] * rows,
                "layout": ["strided"] * rows,
                "requires_grad": [0] * rows,
                "origin": [tensor["origin"] for tensor in tensors],
                "producer": [tensor["producer"] for tensor in tensors],
                "parameter": [-1] * rows,
                "name": [tensor["name"] for tensor in tensors],
                "storage": list(range(rows)),
                "storage_offset": [0] * rows,
                "bytes": sizes,
            },
        }
