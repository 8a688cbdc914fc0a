"""What a module says about its attention: number of heads, self or cross, windows, widths."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from torch import nn

from tb_plugin_structure.capture.modules import ModuleTable

_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "heads", "num_head", "nheads")
_KEY_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "kv_heads")
_ATTENTION = re.compile(r"attention|attn|(^|_)mha($|_)", re.IGNORECASE)
_PART = re.compile(r"norm|dropout|drop_?path|linear$|^conv|conv\dd|identity|output|embed|rotary|scale$", re.IGNORECASE)
_QUERY = re.compile(r"(^|_)(q|qkv|query|to_q|c_attn|in_proj)", re.IGNORECASE)
_CROSS = re.compile(r"cross|encoder_?attn|encoder_?decoder|encdec|multihead_attn", re.IGNORECASE)
_SELF = re.compile(r"self", re.IGNORECASE)


class ModuleFacts:
    """Facts about the modules of one model, found by walking from a module up to its parents."""

    def __init__(self, model: nn.Module) -> None:
        self._table = ModuleTable(model)
        self._modules: dict[str, nn.Module] = {}
        self._paths: dict[int, str] = {}
        self._collect()
        self._heads: dict[tuple[str, bool], int | None] = {}

    def _collect(self) -> None:
        for entry in self._table.entries:
            module = entry.module()
            if module is not None:
                self._modules.setdefault(entry.path, module)
                self._paths.setdefault(id(module), entry.path)

    @property
    def paths(self) -> list[str]:
        return list(self._modules)

    def path_of(self, module: nn.Module) -> str | None:
        """Where a module is registered; None when it is not part of this model."""
        return self._paths.get(id(module))

    def knows(self, path: str) -> None:
        """Look again for modules that were added since, when `path` is new."""
        if path not in self._modules and self._table.refresh():
            self._collect()

    def module(self, path: str) -> nn.Module | None:
        return self._modules.get(path)

    @property
    def weights(self) -> list[Any]:
        return [tensor for _, tensor, _, is_buffer in self._table.tensors() if not is_buffer]

    def chain(self, path: str, levels: int = 3) -> Iterator[tuple[str, nn.Module]]:
        """The module and up to `levels` parents, innermost first."""
        for _ in range(levels + 1):
            module = self._modules.get(path)
            if module is not None:
                yield path, module
            if not path:
                return
            path = path.rpartition(".")[0]

    def heads(self, path: str, *, keys: bool = False) -> int | None:
        """Number of query heads (or key heads) that the module or a near parent states; None when none does."""
        known = self._heads.get((path, keys), -1)
        if known != -1:
            return known
        found = None
        for _, module in self.chain(path):
            found = _stated(module, _KEY_HEADS if keys else _HEADS)
            if found is not None:
                break
        self._heads[path, keys] = found
        return found

    def looks_like_attention(self, path: str, levels: int = 1) -> bool:
        """Whether the class or the name of the module, or of a near parent, says attention."""
        return any(self._is_named(at, module) for at, module in self.chain(path, levels))

    def is_named_attention(self, path: str) -> bool:
        module = self._modules.get(path)
        return module is not None and self._is_named(path, module)

    @staticmethod
    def _is_named(path: str, module: nn.Module) -> bool:
        name = type(module).__name__
        if _PART.search(name) or isinstance(module, (nn.ModuleList, nn.ModuleDict)):
            return False
        if _ATTENTION.search(name):
            return True
        # A projection may be called "attention" too: a name alone counts for modules that have heads, or queries.
        named = _ATTENTION.search(path.rpartition(".")[2])
        return bool(named) and (_stated(module, _HEADS) is not None or any(map(_QUERY.search, module._modules)))

    def relation(self, path: str, queries: int, keys: int) -> str:
        """ "self" or "cross", by what the module says, else by the two lengths."""
        for at, module in self.chain(path, 2):
            stated = getattr(module, "is_cross_attention", None)
            if isinstance(stated, bool):
                return "cross" if stated else "self"
            name = f"{type(module).__name__} {at.rpartition('.')[2]}"
            if _CROSS.search(name):
                return "cross"
            if _SELF.search(name):
                return "self"
            if isinstance(getattr(module, "sr_ratio", None), int):
                return "self"  # keys of a spatially reduced copy of the queries' own map
        decodes = any(getattr(module, "is_causal", False) is True for _, module in self.chain(path, 1))
        return "self" if queries == keys or (decodes and queries < keys) else "cross"

    def window(self, path: str) -> tuple[int, int] | None:
        """Height and width of the windows of a windowed image attention."""
        for _, module in self.chain(path, 2):
            size = getattr(module, "window_size", None)
            if isinstance(size, int):
                return size, size
            if isinstance(size, (tuple, list)) and len(size) == 2 and all(isinstance(side, int) for side in size):
                return size[0], size[1]
        return None

    def shift(self, path: str) -> int:
        """By how many positions the windows of a windowed image attention are shifted."""
        for _, module in self.chain(path, 3):
            size = getattr(module, "shift_size", 0)
            size = size[0] if isinstance(size, (tuple, list)) and size else size
            if isinstance(size, int) and size:
                return size
        return 0

    def is_strided(self, path: str) -> bool:
        """Whether a window holds every k-th position ("grid attention" of MaxViT) instead of neighbours."""
        return any(getattr(module, "partition_block", True) is False for _, module in self.chain(path, 2))

    def widths(self, path: str) -> set[int]:
        """Sizes of the axes of the parameters in and just above the module."""
        sizes: set[int] = set()
        for _, module in self.chain(path, 1):
            for parameter in module.parameters():
                sizes.update(parameter.shape)
                if parameter.dim() > 2:
                    sizes.add(int(parameter[0].numel()))
            if sizes:
                break
        return sizes

    def groups(self, path: str) -> int:
        """Query heads per key head, by what the module states; 1 when it states nothing."""
        for _, module in self.chain(path, 0):
            stated = getattr(module, "num_key_value_groups", None)
            if isinstance(stated, int) and stated > 0:
                return stated
        return 1


def _stated(module: nn.Module, names: tuple[str, ...]) -> int | None:
    holders: list[Any] = [module]
    config = getattr(module, "config", None)
    if config is not None:
        holders.append(config)
    for holder in holders:
        for name in names:
            value = getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None
