"""The module calls of one record as a tree of nodes in pre-order, with what alignment needs to know of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import prod

import numpy as np

from tb_plugin_structure.analysis.alignment.extents import Extent
from tb_plugin_structure.analysis.alignment.kinds import SUBSTANCE
from tb_plugin_structure.analysis.alignment.numbering import first_rows, number_lists, ranked
from tb_plugin_structure.analysis.alignment.roles import role_words
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.records.table import Array, Table

_MOST_AROUND = 12
"""Composites around a node whose names tell where it is."""


@dataclass
class Tree:
    """Nodes are numbered in pre-order: a node's subtree is ``[node, node + size[node])``.

    A node is a module call or a *container*: a module that groups called modules but is never called itself
    (``ModuleList``), which exists only where its calls follow one another.
    """

    structure: Structure
    call: list[int] = field(default_factory=list)
    module: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    children: list[list[int]] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    path: list[str] = field(default_factory=list)
    segment: list[str] = field(default_factory=list)
    class_name: list[str] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    extent: list[Extent] = field(default_factory=list)
    entry: list[Extent] = field(default_factory=list)
    extents: list[Extent] = field(default_factory=list)
    """Distinct extents; ``extent_row`` and ``entry_row`` hold their places here for each node."""
    extent_row: list[int] = field(default_factory=list)
    entry_row: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.call)

    def is_leaf(self, node: int) -> bool:
        return not self.children[node]

    def leaves(self, node: int = 0) -> list[int]:
        """Leaf nodes at or below `node`, in execution order."""
        return [below for below in range(node, node + self.size[node]) if not self.children[below]]

    def contains(self, outer: int, inner: int) -> bool:
        return outer <= inner < outer + self.size[outer]

    def ancestors(self, node: int) -> list[int]:
        """The nodes around `node`, innermost first, itself excluded."""
        found = []
        node = self.parent[node]
        while node >= 0:
            found.append(node)
            node = self.parent[node]
        return found

    def chain(self, node: int) -> list[int]:
        """A node, the composite that is all it calls, and so on."""
        chain = [node]
        while self.kind[node] == "block" and len(self.children[node]) == 1 and self.children[self.children[node][0]]:
            node = self.children[node][0]
            chain.append(node)
        return chain

    def returns_same(self, first: int, second: int) -> bool:
        """Whether two calls return the same tensor (first elements of what they return)."""
        if self.call[first] < 0 or self.call[second] < 0:
            return False
        returned = self.output_tensors[self.call[first]][:1]
        return returned != () and returned == self.output_tensors[self.call[second]][:1]

    def words_between(self, node: int, scope: int) -> frozenset[str]:
        """Role words of the path segments between a scope and a node, both excluded; of the innermost ones only."""
        words: set[str] = set()
        for _ in range(_MOST_AROUND):
            node = self.parent[node]
            if node <= scope:
                break
            words |= role_words(self.segment[node])
        return frozenset(words)

    @cached_property
    def depth(self) -> list[int]:
        """How many nodes lie around each node."""
        depth = [0] * len(self)
        for node in range(1, len(self)):
            depth[node] = depth[self.parent[node]] + 1
        return depth

    @cached_property
    def declared(self) -> list[frozenset[str]]:
        """By module row, the names of the modules that it holds, called or not."""
        names = [path.rpartition(".")[2] for path in self.structure.module_paths]
        nothing: frozenset[str] = frozenset()  # shared: most modules hold none, and each set takes 216 bytes
        return [frozenset(names[row] for row in rows) if rows else nothing for rows in self.structure.module_children]

    @cached_property
    def attribute_row(self) -> list[int]:
        """By module row, the place of its attributes in ``attribute_sets``; alike modules share one."""
        rows: list[int] = self._attribute_rows.tolist()
        return rows

    @cached_property
    def _attribute_rows(self) -> Array:
        modules = self.structure.modules
        names = number_lists(modules["attribute_names"], modules.offsets("attribute_names"))
        values = number_lists(modules["attribute_values"], modules.offsets("attribute_values"))
        return ranked(names * (int(values.max(initial=0)) + 1) + values)[1]

    @cached_property
    def attribute_sets(self) -> list[dict[str, str]]:
        """Distinct sets of constructor-like attributes."""
        return [self.structure.attributes(row) for row in first_rows(self._attribute_rows).tolist()]

    @cached_property
    def own_parameters(self) -> list[tuple[int, ...]]:
        """Module row -> parameter rows registered on it."""
        return _rows(self.structure.modules, "parameters")

    @cached_property
    def parameter_shapes(self) -> list[tuple[int, ...]]:
        return _rows(self.structure.parameters, "shape")

    @cached_property
    def input_tensors(self) -> list[tuple[int, ...]]:
        return _rows(self.structure.module_calls, "inputs")

    @cached_property
    def output_tensors(self) -> list[tuple[int, ...]]:
        return _rows(self.structure.module_calls, "outputs")

    @cached_property
    def weight_shapes(self) -> list[tuple[int, ...]]:
        """By module row, the shape of the largest own parameter; () where there is none."""
        shapes = self.parameter_shapes
        return [
            max((shapes[row] for row in rows), key=lambda shape: (len(shape), prod(shape))) if rows else ()
            for rows in self.own_parameters
        ]

    @cached_property
    def mass(self) -> Array:
        """Summed substance of the leaves at or below each node."""
        own = [
            SUBSTANCE[kind] if not below or kind != "block" else 0.0
            for kind, below in zip(self.kind, self.children, strict=True)
        ]
        running = np.concatenate([[0.0], np.cumsum(own)])
        places = np.arange(len(self))
        mass: Array = np.round(running[places + np.array(self.size, np.int64)] - running[places], 6)
        return mass


def _rows(table: Table, column: str) -> list[tuple[int, ...]]:
    """All lists of a list column as tuples, which Python's collector of cycles does not walk again and again."""
    values, offsets = tuple(table[column].tolist()), table.offsets(column).tolist()
    return [values[begin:end] for begin, end in pairwise(offsets)]
