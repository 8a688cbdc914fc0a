"""What feeds what: the units of a scope that a tensor comes from, through the operators between modules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property

from tb_plugin_structure.analysis.alignment.tree import Tree

OUTSIDE = -2
"""In place of a unit: what comes into the scope."""

_MOST_TENSORS = 200
"""Tensors followed for one answer."""


class DataFlow:
    """Follows tensors of one record back to the module calls that made them."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    @cached_property
    def _producers(self) -> list[int]:
        """The kernel that made each tensor; -1 for none."""
        found: list[int] = self.tree.structure.tensors["producer"].tolist()
        return found

    @cached_property
    def _nodes(self) -> list[int]:
        """The innermost node in which each kernel ran."""
        structure = self.tree.structure
        node_of_call = [-1] * structure.module_calls.rows
        for node, call in enumerate(self.tree.call):
            if call >= 0:
                node_of_call[call] = node
        calls = structure.operators["call"].tolist()
        return [node_of_call[calls[operator]] for operator in structure.kernels["operator"].tolist()]

    def sources(
        self, tensor: int, scope: int, units: Sequence[tuple[int, int]], made: dict[int, int]
    ) -> frozenset[int]:
        """Positions of the units that a tensor comes from without passing another one; OUTSIDE for the scope's inputs.

        Args:
            tensor: A row of the tensors table.
            scope: The node in which the units are.
            units: [first node, end) of each unit, in order.
            made: Tensor -> position of the unit that returned it.
        """
        inputs = _inputs(self.tree, scope)
        found: set[int] = set()
        work, seen = [tensor], {tensor}
        while work and len(seen) <= _MOST_TENSORS:
            value = work.pop()
            if value in made:
                found.add(made[value])
                continue
            kernel = self._producers[value]
            if value in inputs or (kernel < 0 and self._comes_in(value)):
                found.add(OUTSIDE)
                continue
            if kernel < 0:
                continue  # a parameter or a constant
            node = self._nodes[kernel]
            if not self.tree.contains(scope, node):
                found.add(OUTSIDE)
                continue
            place = _unit_of(units, node)
            if place >= 0:
                found.add(place)
                continue
            for read in self.tree.structure.kernels.values("inputs", kernel).tolist():
                if read not in seen:
                    seen.add(read)
                    work.append(read)
        return frozenset(found)

    def _comes_in(self, tensor: int) -> bool:
        return int(self.tree.structure.tensors["parameter"][tensor]) < 0

    def follows(self, node: int, other: int) -> bool:
        """Whether what a node reads comes from what `other` made; True where the record does not tell."""
        if not self.tree.structure.kernels.rows or self.tree.call[other] < 0:
            return True
        read = [tensor for call in (self.tree.call[node],) if call >= 0 for tensor in self.tree.input_tensors[call]]
        range_of_other = [(other, other + self.tree.size[other])]
        made = dict.fromkeys(self.tree.output_tensors[self.tree.call[other]], 0)
        return not read or any(0 in self.sources(tensor, 0, range_of_other, made) for tensor in read)


def _inputs(tree: Tree, scope: int) -> set[int]:
    while scope >= 0 and tree.call[scope] < 0:
        scope = tree.parent[scope]
    return set(tree.input_tensors[tree.call[scope]]) if scope >= 0 else set()


def _unit_of(units: Sequence[tuple[int, int]], node: int) -> int:
    """The position of the innermost unit that holds a node; -1 for none."""
    place = bisect_right(units, (node, 1 << 60)) - 1
    while place >= 0:
        if units[place][0] <= node < units[place][1]:
            return place
        if place and units[place - 1][1] <= units[place][0]:
            return -1
        place -= 1
    return -1
