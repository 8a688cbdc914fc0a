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
        self._modules = structure.module_calls.numbers("module")
        self._memo: list[tuple[str, int] | None] = [None] * len(self.paths)
        self._equal: dict[tuple[str, int], tuple[str, int]] = {}

    def of_call(self, call: int) -> tuple[str, int]:
        """(stage, level) of a module call."""
        return self.of_module(self._modules[call])

    def of_module(self, module: int) -> tuple[str, int]:
        found = self._memo[module]
        if found is None:
            found = self._find(module)
            found = self._memo[module] = self._equal.setdefault(found, found)  # a few for thousands of modules
        return found

    def _find(self, module: int) -> tuple[str, int]:
        if module == 0:
            return "", MODEL
        if module in self.spine or module in self._enclosing:
            return "", STAGE  # merely wraps the model, its costs are the model's
        chain = [module]
        while self.parents[chain[-1]] not in self.spine:
            chain.append(self.parents[chain[-1]])
        chain.reverse()
        stage = chain[0]
        for candidate in chain:
            if candidate in self.elements and self._elements_are_stages(candidate):
                stage = candidate
                break
        below = chain[chain.index(stage) + 1 :]
        if not below:
            return self.paths[stage], STAGE
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
                    # One tuple for all: of 5,000 blocks one each would take 200 MB.
                    found.update(dict.fromkeys(group, tuple(group)))
        return found

    @cached_property
    def spine(self) -> frozenset[int]:
        """The modules whose children are the stages: the model and what it merely wraps, such as ``bert`` in a
        classifier on top of BERT."""
        spine = [0]
        while (inner := self._wrapped(spine[-1])) >= 0:
            spine.append(inner)
        return frozenset(spine)

    def _wrapped(self, module: int) -> int:
        """The one child that is the model proper, or -1: the only composite one, or the only one that holds stacks
        while it has several composite children of its own (embeddings, encoder)."""
        composite = [child for child in self.children[module] if self.composite[child]]
        if len(composite) > 1:
            composite = [child for child in composite if self._holds_stack[child]]
            if len(composite) == 1 and sum(self.composite[child] for child in self.children[composite[0]]) < 2:
                return -1
        if len(composite) != 1 or self.classes[composite[0]] in _CONTAINERS or composite[0] in self.elements:
            return -1
        return composite[0]

    @cached_property
    def _holds_stack(self) -> list[bool]:
        """Whether a module has elements of stacks below it."""
        holds = [False] * len(self.paths)
        for element in self.elements:
            ancestor = self.parents[element]
            while ancestor >= 0 and not holds[ancestor]:
                holds[ancestor] = True
                ancestor = self.parents[ancestor]
        return holds

    @cached_property
    def _enclosing(self) -> frozenset[int]:
        """Modules around stages that are elements of a stack (``encoder`` around ``encoder.stages.0``)."""
        around: set[int] = set()
        for element in self.elements:
            if self._elements_are_stages(element):
                ancestor = self.parents[element]
                while ancestor >= 0 and ancestor not in around:
                    around.add(ancestor)
                    ancestor = self.parents[ancestor]
        return frozenset(around)

    def _elements_are_stages(self, module: int) -> bool:
        stack = self.elements[module]
        # By its first element: hashing a tuple looks at all of it each time.
        found = self._stage_stacks.get(stack[0])
        if found is None:
            found = self._stage_stacks[stack[0]] = self._holds_stacks(stack) and self._changes_shape(stack)
        return found

    @cached_property
    def _stage_stacks(self) -> dict[int, bool]:
        """First element of a stack -> whether its elements are stages."""
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
        """Whether at least half of the elements return another shape than they take."""
        structure = self.structure
        changes = []
        for module in stack:
            for call in structure.calls_of_module.get(module, [])[:1]:
                inputs, outputs = structure.module_calls.values("inputs", call), structure.output_shapes(call)
                changes.append(bool(len(inputs) and outputs and structure.shape(int(inputs[0])) != outputs[0][1]))
        return 2 * sum(changes) >= len(stack)
