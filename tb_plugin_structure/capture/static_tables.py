"""Modules and parameters of a model as columns of a record."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from tb_plugin_structure.capture import provenance
from tb_plugin_structure.capture.modules import attribute_texts, plain_attributes
from tb_plugin_structure.capture.observer import ObservedModel
from tb_plugin_structure.capture.sharding import Spread, distributed_tensor_class, original_class, spread_of
from tb_plugin_structure.capture.sketches import Samples


class StaticTables:
    """Read after the pass: lazy modules have their shapes by then. Tied tensors have one row.

    Making one copies what may change later out of the model, as it is; the tables are made of it when they are asked
    for. Nothing of the model is kept.

    Attributes:
        model_class: Class of the model.
        row_of_path: Path of a parameter or buffer, also of a tied one -> its row.
        provenance: Where and how the model was recorded.
    """

    def __init__(self, model: ObservedModel) -> None:
        table = model.table
        entries = table.entries
        row_of: dict[int, int] = {}
        self._paths: list[str] = []
        self._aliases: list[list[str]] = []
        self._owned: list[list[int]] = [[] for _ in entries]
        self.is_buffer: list[int] = []
        self.row_of_path: dict[str, int] = {}
        tensors: list[Tensor] = []
        flat = table.flat_shards
        for path, tensor, module, buffer in table.tensors():
            if flat and path.rpartition(".")[2] == "_flat_param":
                # One parameter for several: they are shown as they were written, with the shapes of all ranks together.
                self.row_of_path[path] = len(tensors)
                for name in _held_by(tensor, path, flat):
                    self._owned[table.row_of_module(name.rpartition(".")[0], module)].append(len(tensors))
                    self.row_of_path[name] = len(tensors)
                    self._add(name, 0)
                    tensors.append(tensor)
                continue
            row = row_of.get(id(tensor))
            if row is None:
                row = row_of[id(tensor)] = len(tensors)
                self._add(path, int(buffer))
                tensors.append(tensor)
            else:
                self._aliases[row].append(path)
            self.row_of_path[path] = row
            self._owned[module].append(row)
        self._spreads: list[Spread | None] = [None] * len(tensors)
        if flat or distributed_tensor_class() is not None:
            self._spreads = [
                _flat_spread(flat[path], path, tensor) if path in flat else spread_of(tensor)
                for path, tensor in zip(self._paths, tensors, strict=True)
            ]
        self._shapes = [
            _sizes(tensor) if spread is None else spread.shape
            for tensor, spread in zip(tensors, self._spreads, strict=True)
        ]
        self._dtypes = [tensor.dtype for tensor in tensors]
        self._devices = [tensor.device for tensor in tensors]
        self.requires_grad = [tensor.requires_grad for tensor in tensors]
        self._samples = Samples([None if path in flat else t for path, t in zip(self._paths, tensors, strict=True)])
        modules = [entry.module() for entry in entries]
        self._places = [(entry.path, entry.aliases, entry.parent) for entry in entries]
        self._classes = [(_class_name(module), _class_module(module)) for module in modules]
        self._attributes = [plain_attributes(module) if module is not None else {} for module in modules]
        self._training = [int(module.training) if module is not None else 0 for module in modules]
        self.model_class = original_class(table.model)
        self.provenance = provenance.describe(
            table.model,
            set(self._devices),
            training=model.training,
            grad=model.grad_mode or provenance.grad_mode(),
            autocast=model.autocast,
            wrappers=[*table.wrappers, *sorted(table.inner_wrappers)],
        )

    def _add(self, path: str, is_buffer: int) -> None:
        self._paths.append(path)
        self._aliases.append([])
        self.is_buffer.append(is_buffer)

    @cached_property
    def elements(self) -> list[int]:
        """Of each parameter or buffer."""
        return [math.prod(shape) for shape in self.parameters["shape"]]

    @cached_property
    def bytes(self) -> list[int]:
        """Of each parameter or buffer."""
        return [count * dtype.itemsize for count, dtype in zip(self.elements, self._dtypes, strict=True)]

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """Columns of the table of parameters, without ``bytes``."""
        names = {device: str(device) for device in set(self._devices)}
        columns: dict[str, Any] = {
            "path": self._paths,
            "aliases": self._aliases,
            "shape": [[size_of(size) for size in shape] for shape in self._shapes],
            "dtype": [dtype_name(dtype) for dtype in self._dtypes],
            "device": [names[device] for device in self._devices],
            "is_buffer": self.is_buffer,
            "requires_grad": [int(flag) for flag in self.requires_grad],
            "sketch": self._samples.sketches(),
        }
        if any(self._spreads):
            columns["local_shape"] = [list(spread.local_shape) if spread else [] for spread in self._spreads]
            columns["placement"] = [spread.placement if spread else "" for spread in self._spreads]
        return columns

    @cached_property
    def modules(self) -> dict[str, Any]:
        """Columns of the table of modules, without ``calls``."""
        attributes = [attribute_texts(found) for found in self._attributes]
        for found, rows in zip(attributes, self._owned, strict=True):
            for row in rows:
                spread = self._spreads[row]
                if spread is not None:
                    here = f", here {list(spread.local_shape)}" if spread.local_shape else ""
                    found[f"{self._paths[row].rpartition('.')[2]} placement"] = spread.placement + here
        return {
            "path": [path for path, _, _ in self._places],
            "aliases": [aliases for _, aliases, _ in self._places],
            "class_name": [name for name, _ in self._classes],
            "class_module": [module for _, module in self._classes],
            "parent": [parent for _, _, parent in self._places],
            "attribute_names": [list(found) for found in attributes],
            "attribute_values": [list(found.values()) for found in attributes],
            "parameters": self._owned,
            "training": self._training,
        }


def outside_tables() -> tuple[dict[str, Any], dict[str, Any]]:
    """(modules, parameters) of the record of what ran between models: one module that stands for all of it."""
    modules: dict[str, Any] = {
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
    names = ("path", "aliases", "shape", "dtype", "device", "is_buffer", "requires_grad", "bytes", "sketch")
    return modules, {name: [] for name in names}


def _class_name(module: Any) -> str:
    """Class of a module; for TorchScript the class it was made from."""
    if module is None:
        return ""
    if isinstance(module, torch.jit.ScriptModule):
        original = getattr(module, "original_name", None)
        if isinstance(original, str) and original:
            return original
    return original_class(module).__name__


def _class_module(module: Any) -> str:
    return original_class(module).__module__ if module is not None else ""


def _held_by(flat: Tensor, path: str, known: dict[str, tuple[int, ...]]) -> list[str]:
    """Paths of the parameters that a flat parameter holds."""
    outer = path.rpartition(".")[0]
    names = [f"{outer}.{name}" if outer else name for name in getattr(flat, "_fqns", ())]
    return [name for name in names if name in known]


def _flat_spread(shape: tuple[int, ...], path: str, tensor: Tensor) -> Spread:
    """A parameter of FullyShardedDataParallel: its part of the flat one is a run of elements without a shape."""
    local = () if hasattr(tensor, "_fqns") else tuple(tensor.shape)
    return Spread(shape, local, "flat shard")


def shape_of(tensor: Tensor) -> list[int]:
    """Sizes of a tensor; empty for a lazy parameter that was never materialised."""
    return [size_of(size) for size in _sizes(tensor)]


def _sizes(tensor: Tensor) -> Any:
    try:
        return tensor.shape
    except (RuntimeError, NotImplementedError):
        return ()


def size_of(size: Any) -> int:
    """A dimension as a number; -1 for a symbol, such as the ragged dimension of a jagged tensor."""
    if type(size) is int:
        return size
    try:
        return int(size)
    except Exception:  # torch raises several kinds for a symbol without a value
        return -1


_dtype_names: dict[torch.dtype, str] = {}


def dtype_name(dtype: torch.dtype) -> str:
    """'float32' for ``torch.float32``."""
    name = _dtype_names.get(dtype)
    if name is None:
        name = _dtype_names[dtype] = str(dtype).removeprefix("torch.")
    return name
