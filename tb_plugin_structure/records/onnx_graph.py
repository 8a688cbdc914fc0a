"""An ONNX model as a structure: nodes, their scopes, initializers as parameters, shapes as far as they were inferred.

ONNX keeps no modules. Exporters of PyTorch leave their traces: the older one names nodes by scope
(``/layer1/layer1.0/conv1/Conv``), the newer one writes name scopes and classes into metadata. Where neither is there,
initializers still name the module that owns them, and everything runs in the model itself.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tb_plugin_structure.records.graph_builder import GraphBuilder, Parameter, Scope, Tensor
from tb_plugin_structure.records.sketches import sketch_positions, telling
from tb_plugin_structure.records.structure import Structure

NOTES = (
    "Read from an ONNX file: operators are ONNX's, fused or folded as the exporter did; modules follow from node names "
    "or metadata, and a module that is called again may appear as one call or under a name of its own.",
)
_DTYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
}
_ATTRIBUTE_FIELDS = {1: "f", 2: "i", 3: "s", 6: "floats", 7: "ints", 8: "strings"}
_UNKNOWN_COST = ("LSTM", "GRU", "RNN", "Einsum", "Attention", "MultiHeadAttention", "GroupQueryAttention", "DFT")
_WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN")
_ROLES = dict.fromkeys(("LSTM", "GRU", "RNN"), ("weight_ih", "weight_hh", "bias"))
_SCOPES_KEY, _CLASSES_KEY = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"
_MAXIMUM_TEXT = 120
_MAXIMUM_METADATA = 100_000


def structure_of_onnx(model: Any, name: str = "model", *, variant: str = "") -> Structure:
    """Convert a ``ModelProto``; shapes are those in its ``value_info``, so infer them before.

    Args:
        model: What ``onnx.load`` returned. Weights may be missing (external data): they are not looked at.
        name: Name of the model in the record.
        variant: Name of the variant.

    Raises:
        ValueError: When the graph has no node.
    """
    reader = _Reader(model.graph)
    reader.run()
    opsets = {f"opset {entry.domain or 'ai.onnx'}": str(entry.version) for entry in model.opset_import}
    if model.producer_name:
        opsets[model.producer_name[:40]] = model.producer_version[:40]
    return reader.builder.build(
        name, variant=variant, notes=NOTES, versions=opsets, input_descriptions=reader.descriptions
    )


class _Reader:
    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._infos = {info.name: info for info in (*graph.value_info, *graph.input, *graph.output)}
        self._rows: dict[str, int] = {}
        self._modules = {"": ""}
        self._texts: dict[str, str] = {}
        self._kinds: dict[str, list[str]] = {}
        self._initializers: dict[str, tuple[list[int], int]] = {}
        self._same: dict[str, str] = {}
        """Result of an Identity -> the initializer that it hands on: exporters keep equal weights once."""
        self._stored: dict[str, Any] = {}
        self.descriptions: dict[str, str] = {}
        classes = next((_metadata(node, _CLASSES_KEY) for node in graph.node if _metadata(node, _CLASSES_KEY)), [])
        self.builder = GraphBuilder(*(_class_of(classes[0]) if classes else (_identifier(graph.name), "")))

    def run(self) -> None:
        graph, builder = self._graph, self.builder
        initializers = {item.name: (list(item.dims), item.data_type) for item in graph.initializer}
        initializers |= {
            item.values.name: (list(item.dims), item.values.data_type) for item in graph.sparse_initializer
        }
        owned = self._owned_parameters(initializers)
        for path in owned:
            owner = path.rpartition(".")[0]
            while owner:
                self._modules[owner] = owner
                owner = owner.rpartition(".")[0]
        self._initializers = initializers
        self._stored = {item.name: item for item in graph.initializer}
        for path in initializers:
            if path in owned:
                self._add_parameter(path, path)
        for item in graph.input:
            if item.name not in initializers:
                tensor, text = self._described(item.name)
                self._rows[item.name] = builder.input(item.name, tensor)
                self.descriptions[item.name] = text
        self._same = {
            node.output[0]: node.input[0]
            for node in graph.node
            if node.op_type == "Identity" and node.input[0] in initializers
        }
        for node in graph.node:
            if not (node.op_type == "Identity" and node.output[0] in self._same):
                self._node(node)
        self._name_leaves()
        several = len(graph.output) > 1
        for item in graph.output:
            if item.name in self._rows:
                builder.result(item.name if several else "", self._rows[item.name])

    def _owned_parameters(self, initializers: dict[str, tuple[list[int], int]]) -> set[str]:
        """Initializers that are parameters of a module: dotted paths; the others are literals of the exporter."""
        return {name for name in initializers if "." in name and all(map(_is_piece, name.split(".")))}

    def _add_parameter(self, path: str, name: str) -> None:
        shape, kind = self._initializers[name]
        dtype = _DTYPES.get(kind, "")
        is_buffer = path.endswith(("running_mean", "running_var", "num_batches_tracked"))
        sketch = _sketch(self._stored[name], dtype) if name in self._stored else []
        self.builder.parameter(Parameter(path, shape, dtype, is_buffer=is_buffer, sketch=sketch))

    def _name_parameters(self, node: Any, scope: Sequence[Scope]) -> None:
        """Weights that the exporter transposed or folded lost their names ('onnx::MatMul_21'): they belong to the
        module whose product or convolution reads them."""
        if node.op_type not in _WEIGHTED:
            return
        prefix = f"{scope[-1].path}." if scope else ""
        for given, role in zip(node.input[1:], _ROLES.get(node.op_type, ("weight", "bias")), strict=False):
            name = self._same.get(given, given)
            if name in self._initializers and name not in self._rows and not self.builder.is_parameter(name):
                path, number = prefix + role, 1
                while self.builder.is_parameter(path):  # a module may read several, e.g. of query, key and value
                    number += 1
                    path = f"{prefix}{role}_{number}"
                self._add_parameter(path, name)
                self._rows[name] = self.builder.reading(path)

    def _name_leaves(self) -> None:
        """A module without a known class that calls no other one gets the type of its operator as class."""
        inner = {path.rpartition(".")[0] for path in self._kinds}
        for path, kinds in self._kinds.items():
            if path and path not in inner:
                self.builder.module(path, next((kind for kind in kinds if kind in _WEIGHTED), kinds[0]))

    # ---- nodes

    def _node(self, node: Any) -> None:
        if node.op_type == "Constant":
            self._constant(node)
            return
        scope = self._scope(node)
        self._kinds.setdefault(scope[-1].path if scope else "", []).append(node.op_type)
        self._name_parameters(node, scope)
        inputs, literals = [], []
        for position, name in enumerate(self._read_by(node)):
            row = self._value(name)
            if row is None and name in self._texts:
                literals.append((str(position), self._texts[name]))
            elif row is not None:
                inputs.append(row)
        produced = [name for name in node.output if name]
        tensors = [self._described(name)[0] for name in produced]
        attributes = [(attribute.name, _attribute_text(attribute)) for attribute in node.attribute]
        rows = self.builder.operator(
            scope,
            node.op_type,
            inputs,
            tensors,
            kernel=f"{node.domain or 'onnx'}.{node.op_type}",
            attributes=[*((name, text) for name, text in attributes if text), *literals],
            macs=self._macs(node, inputs, tensors),
        )
        self._rows.update(zip(produced, rows, strict=True))

    def _read_by(self, node: Any) -> list[str]:
        """What a node reads; branches and bodies of If, Loop and Scan read values of the graph around them too."""
        read = [self._same.get(name, name) for name in node.input if name]
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                own = {item.name for item in (*graph.input, *graph.initializer)}
                for inner in graph.node:
                    read += [name for name in self._read_by(inner) if name not in own]
                    own.update(inner.output)
        return list(dict.fromkeys(read)) if len(read) > len(node.input) else read

    def _constant(self, node: Any) -> None:
        for attribute in node.attribute:
            if attribute.name == "value" and attribute.t.dims and math.prod(attribute.t.dims) > 16:
                tensor = Tensor(list(attribute.t.dims), _DTYPES.get(attribute.t.data_type, ""))
                self._rows[node.output[0]] = self.builder.constant(tensor)
                return
            if attribute.name == "value":
                self._texts[node.output[0]] = _literal_text(attribute.t)
            else:
                self._texts[node.output[0]] = _attribute_text(attribute)

    def _value(self, name: str) -> int | None:
        """Row of a value; None for a literal, which is an argument and no data flow."""
        row = self._rows.get(name)
        if row is None and name in self._initializers:
            if self.builder.is_parameter(name):
                row = self.builder.reading(name)
            else:
                shape, kind = self._initializers[name]
                row = self.builder.constant(Tensor(shape, _DTYPES.get(kind, "")))
            self._rows[name] = row
        return row

    def _described(self, name: str) -> tuple[Tensor, str]:
        """A value's outline, and 'float32[batch, 3, 224, 224]'."""
        info = self._infos.get(name)
        if info is None or not info.type.HasField("tensor_type"):
            return Tensor(), "unknown"
        kind = info.type.tensor_type
        dtype = _DTYPES.get(kind.elem_type, "")
        if not kind.HasField("shape"):
            return Tensor(None, dtype), dtype or "tensor"
        sizes = [dimension.dim_value if dimension.HasField("dim_value") else -1 for dimension in kind.shape.dim]
        texts = [
            str(dimension.dim_value) if dimension.HasField("dim_value") else dimension.dim_param or "?"
            for dimension in kind.shape.dim
        ]
        return Tensor(sizes, dtype), f"{dtype}[{', '.join(texts)}]"

    def _macs(self, node: Any, inputs: Sequence[int], outputs: Sequence[Tensor]) -> float:
        """Multiply-accumulates of convolutions and matrix products; NaN when unknown."""
        kind = node.op_type
        if kind in ("Conv", "ConvTranspose", "Gemm", "MatMul", "ConvInteger", "MatMulInteger", "QLinearConv"):
            shapes = [self.builder.shape(row) for row in inputs[:2]] + [outputs[0].shape if outputs else None]
            known = [shape for shape in shapes if shape is not None and min(shape, default=0) >= 0]
            if len(known) < 3 or len(known[0]) < 1 or kind == "QLinearConv":
                return math.nan
            first, second, out = known
            if kind == "ConvTranspose":
                return math.prod(first) * math.prod(second[1:])
            if kind.startswith("Conv"):
                return math.prod(out) * math.prod(second[1:])
            turned = any(attribute.name == "transA" and attribute.i for attribute in node.attribute)
            return math.prod(out) * (first[0] if turned else first[-1])
        return math.nan if kind in _UNKNOWN_COST or node.domain not in ("", "ai.onnx") else 0.0

    # ---- scopes

    def _scope(self, node: Any) -> list[Scope]:
        paths = _metadata(node, _SCOPES_KEY)
        if paths:
            # The last entry names the node itself.
            classes = _metadata(node, _CLASSES_KEY)
            named = [(path, classes[at] if at < len(classes) else "") for at, path in enumerate(paths[:-1]) if path]
            return [Scope(path, path, *_class_of(kind)) for path, kind in named]
        if not node.name.startswith("/"):
            return []
        scope: list[Scope] = []
        path = call = ""
        for piece in node.name.split("/")[1:-1]:
            call = f"{call}/{piece}"
            path = self._path_of(path, piece)
            if path:
                scope.append(Scope(call, path))
        return scope

    def _path_of(self, parent: str, piece: str) -> str:
        """Path of a module from its parent's and its scope name: a child of a container repeats the container's name
        ('layer1.0' within 'layer1'); a further call has a number at its end ('bn_1')."""
        last = parent.rpartition(".")[2]
        names = [piece.removeprefix(f"{last}.")] if last and piece.startswith(f"{last}.") else []
        names.append(piece)
        again = piece.rpartition("_")
        if again[2].isdigit() and again[0]:
            names += [name.rpartition("_")[0] for name in list(names)]
        candidates = [f"{parent}.{name}" if parent else name for name in names]
        return next((path for path in candidates if path in self._modules), candidates[0])


def _is_piece(piece: str) -> bool:
    return piece.isidentifier() or piece.isdigit()


def _identifier(name: str) -> str:
    return name if name.isidentifier() and name not in ("main_graph", "torch_jit") else "Model"


def _metadata(node: Any, key: str) -> list[str]:
    """A list of strings that PyTorch's exporter wrote as Python text."""
    for entry in node.metadata_props:
        if entry.key == key and len(entry.value) <= _MAXIMUM_METADATA:
            try:
                value = ast.literal_eval(entry.value)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                return []
            return [str(item) for item in value] if isinstance(value, (list, tuple)) else []
    return []


def _class_of(qualified: str) -> tuple[str, str]:
    module, _, name = qualified.rpartition(".")
    return name, module


def _attribute_text(attribute: Any) -> str:
    field = _ATTRIBUTE_FIELDS.get(attribute.type)
    if field is None:
        return ""
    value = getattr(attribute, field)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")[:_MAXIMUM_TEXT]
    if isinstance(value, (int, float)):
        return _number(value)
    return _list_text(value)


def _list_text(values: Iterable[Any]) -> str:
    items = [item.decode("utf-8", "replace") if isinstance(item, bytes) else _number(item) for item in values]
    return f"[{', '.join(items)}]"[:_MAXIMUM_TEXT]


def _number(value: Any) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def _sketch(tensor: Any, dtype: str) -> list[float]:
    """A weight sketch from values stored in the file; empty where they lie elsewhere or are of another type."""
    if dtype not in ("float32", "float64", "float16"):
        return []
    if dtype == "float32" and tensor.float_data:
        flat = np.array(tensor.float_data, np.float32)
    else:
        flat = np.frombuffer(tensor.raw_data, np.dtype(dtype).newbyteorder("<"))
    if flat.size != math.prod(tensor.dims) or flat.size < 2:
        return []
    return telling(flat[sketch_positions(flat.size)].astype(np.float64).tolist())


def _literal_text(tensor: Any) -> str:
    """The values of a small constant, where they are stored as such or as little-endian bytes."""
    for field in ("float_data", "int32_data", "int64_data", "double_data"):
        values = list(getattr(tensor, field))
        if values:
            return _list_text(values) if tensor.dims else _number(values[0])
    try:
        dtype = np.dtype(_DTYPES.get(tensor.data_type, "")).newbyteorder("<")
        values = np.frombuffer(tensor.raw_data, dtype).tolist()
    except (TypeError, ValueError):
        return "?"
    return _list_text(values) if tensor.dims or not values else _number(values[0])
