"""Modules and parameters of a model as columns of a record."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tb_plugin_structure.capture.modules import attributes_of
from tb_plugin_structure.capture.observer import ObservedModel
from tb_plugin_structure.capture.sharding import Spread, original_class, spread_of
from tb_plugin_structure.capture.sketches import sketch


class StaticTables:
    """Read after the pass: lazy modules have their shapes by then. Tied tensors have one row."""

    def __init__(self, model: ObservedModel) -> None:
        entries = model.table.entries
        row_of: dict[int, int] = {}
        paths: list[str] = []
        aliases: list[list[str]] = []
        tensors: list[Tensor] = []
        is_buffer: list[int] = []
        owned: list[list[int]] = [[] for _ in entries]
        self.row_of_path: dict[str, int] = {}
        flat = model.table.flat_shards
        for path, tensor, module, buffer in model.table.tensors():
            if flat and path.rpartition(".")[2] == "_flat_param":
                # One parameter for several: they are shown as they were written, with the shapes of all ranks together.
                self.row_of_path[path] = len(tensors)
                for name in _held_by(tensor, path, flat):
                    owned[model.table.row_of_module(name.rpartition(".")[0], module)].append(len(tensors))
                    self.row_of_path[name] = len(tensors)
                    paths.append(name)
                    aliases.append([])
                    tensors.append(tensor)
                    is_buffer.append(0)
                continue
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
        spreads = [
            _flat_spread(flat[path], path, tensor) if path in flat else spread_of(tensor)
            for path, tensor in zip(paths, tensors, strict=True)
        ]
        shapes = [
            shape_of(tensor) if spread is None else list(spread.shape)
            for tensor, spread in zip(tensors, spreads, strict=True)
        ]
        self.tensors = tensors
        self.is_buffer = is_buffer
        self.elements = [math.prod(shape) for shape in shapes]
        self.bytes = [count * tensor.element_size() for count, tensor in zip(self.elements, tensors, strict=True)]
        self.parameters: dict[str, Any] = {
            "path": paths,
            "aliases": aliases,
            "shape": shapes,
            "dtype": [dtype_name(tensor.dtype) for tensor in tensors],
            "device": [str(tensor.device) for tensor in tensors],
            "is_buffer": is_buffer,
            "requires_grad": [int(tensor.requires_grad) for tensor in tensors],
            "bytes": self.bytes,
            "sketch": [[] if path in flat else sketch(tensor) for path, tensor in zip(paths, tensors, strict=True)],
        }
        if any(spreads):
            self.parameters["local_shape"] = [list(spread.local_shape) if spread else [] for spread in spreads]
            self.parameters["placement"] = [spread.placement if spread else "" for spread in spreads]
        modules = [entry.module() for entry in entries]
        attributes = [attributes_of(module) if module is not None else {} for module in modules]
        for found, rows in zip(attributes, owned, strict=True):
            for row in rows:
                spread = spreads[row]
                if spread is not None:
                    here = f", here {list(spread.local_shape)}" if spread.local_shape else ""
                    found[f"{paths[row].rpartition('.')[2]} placement"] = spread.placement + here
        self.modules: dict[str, Any] = {
            "path": [entry.path for entry in entries],
            "aliases": [entry.aliases for entry in entries],
            "class_name": [_class_name(module) for module in modules],
            "class_module": [original_class(module).__module__ if module is not None else "" for module in modules],
            "parent": [entry.parent for entry in entries],
            "attribute_names": [list(found) for found in attributes],
            "attribute_values": [list(found.values()) for found in attributes],
            "parameters": owned,
            "training": [int(module.training) if module is not None else 0 for module in modules],
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
    try:
        return [size if type(size) is int else size_of(size) for size in tensor.shape]
    except (RuntimeError, NotImplementedError):
        return []


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
