"""Pins inside one scope: which units they fix, and which they take out of the search."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tb_plugin_structure.analysis.alignment.stacks import Unit
from tb_plugin_structure.analysis.alignment.tree import Tree
from tb_plugin_structure.records.table import Array


@dataclass
class Held:
    """What the pins inside one scope fix.

    fixed: pairs of unit positions, in order on both sides.
    elements: pair of stacks -> pairs of positions in them.
    direct: (teacher node, student node) that are linked without a search: they cross other pins.
    used_t, used_s: units out of the search.
    without_t, without_s: stack -> positions of elements out of the search.
    """

    fixed: list[tuple[int, int]] = field(default_factory=list)
    elements: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)
    direct: list[tuple[int, int]] = field(default_factory=list)
    used_t: set[int] = field(default_factory=set)
    used_s: set[int] = field(default_factory=set)
    without_t: dict[int, set[int]] = field(default_factory=dict)
    without_s: dict[int, set[int]] = field(default_factory=dict)

    def drop(self, i: int, a: int, j: int, b: int) -> None:
        """Take units (or, where a or b is a position in a stack, single elements) out of the search."""
        if a >= 0:
            self.without_t.setdefault(i, set()).add(a)
        else:
            self.used_t.add(i)
        if b >= 0:
            self.without_s.setdefault(j, set()).add(b)
        else:
            self.used_s.add(j)


class PinnedNodes:
    """The nodes that pins name, on both sides."""

    def __init__(self, teacher: Tree, student: Tree, pins: Sequence[tuple[int, int]], alone: Collection[int]) -> None:
        self.teacher, self.student = teacher, student
        self.pins, self.alone = list(pins), set(alone)
        self.wanted = set(self.pins)
        self.named_t = sorted({node for node, _ in pins})
        self.named_s = sorted({node for _, node in pins} | self.alone)

    def touch(self, node_t: int, node_s: int) -> bool:
        """Whether a pin names something at or below either node."""
        return _any_inside(self.named_t, node_t, self.teacher.size[node_t]) or _any_inside(
            self.named_s, node_s, self.student.size[node_s]
        )

    def hold(self, node_t: int, node_s: int, units_t: list[Unit], units_s: list[Unit], matrix: Array) -> Held:
        """What the pins inside a scope fix; scores are cleared where a pin forbids a pair."""
        held = Held()
        wanted: list[tuple[int, int]] = []
        for pin_t, pin_s in self.pins:
            if not (self.teacher.contains(node_t, pin_t) and self.student.contains(node_s, pin_s)):
                continue
            i, a = _place(self.teacher, units_t, pin_t)
            j, b = _place(self.student, units_s, pin_s)
            if i < 0 or j < 0:
                continue
            if (a < 0) == (b < 0):
                wanted.append((i, j))
                if a >= 0:
                    held.elements.setdefault((i, j), []).append((a, b))
            else:
                held.direct.append((pin_t, pin_s))
                held.drop(i, a, j, b)
        self._order(held, wanted, units_t, units_s)
        for place, unit in enumerate(units_t):
            if not unit.is_stack and unit.node in self.named_t:
                matrix[place, :] = 0.0
        for place, unit in enumerate(units_s):
            if not unit.is_stack and unit.node in self.named_s:
                matrix[:, place] = 0.0
            alone = {b for b, element in enumerate(unit.elements) if element in self.alone}
            if alone:
                held.without_s.setdefault(place, set()).update(alone)
        for i, j in held.fixed:
            matrix[i, :] = matrix[:, j] = 0.0
            matrix[i, j] = 1.0
        return held

    @staticmethod
    def _order(held: Held, wanted: list[tuple[int, int]], units_t: list[Unit], units_s: list[Unit]) -> None:
        """Keep pairs of units that follow one another on both sides; link the others directly."""
        for i, j in dict.fromkeys(wanted):
            if all((i - p) * (j - q) > 0 for p, q in held.fixed):
                held.fixed.append((i, j))
            elif units_t[i].is_stack and units_s[j].is_stack:
                for a, b in held.elements.get((i, j), []):
                    held.direct.append((units_t[i].elements[a], units_s[j].elements[b]))
                    held.drop(i, a, j, b)
            else:
                held.direct.append((units_t[i].node, units_s[j].node))
                held.drop(i, -1, j, -1)
        held.fixed.sort()


def _any_inside(named: list[int], node: int, size: int) -> bool:
    place = bisect_left(named, node)
    return place < len(named) and named[place] < node + size


def _place(tree: Tree, units: Sequence[Unit], node: int) -> tuple[int, int]:
    """The unit that a node is or lies in, and the element of a stack it lies in; -1 for none."""
    for index, unit in enumerate(units):
        if not unit.is_stack and unit.node == node:
            return index, -1
        for position, element in enumerate(unit.elements):
            if tree.contains(element, node):
                return index, position
    return -1, -1
