"""The static side of a model: its modules and parameters, wrappers taken off."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from tb_plugin_structure.capture.sharding import flat_shards, is_fully_sharded

WRAPPERS = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "OptimizedModule": "_orig_mod",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
    "OffloadWrapper": "_checkpoint_wrapped_module",
    "AveragedModel": "module",
}
"""Class of a wrapper -> the attribute that holds what it wraps. Their own names do not appear in paths."""

MAXIMUM_ATTRIBUTES = 48
MAXIMUM_ATTRIBUTE_TEXT = 120


def wrapped(module: nn.Module) -> nn.Module | None:
    """What a wrapper such as ``DistributedDataParallel`` holds; None when `module` is no wrapper."""
    attribute = WRAPPERS.get(type(module).__name__)
    inner = module._modules.get(attribute) if attribute is not None else None
    return inner if isinstance(inner, nn.Module) else None


def without_local_wrappers(model: nn.Module) -> nn.Module:
    """The model as it can run on its own: without ``DistributedDataParallel``, which sends buffers to the other ranks
    before each pass, and without a compiler. ``FullyShardedDataParallel`` stays, as it gathers the parameters: every
    rank has to take part."""
    while type(model).__name__ != "FullyShardedDataParallel" and (inner := wrapped(model)) is not None:
        model = inner
    return model


def unwrap(model: nn.Module) -> tuple[nn.Module, list[str]]:
    """The model without its outer wrappers, and their classes, outermost first."""
    names: list[str] = []
    while (inner := wrapped(model)) is not None:
        names.append(type(model).__name__)
        model = inner
    return model, names


@dataclass
class ModuleEntry:
    """One module instance. `module` is held weakly: recording keeps nothing alive."""

    module: weakref.ref[nn.Module]
    path: str
    parent: int
    aliases: list[str] = field(default_factory=list)


class ModuleTable:
    """The modules of one model in registration order; row 0 is the model."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.wrappers = unwrap(model)
        self.entries: list[ModuleEntry] = []
        self.row_of: dict[int, int] = {}
        self.held: list[nn.Module] = []
        """One that the model drops while it runs stays alive: its identity must not pass to another."""
        self.inner_wrappers: set[str] = set()
        self.flat_shards: dict[str, tuple[int, ...]] = {}
        """Path of a parameter that FullyShardedDataParallel keeps in a flat one -> its global shape."""
        outer = model
        while (inner := wrapped(outer)) is not None:
            self.flat_shards |= flat_shards(outer, "")
            outer = inner
        self.refresh()

    def refresh(self) -> bool:
        """Walk the model (again: modules may be added while it runs). True when something new was found."""
        before = len(self.entries)
        seen_paths = {entry.path for entry in self.entries} | {a for entry in self.entries for a in entry.aliases}
        plain: set[type] = set()
        stack: list[tuple[nn.Module, str, int, frozenset[int]]] = [(self.model, "", -1, frozenset())]
        while stack:
            module, path, parent, above = stack.pop()
            if type(module) not in plain:
                while (inner := wrapped(module)) is not None:
                    self.inner_wrappers.add(type(module).__name__)
                    self.flat_shards |= flat_shards(module, path)
                    module = inner
                if is_fully_sharded(module):
                    self.inner_wrappers.add("FSDPModule")
                elif type(module).__name__ not in WRAPPERS:
                    plain.add(type(module))
            row = self.row_of.get(id(module))
            if row is None:
                row = len(self.entries)
                self.row_of[id(module)] = row
                self.entries.append(ModuleEntry(weakref.ref(module), path, parent))
                self.held.append(module)
                seen_paths.add(path)
            elif path not in seen_paths:
                self.entries[row].aliases.append(path)
                seen_paths.add(path)
            elif path != self.entries[row].path and path not in self.entries[row].aliases:
                self.entries[row].aliases.append(path)
            if id(module) in above or len(above) > 4000:
                continue  # a module that contains itself
            if not module._modules:
                continue
            within = above | {id(module)} if len(above) < 64 else above
            children = [
                (child, f"{path}.{name}" if path else name, row, within)
                for name, child in module._modules.items()
                if child is not None
            ]
            stack.extend(reversed(children))
        return len(self.entries) > before

    def release(self) -> None:
        """Let go of the model; paths stay."""
        del self.model
        self.held.clear()

    def row_of_module(self, path: str, default: int) -> int:
        """Row of the module of a path; `default` when there is none."""
        return next((row for row, entry in enumerate(self.entries) if entry.path == path), default)

    def tensors(self) -> list[tuple[str, Tensor, int, bool]]:
        """(path, tensor, module row, is buffer) of every registration of a parameter or buffer, modules in order."""
        found: list[tuple[str, Tensor, int, bool]] = []
        for row, entry in enumerate(self.entries):
            module = entry.module()
            if module is None:
                continue
            prefix = f"{entry.path}." if entry.path else ""
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    found.append((prefix + name, parameter, row, False))
            for name, buffer in module._buffers.items():
                if isinstance(buffer, Tensor):
                    found.append((prefix + name, buffer, row, True))
        return found


_NUMBERS_AND_TEXT = frozenset({int, bool, float, str, type(None)})


def plain_attributes(module: nn.Module) -> dict[str, Any]:
    """Constructor-like attributes: public plain values such as ``in_features``, ``stride``, ``eps``, ``p``.

    Activation functions are given by name. Values are never computed: only what lies in the instance's dictionary.
    Numbers, strings and None are given as they are, the rest as text; see :func:`attribute_texts`.
    """
    found: dict[str, Any] = {}
    public = {name: value for name, value in module.__dict__.items() if name[0] != "_"}
    public.pop("training", None)
    for name, value in public.items():
        if type(value) in _NUMBERS_AND_TEXT:
            found[name] = value
        elif (text := _plain_text(value)) is not None:
            found[name] = text
    if len(found) > MAXIMUM_ATTRIBUTES:
        found = dict(islice(found.items(), MAXIMUM_ATTRIBUTES))
    if isinstance(module, nn.MultiheadAttention):
        found.setdefault("batch_first", module.batch_first)
    return found


def attribute_texts(attributes: Mapping[str, Any]) -> dict[str, str]:
    """What :func:`plain_attributes` found, as text."""
    return {name: str(value)[:MAXIMUM_ATTRIBUTE_TEXT] for name, value in attributes.items()}


def _is_plain(value: Any) -> bool:
    return type(value) in _NUMBERS_AND_TEXT or isinstance(value, (int, float, str))


def _plain_text(value: Any) -> str | None:
    if value is None or isinstance(value, (bool, int, float, complex)):
        return str(value)
    if isinstance(value, str):
        return value
    if isinstance(value, (torch.dtype, torch.device)):
        return str(value).removeprefix("torch.")
    if isinstance(value, (tuple, list, torch.Size)):
        if len(value) <= 16 and all(map(_is_plain, value)):
            return "(" + ", ".join(map(str, value)) + ")"
        return None
    if callable(value) and not isinstance(value, (nn.Module, type, Tensor)):
        name = getattr(value, "__name__", None)
        return name if isinstance(name, str) and name.isidentifier() else None
    return None
