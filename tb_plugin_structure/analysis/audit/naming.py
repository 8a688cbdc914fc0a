"""The meaning of every tensor dimension, followed through the kernels of a record.

Some kernels say what their dimensions are (a convolution reads channels, height, width; a layer norm reads a hidden
dimension); the others carry meaning along (a permutation reorders it, a view merges and splits it, a concatenation with
a parameter puts special tokens in front). One walk forward, one back for what came before the first kernel that says
something, and one more forward.

>>> Names(structure).of(tensor)
(Dimension('batch', 1), Dimension('tokens', 197, special=1, grid=(14, 14)), Dimension('hidden', 768))
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.arguments import Arguments, kernel_arguments
from tb_plugin_structure.analysis.audit.feature import Dimension
from tb_plugin_structure.analysis.audit.kernel_meanings import LAST, MAPS, RULES, SEQUENCE_FIRST, Label, carry, named
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.records.table import Table


class Names:
    """Dimension names of the tensors of one structure, found when first asked for."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.labels: dict[int, Label] = {}
        self.shapes: list[list[int]] = shared_lists(structure.tensors, "shape")
        self.parameters: dict[int, str] = {}
        origins = structure.tensors["origin"].tolist()
        for tensor, parameter in enumerate(structure.tensors["parameter"].tolist()):
            if parameter >= 0 and origins[tensor] == 2:
                self.parameters[tensor] = structure.parameters.text("path", parameter)
        self.kernel_names = [base_name(name) for name in structure.kernels.column_texts("name")]
        self.inputs = structure.kernels.lists("inputs")
        self.outputs = structure.kernels.lists("outputs")
        self.also_reads = structure.kernels.lists("also_reads")
        self.sequence_first_calls: list[int] = []
        """Calls of modules that say ``batch_first=False``, in order."""
        self._done = False
        self._equal: dict[Label, Label] = {}
        """Layers repeat a few labels: equal ones are one object."""

    def of(self, tensor: int) -> Label:
        """One :class:`Dimension` a dimension; unknown meanings are named "?"."""
        if not self._done:
            self._done = True
            self._run()
        return self.labels.get(tensor) or self.unknown(tensor)

    def unknown(self, tensor: int) -> Label:
        shape = self.shapes[tensor]
        return tuple(
            Dimension(dim.BATCH if axis == 0 and size in self.batch_sizes else dim.UNKNOWN, size)
            for axis, size in enumerate(shape)
        )

    @cached_property
    def batch_sizes(self) -> set[int]:
        """Sizes of the first dimension of the model's inputs."""
        if not self.structure.module_calls.rows:
            return set()
        inputs = self.structure.module_calls.values("inputs", 0).tolist()
        return {self.shapes[tensor][0] for tensor in inputs if self.shapes[tensor]}

    def traced(self, tensor: int) -> Label | None:
        """What the kernel that made a tensor says of it, whatever the modules that read it say; None when it says
        nothing."""
        self.of(tensor)
        kernel = int(self.structure.tensors["producer"][tensor])
        if kernel < 0 or self.outputs[kernel][:1] != [tensor]:
            return None
        try:
            label = RULES.get(self.kernel_names[kernel], carry)(self, kernel, self.inputs[kernel], self.outputs[kernel])
        except (LookupError, ValueError, ZeroDivisionError):
            return None
        return label if label is not None and [d.size for d in label] == self.shapes[tensor] else None

    # ---- the walks

    def _run(self) -> None:
        self._seed_inputs()
        self._seed_sequence_first()
        self._seed_recurrent()
        self._forward()
        self._seed_modules()
        self._backward()
        self._forward()
        self._predictions()

    def _forward(self) -> None:
        for kernel, name in enumerate(self.kernel_names):
            inputs, outputs = self.inputs[kernel], self.outputs[kernel]
            if not outputs:
                continue
            self._follow_parameter(name, inputs, outputs)
            if outputs[0] in self.labels and (not inputs or inputs[0] in self.labels):
                continue  # named by an earlier walk
            rule = RULES.get(name, carry)
            try:
                label = rule(self, kernel, inputs, outputs)
            except (LookupError, ValueError, ZeroDivisionError):
                label = None  # other operands than this kernel has in PyTorch: a record of another tool
            if label is not None:
                label = self._equal.setdefault(label, label)
                sizes = [d.size for d in label]
                for output in outputs:
                    if sizes == self.shapes[output]:
                        self.labels.setdefault(output, label)

    def _backward(self) -> None:
        """What came before the first kernel that says something: elementwise kernels, read from result to operand."""
        for kernel in range(len(self.kernel_names) - 1, -1, -1):
            outputs = self.outputs[kernel]
            if self.kernel_names[kernel] in RULES or not outputs or outputs[0] not in self.labels:
                continue
            label = self.labels[outputs[0]]
            for tensor in self.inputs[kernel]:
                if self.shapes[tensor] == self.shapes[outputs[0]] and tensor not in self.parameters:
                    self.labels.setdefault(tensor, label)

    def _follow_parameter(self, name: str, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """A parameter that is only expanded, viewed or cast is still that parameter (a class token, say)."""
        if len(inputs) == 1 and inputs[0] in self.parameters and name in _SHAPE_ONLY:
            for output in outputs:
                self.parameters[output] = self.parameters[inputs[0]]

    def parameter_of(self, tensor: int) -> str:
        """Path of the parameter that a tensor is, seen through views; "" for others."""
        return self.parameters.get(tensor, "")

    def _seed_inputs(self) -> None:
        """A matrix of integers that a model takes is a batch of token ids."""
        structure = self.structure
        for tensor in structure.module_calls.values("inputs", 0).tolist() if structure.module_calls.rows else ():
            if len(self.shapes[tensor]) == 2 and structure.tensors.text("dtype", tensor) in ("int64", "int32"):
                self.labels[tensor] = named((dim.BATCH, dim.TOKENS), self.shapes[tensor])

    def _seed_sequence_first(self) -> None:
        structure = self.structure
        calls = structure.module_calls
        for module in self._sequence_first_modules():
            for call in structure.calls_of_module.get(module, ()):
                self.sequence_first_calls.append(call)
                for tensor in [*calls.values("inputs", call).tolist(), *calls.values("outputs", call).tolist()]:
                    if len(self.shapes[tensor]) == 3 and self._is_sequence(tensor, structure.module_classes[module]):
                        self.labels.setdefault(tensor, named(SEQUENCE_FIRST, self.shapes[tensor]))

    def _seed_recurrent(self) -> None:
        """LSTM, GRU and RNN: the sequence they give, and their last states, one a layer and direction."""
        structure = self.structure
        calls = structure.module_calls
        for module, rows in structure.calls_of_module.items():
            is_torch = structure.modules.text("class_module", module).startswith("torch.nn")
            if not is_torch or structure.module_classes[module] not in ("LSTM", "GRU", "RNN"):
                continue
            order = LAST[3] if structure.attributes(module).get("batch_first") == "True" else SEQUENCE_FIRST
            for call in rows:
                inputs, outputs = calls.values("inputs", call).tolist(), calls.values("outputs", call).tolist()
                for place, tensor in enumerate(outputs):
                    if len(self.shapes[tensor]) == 3:
                        names = (dim.LAYERS, dim.BATCH, dim.HIDDEN) if place else order
                        self.labels[tensor] = named(names, self.shapes[tensor])
                if inputs and len(self.shapes[inputs[0]]) == 3 and inputs[0] not in self.parameters:
                    self.labels.setdefault(inputs[0], named(order, self.shapes[inputs[0]]))

    def _sequence_first_modules(self) -> set[int]:
        """Modules that say ``batch_first=False``, and the layers of torch's transformer around them: those run a fused
        kernel instead of calling what they hold."""
        structure = self.structure
        parents = structure.modules["parent"].tolist()
        found: set[int] = set()
        for module in modules_with_attribute(structure, "batch_first"):
            is_torch = structure.modules.text("class_module", module).startswith("torch.nn")
            if not is_torch or structure.attributes(module).get("batch_first") != "False":
                continue
            while module >= 0 and module not in found:
                found.add(module)
                module = parents[module]
                if module >= 0 and not structure.module_classes[module].startswith(("Transformer", "ModuleList")):
                    break
        return found

    def _is_sequence(self, tensor: int, class_name: str) -> bool:
        """Not the attention weights that a MultiheadAttention returns beside its output."""
        shape = self.shapes[tensor]
        return class_name != "MultiheadAttention" or shape[1] != shape[2]

    def _seed_modules(self) -> None:
        structure = self.structure
        calls = structure.module_calls
        for module, rows in structure.calls_of_module.items():
            class_name = structure.module_classes[module]
            convolution = class_name.startswith(("Conv", "BatchNorm", "MaxPool", "AvgPool", "AdaptiveAvgPool"))
            names = MAPS if convolution else LAST if class_name in _LAST_CLASSES else None
            if names is None:
                self._seed_like_input(rows)
                continue
            for call in rows:
                for tensor in [*calls.values("inputs", call).tolist(), *calls.values("outputs", call).tolist()]:
                    if len(self.shapes[tensor]) in names and tensor not in self.parameters:
                        self.labels.setdefault(tensor, named(names[len(self.shapes[tensor])], self.shapes[tensor]))

    def _seed_like_input(self, calls: list[int]) -> None:
        """A module that returns the shape it takes keeps its meaning, whatever kernels are inside (routing to experts,
        a scan)."""
        table = self.structure.module_calls
        for call in calls:
            inputs, outputs = table.values("inputs", call).tolist(), table.values("outputs", call).tolist()
            if inputs and outputs and inputs[0] in self.labels and self.shapes[inputs[0]] == self.shapes[outputs[0]]:
                known = self.labels.get(outputs[0], ())
                if not known or any(dimension.name == dim.UNKNOWN for dimension in known):
                    self.labels[outputs[0]] = self.labels[inputs[0]]

    # ---- what rules use

    def known(self, tensor: int, default: dict[int, tuple[str, ...]] | None = None) -> Label | None:
        """The label of a tensor; where it has none yet, the names that `default` gives to its rank."""
        label = self.labels.get(tensor)
        if label is None and default is not None:
            names = default.get(len(self.shapes[tensor]))
            if names is not None and tensor not in self.parameters:
                label = named(names, self.shapes[tensor])
                self.labels[tensor] = label
        return label

    def arguments(self, kernel: int) -> Arguments:
        return kernel_arguments(self.structure, kernel)

    # ---- predictions

    def _predictions(self) -> None:
        """The last dimension of what a model finally returns may be a vocabulary or a set of classes."""
        structure = self.structure
        if not structure.module_calls.rows:
            return
        paths = structure.parameters.column_texts("path")
        embeddings = {
            shape[0]
            for path, shape in zip(paths, shared_lists(structure.parameters, "shape"), strict=True)
            if len(shape) == 2 and path.endswith("weight") and self._owner_class(path).endswith("Embedding")
        }
        elements = structure.module_calls.texts("output_names", 0)
        tensors = structure.module_calls.values("outputs", 0).tolist()
        for element, tensor in zip(elements, tensors, strict=True):
            label = self.labels.get(tensor)
            if not label or label[-1].name not in (dim.HIDDEN, dim.CHANNELS) or len(label) not in (2, 3):
                continue
            projected = self._projection_behind(tensor)
            if projected is None:
                continue
            path, chain = projected
            last = path.rpartition(".")[2].lower()
            says_logits = element.split(".")[-1].endswith(("logits", "logit", "scores"))
            if label[-1].size in embeddings and len(label) == 3:
                name = dim.VOCABULARY
            elif says_logits or (len(label) == 2 and len(tensors) == 1 and not any(w in last for w in _EMBEDS)):
                name = dim.CLASSES
            else:
                continue
            for member in chain:
                if member in self.labels and self.labels[member][-1].size == label[-1].size:
                    self.labels[member] = (*self.labels[member][:-1], Dimension(name, label[-1].size))

    def _owner_class(self, parameter_path: str) -> str:
        row = self.structure.module_row.get(parameter_path.rpartition(".")[0], 0)
        return self.structure.module_classes[row]

    def _projection_behind(self, tensor: int) -> tuple[str, list[int]] | None:
        """(module path, tensors on the way) when a tensor is the result of a matrix product, seen through views,
        casts and additions of a bias."""
        chain = [tensor]
        producers = self.structure.tensors["producer"]
        while len(chain) < 8:
            kernel = int(producers[chain[-1]])
            if kernel < 0:
                return None
            if self.kernel_names[kernel] in _PRODUCTS:
                operator = int(self.structure.kernels["operator"][kernel])
                call = int(self.structure.operators["call"][operator])
                return self.structure.call_path(call), chain
            if self.kernel_names[kernel] not in _SHAPE_ONLY and self.kernel_names[kernel] not in ("add", "div", "mul"):
                return None
            data = [t for t in self.inputs[kernel] if t not in self.parameters]
            if not data:
                return None
            chain.append(data[0])  # of two predictions that are averaged, either one tells
        return None


def shared_lists(table: Table, column: str) -> list[list[int]]:
    """Like ``Table.column_lists``, equal lists being one object: a large record has a million short ones, and making
    as many objects would have Python's garbage collector look at everything in memory again and again."""
    values, offsets = table[column].tolist(), table.offsets(column).tolist()
    stored, width = table[column].tobytes(), table[column].itemsize
    known: dict[bytes, list[int]] = {}
    lists = []
    for begin, end in pairwise(offsets):
        key = stored[width * begin : width * end]
        found = known.get(key)
        if found is None:
            found = known[key] = values[begin:end]
        lists.append(found)
    return lists


def shared_texts(table: Table, column: str) -> list[list[str]]:
    """The lists of a list column of strings, equal ones being one object."""
    lists = shared_lists(table, column)
    texts: dict[int, list[str]] = {}
    for row, indices in enumerate(lists):
        if id(indices) not in texts:
            texts[id(indices)] = table.texts(column, row)
    return [texts[id(indices)] for indices in lists]


def modules_with_attribute(structure: Structure, name: str) -> list[int]:
    """Rows of the modules that have an attribute of that name."""
    return [row for row, names in enumerate(shared_texts(structure.modules, "attribute_names")) if name in names]


_EMBEDS = ("embed", "proj", "pool")
_LAST_CLASSES = frozenset({"Linear", "LayerNorm", "RMSNorm", "Conv1D", "NonDynamicallyQuantizableLinear"})
_SHAPE_ONLY = frozenset(
    {
        "expand", "view", "_unsafe_view", "unsqueeze", "squeeze", "slice", "permute", "transpose", "t", "_to_copy",
        "clone", "detach", "alias", "reshape", "contiguous", "repeat", "_reshape_alias", "lift_fresh",
    }
)  # fmt: skip
_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "linear", "matmul"})


def base_name(name: str) -> str:
    """'aten.addmm.default' -> 'addmm'; the trailing underscore of in-place kernels goes as well."""
    pieces = name.split(".")
    base = pieces[1] if len(pieces) > 1 else pieces[0]
    return base[:-1] if base.endswith("_") and not base.endswith("__") else base
