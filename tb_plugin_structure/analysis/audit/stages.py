"""Which stage of a model a module call belongs to, and at which level it stands.

A *stage* is what people name when they speak of a model's parts: ``conv1``, ``layer1``, ``encoder``, ``transformer.h``.
A *block* is an element of a stack inside a stage (``layer1.0``, ``encoder.layer.3``). Where the elements of a stack
hold stacks themselves and change the shape from one to the next (``layer1`` .. ``layer4``; the layers of a Swin
transformer), those elements are the stages and the inner elements the blocks.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cached_property
from itertools import pairwise

from tb_plugin_structure.records.structure import Structure

MODEL, STAGE, BLOCK, LEAF = range(4)
"""Levels. LEAF: everything inside a block, and leaf modules of a stage."""

LEVEL_NAMES = ("model", "stage", "block", "leaf")

_CONTAINERS = frozenset({"Sequential", "ModuleList", "ModuleDict"})


class Stages:
    """Stages and levels of one structure's modules."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.paths = structure.module_paths
        self.classes = structure.module_classes
        self.children = structure.module_children
        self.parents: list[int] = structure.modules["parent"].tolist()
        self._memo: dict[int, tuple[str, int]] = {}

    def of_call(self, call: int) -> tuple[str, int]:
        """(stage, level) of a module call."""
        return self.of_module(int(self.structure.module_calls["module"][call]))

    def of_module(self, module: int) -> tuple[str, int]:
        found = self._memo.get(module)
        if found is None:
            found = self._memo[module] = self._find(module)
        return found

    def _find(self, module: int) -> tuple[str, int]:
        if module == 0:
            return "", MODEL
        chain: list[int] = []
        ancestor = module
        while ancestor > 0 and ancestor != self.trunk:
            chain.append(ancestor)
            ancestor = self.parents[ancestor]
        if module == self.trunk or ancestor != self.trunk:
            return self.paths[module], STAGE
        chain.reverse()
        stage = chain[0]
        for candidate in chain:
            if candidate in self.elements and self._elements_are_stages(candidate):
                stage = candidate
                break
        else:
            if chain[0] in self.elements and len(chain) > 1 and self.classes[chain[0]] in _CONTAINERS:
                stage = chain[0]
        below = chain[chain.index(stage) + 1 :]
        if not below:
            # A container that is never called has no row of its own; its elements are blocks.
            return self.paths[stage], STAGE if stage == module or module == stage else BLOCK
        if module not in below:
            return self.paths[module], STAGE  # encloses the stage
        first = next((candidate for candidate in below if candidate in self.elements), None)
        if first is not None:
            return self.paths[stage], BLOCK if module == first or below.index(module) < below.index(first) else LEAF
        return self.paths[stage], BLOCK if len(below) == 1 and self.composite[module] else LEAF

    @cached_property
    def active(self) -> list[bool]:
        """Whether a module, or one below it, was called."""
        called = [False] * len(self.paths)
        for module in self.structure.calls_of_module:
            called[module] = True
        for module in range(len(self.paths) - 1, 0, -1):
            if called[module] and self.parents[module] >= 0:
                called[self.parents[module]] = True
        return called

    @cached_property
    def composite(self) -> list[bool]:
        """Whether a module has called modules below it."""
        return [any(self.active[child] for child in children) for children in self.children]

    @cached_property
    def elements(self) -> dict[int, tuple[int, ...]]:
        """Module -> the stack (modules of equal class and numbering under one parent) that it is an element of."""
        found: dict[int, tuple[int, ...]] = {}
        for module, children in enumerate(self.children):
            composite = [child for child in children if self.composite[child]]
            groups: dict[tuple[str, str], list[int]] = defaultdict(list)
            for child in composite:
                name = self.paths[child].rpartition(".")[2]
                if any(character.isdigit() for character in name):
                    groups[self.classes[child], re.sub(r"\d+", "#", name)].append(child)
            lonely = self.classes[module] in _CONTAINERS and len(composite) == 1
            for group in groups.values():
                if len(group) > 1 or lonely:
                    for child in group:
                        found[child] = tuple(group)
        return found

    @cached_property
    def trunk(self) -> int:
        """The module whose children are the stages: the model, or what it merely wraps."""
        module = 0
        while True:
            composite = [child for child in self.children[module] if self.composite[child]]
            if len(composite) != 1:
                return module
            only = composite[0]
            if self.classes[only] in _CONTAINERS or only in self.elements:
                return module
            module = only

    def _elements_are_stages(self, module: int) -> bool:
        stack = self.elements[module]
        found = self._stage_stacks.get(stack)
        if found is None:
            found = self._stage_stacks[stack] = self._holds_stacks(stack) and self._changes_shape(stack)
        return found

    @cached_property
    def _stage_stacks(self) -> dict[tuple[int, ...], bool]:
        return {}

    def _holds_stacks(self, stack: tuple[int, ...]) -> bool:
        inner = dict.fromkeys(stack, False)
        for element in self.elements:
            ancestor = self.parents[element]
            while ancestor > 0:
                if ancestor in inner:
                    inner[ancestor] = True
                    break
                ancestor = self.parents[ancestor]
        return 2 * sum(inner.values()) >= len(stack)

    def _changes_shape(self, stack: tuple[int, ...]) -> bool:
        shapes = []
        for module in stack:
            calls = self.structure.calls_of_module.get(module)
            if calls:
                outputs = self.structure.output_shapes(calls[0])
                shapes.append(outputs[0][1] if outputs else ())
        changes = sum(a != b for a, b in pairwise(shapes))
        return len(shapes) > 1 and changes >= 0.75 * (len(shapes) - 1)
