"""The arguments of a recorded kernel, by position or name."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from tb_plugin_structure.records.structure import Structure


class Arguments:
    """Positional and keyword arguments as JSON values; tensors are ``{"t": k}``."""

    def __init__(self, positional: list[Any], named: dict[str, Any]) -> None:
        self.positional = positional
        self.named = named

    def get(self, position: int, name: str) -> Any:
        """The argument at a position or of a name; None when it was left out."""
        if name in self.named:
            return self.named[name]
        return self.positional[position] if position < len(self.positional) else None

    def integer(self, position: int, name: str) -> int | None:
        value = self.get(position, name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def integers(self, position: int, name: str) -> list[int] | None:
        """A list of numbers, or one number as a list."""
        value = self.get(position, name)
        if isinstance(value, int) and not isinstance(value, bool):
            return [value]
        if isinstance(value, list) and all(isinstance(item, int) for item in value):
            return value
        return None


def kernel_arguments(structure: Structure, kernel: int) -> Arguments:
    """Arguments of a row of ``kernels``; empty where the record has none that can be read."""
    return _parsed(structure.kernels.text("arguments", kernel))


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Arguments:
    """Layers of one model repeat the same few texts."""
    try:
        value = json.loads(text) if text else {}
    except ValueError:  # a record made by hand
        return Arguments([], {})
    if not isinstance(value, dict):
        return Arguments([], {})
    positional, named = value.get("args"), value.get("kwargs")
    return Arguments(positional if isinstance(positional, list) else [], named if isinstance(named, dict) else {})
