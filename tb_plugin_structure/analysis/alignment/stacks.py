"""Folding: runs of alike blocks become one unit, so that a network of any depth is a short sequence."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tb_plugin_structure.analysis.alignment.dataflow import DataFlow
from tb_plugin_structure.analysis.alignment.extents import Extent
from tb_plugin_structure.analysis.alignment.kinds import SUBSTANCE, WEIGHTED
from tb_plugin_structure.analysis.alignment.light_blocks import light_runs, may_be_light
from tb_plugin_structure.analysis.alignment.roles import is_opaque, role_words, words_similarity
from tb_plugin_structure.analysis.alignment.signatures import KIND_CODE, Signatures, cosine
from tb_plugin_structure.analysis.alignment.tree import Tree
from tb_plugin_structure.records.table import Array

ALIKE = 0.85
"""Cosine of two blocks' bags of kinds above which they may belong to one stack."""

_CLOSE = 0.9
_LARGEST_GAP = 2
CONTAINERS = frozenset(("Sequential", "ModuleList", "ModuleDict"))
_TELLING_CODES = np.array(sorted(KIND_CODE[kind] for kind, weight in SUBSTANCE.items() if weight >= 0.5))
WEIGHTED_CODES = np.array(sorted(KIND_CODE[kind] for kind in WEIGHTED))


@dataclass(frozen=True, slots=True)
class Unit:
    """What the sequence alignment sees: a leaf, or a stack of blocks.

    node: the leaf, or the node whose children the elements are.
    elements: the blocks of a stack (and what lies between them), in order; empty for a leaf.
    """

    node: int
    elements: tuple[int, ...] = ()

    def shifted(self, offset: int) -> Unit:
        return Unit(self.node + offset, tuple(element + offset for element in self.elements))

    @property
    def is_stack(self) -> bool:
        return bool(self.elements)

    @property
    def first(self) -> int:
        return self.elements[0] if self.elements else self.node

    @property
    def last(self) -> int:
        return self.elements[-1] if self.elements else self.node


class _Key(NamedTuple):
    """What blocks of one stack have in common, or nearly."""

    stem: str
    class_name: str
    kinds: int
    extent: Extent


def stem(segment: str) -> str:
    """A path segment without its number: list entries have "", "block3" has "block". Blocks of a stack share it;
    modules with names of their own are not interchangeable."""
    return segment.rstrip("0123456789")


class Folding:
    """Finds the units of any scope of one tree; the other tree's stacks decide which single blocks count as stacks."""

    def __init__(self, flow: DataFlow, signatures: Signatures) -> None:
        tree = flow.tree
        self.tree, self.flow = tree, flow
        self.signatures = signatures
        self._stacks: dict[int, list[tuple[int, ...]]] = {}
        self.light_blocks: set[int] = set()
        self._weighted: list[float] = signatures.bag[:, WEIGHTED_CODES].sum(axis=1).tolist()
        """How many leaves at or below each node hold weights of a layer."""
        self._heavy = [
            weighted >= 2 if below else kind == "block"
            for weighted, below, kind in zip(self._weighted, tree.children, tree.kind, strict=True)
        ]
        self._lightest = {
            node for node in range(len(tree)) if tree.children[node] and may_be_light(tree, self._weighted, node)
        }
        for node in self._holders():
            found = self._runs(node)
            if found:
                self._stacks[node] = found
        self._stacked = sorted(
            node
            for node, stacks in self._stacks.items()
            if any(elements[0] not in self.light_blocks for elements in stacks)
        )
        self.element_classes = {
            tree.class_name[element]
            for stacks in self._stacks.values()
            for elements in stacks
            for element in elements
            if tree.call[element] >= 0 and element not in self.light_blocks
        }
        self._block_classed = [
            node
            for node, (name, below) in enumerate(zip(tree.class_name, tree.children, strict=True))
            if below and name in self.element_classes
        ]
        distinct_blocks = {
            signatures.kinds[element]: signatures.bag[element]
            for stacks in self._stacks.values()
            for elements in stacks
            for element in elements
            if self.is_block(element)
        }
        self.own_bags = list(distinct_blocks.values())
        self.other_classes: set[str] = set()
        self._light_singles: set[int] = set()
        self._staged = self._staged_parents()
        self.stage_stems = {stem(tree.segment[node]) for parent in self._staged for node in self._numbered(parent, 3)}
        self.stages: set[int] = set()
        called = {module for module, call in zip(tree.module, tree.call, strict=True) if call >= 0}
        self.class_counts = Counter(tree.structure.module_classes[module] for module in called)

    def is_block(self, node: int) -> bool:
        """Whether a node is a composite that holds two or more weighted leaves (or is opaque but may), or an entry of a
        list of alike composites that keep the shape, however little each holds (a light block)."""
        return self._heavy[node] or node in self.light_blocks

    def _holders(self) -> list[int]:
        """Nodes with two or more children that may be blocks of one stack."""
        parents = self.tree.parent
        counts = Counter(parents[node] for node in range(1, len(parents)) if self._heavy[node])
        light = Counter(parents[node] for node in self._lightest)
        return sorted(
            node for node in counts.keys() | light.keys() if node >= 0 and (counts[node] >= 2 or light[node] >= 2)
        )

    def stacks_in(self, node: int) -> list[tuple[int, ...]]:
        return self._stacks.get(node, [])

    def units(
        self,
        scope: int,
        blocks: Sequence[Array] | None = None,
        closed: Container[int] = (),
        opened: Container[int] = (),
    ) -> list[Unit]:
        """The units strictly below `scope`, in execution order.

        Args:
            scope: A node.
            blocks: Bags of the other model's blocks: a single block like one of them is kept as a stack of one, and so
                are numbered stages. None inside blocks, where there are no stages.
            closed: Composites that are kept as one unit (what a pin names).
            opened: Composites that are never kept as a stack of one, and first blocks of stacks that are taken apart.
        """
        units: list[Unit] = []
        work: list[int | Unit] = [scope]
        while work:
            node = work.pop()
            if isinstance(node, Unit):
                units.append(node)
                continue
            children = self.tree.children[node]
            if not children or (node != scope and node in closed):
                if node != scope:
                    units.append(Unit(node))
                continue
            if node != scope and blocks is not None and node not in opened and self._is_whole(node, blocks):
                units.append(Unit(self.tree.parent[node], (node,)))
                continue
            if node != scope and self.tree.kind[node] != "block":
                units.append(Unit(node))  # a layer with weights of its own that also calls others
            stacks = self.stacks_in(node)
            if not stacks:
                work.extend(reversed(children))
                continue
            stack_of = {element: elements for elements in stacks if elements[0] not in opened for element in elements}
            below: list[int | Unit] = []
            for child in children:
                elements = stack_of.get(child)
                if elements is None:
                    below.append(child)
                elif elements[0] == child:
                    below.append(Unit(node, elements))
            work.extend(reversed(below))
        return units

    def learn_from(self, other: Folding) -> None:
        """Take over which classes are blocks, and which numbered composites are stages, in the other model."""
        self.other_classes = other.element_classes - CONTAINERS
        kinds = {other.signatures.kinds[node] for node in other.light_blocks}
        singles = {node for node in self._lightest if self.signatures.kinds[node] in kinds}
        self._light_singles = singles - self.light_blocks - {0}
        self._mark_stages(self.stage_stems | other.stage_stems)

    def _mark_stages(self, stems: Set[str]) -> None:
        """Treat numbered composites as stages; what one model has three of, the other may have fewer of."""
        if not stems:
            return
        self.stages = {
            self.tree.chain(node)[-1]
            for parent in self._staged
            for node in self._numbered(parent, 1)
            if stem(self.tree.segment[node]) in stems
        }

    def _staged_parents(self) -> list[int]:
        """Nodes with a child that may be a stage: a composite that makes images and has a numbered name."""
        tree = self.tree
        images = [len(extent.positions) == 2 for extent in tree.extents]
        return sorted(
            {
                tree.parent[node]
                for node, (row, below) in enumerate(zip(tree.extent_row, tree.children, strict=True))
                if images[row] and below and node and self._weighted[node] >= 1 and tree.segment[node][-1:].isdigit()
            }
        )

    def _numbered(self, parent: int, least: int) -> list[int]:
        """Composites that their author numbered as attributes (block1, block2, block3) and that hold no stack."""
        found: dict[str, list[int]] = {}
        for child in self.tree.children[parent]:
            segment = self.tree.segment[child]
            if self.tree.children[child] and segment[-1:].isdigit() and not is_opaque(segment):
                found.setdefault(stem(segment), []).append(child)
        if not found:
            return []
        return [
            child
            for children in found.values()
            if len(children) >= least
            for child in children
            if len(self.tree.extent[child].positions) == 2
            and self._weighted[child] >= 1
            and not self._holds_stack(child)
        ]

    def _holds_stack(self, node: int) -> bool:
        """Whether there is a stack at or below a node; those of light blocks do not count."""
        place = bisect_left(self._stacked, node)
        return place < len(self._stacked) and self._stacked[place] < node + self.tree.size[node]

    def bags(self, units: Sequence[Unit]) -> list[Array]:
        """Distinct bags of the blocks of all stacks among `units`."""
        found: dict[int, Array] = {}
        for unit in units:
            for element in unit.elements:
                if self.is_block(element):
                    found.setdefault(self.signatures.kinds[element], self.signatures.bag[element])
        return list(found.values())

    def _is_whole(self, node: int, blocks: Sequence[Array]) -> bool:
        return node in self.stages or node in self._light_singles or self._is_single_block(node, blocks)

    def _is_single_block(self, node: int, blocks: Sequence[Array]) -> bool:
        """Whether a block that has no like beside it is like a block of the other model's stacks."""
        tree = self.tree
        if tree.call[node] < 0 or not self.is_block(node):
            return False
        name = tree.class_name[node]
        if name not in self.element_classes | self.other_classes and (
            name in CONTAINERS or len(tree.children[node]) == 1 or self.class_counts[name] < 2
        ):
            return False  # a wrapper around the block, or something that the model has once: a head, a stem
        place = bisect_left(self._block_classed, node + 1)
        if place < len(self._block_classed) and self._block_classed[place] < node + tree.size[node]:
            return False  # what holds a block is no block
        bag = self.signatures.bag[node]
        telling = bag[_TELLING_CODES] > 0
        if name in self.element_classes:
            blocks = [*blocks, *self.own_bags]
        return any(
            cosine(bag, other) >= ALIKE and _mass_alike(bag, other) and ((other[_TELLING_CODES] > 0) == telling).all()
            for other in blocks
        ) and not self._holds_stack(node)

    def _runs(self, node: int) -> list[tuple[int, ...]]:
        """Stacks among the children of a node."""
        children = self.tree.children[node]
        if len(children) < 2:
            return []
        groups: dict[_Key, list[int]] = {}
        for place, child in enumerate(children):
            if self.is_block(child):
                key = _Key(
                    stem(self.tree.segment[child]),
                    self.tree.class_name[child],
                    self.signatures.kinds[child],
                    self.tree.extent[child],
                )
                groups.setdefault(key, []).append(place)
        varied = {name for name, extents in _extents_by_stem(self.tree, children).items() if name and len(extents) > 1}
        merged: list[tuple[_Key, list[int]]] = []
        for key, places in groups.items():
            if self._called_side_by_side([children[place] for place in places]):
                continue  # one module on several inputs: a shared tower, a head on several levels
            if key.stem in varied:
                continue  # block1, block2 and so on that change the shape are stages of their author's, not one stack
            for other_key, other_places in merged:
                if self._one_stack(key, children[places[0]], other_key, children[other_places[0]]):
                    other_places.extend(places)
                    break
            else:
                merged.append((key, list(places)))
        spans: list[tuple[int, int]] = []
        for key, places in merged:
            nodes = [children[place] for place in places]
            alike = len({self.signatures.kinds[node] for node in nodes}) == 1
            if (key.stem or not alike) and _read_one_tensor(self.tree, nodes):
                continue  # branch1, branch2 and so on that run side by side; not so the equal experts of a list
            places.sort()
            start = previous = places[0]
            for place in [*places[1:], -1]:
                if (
                    place >= 0
                    and place - previous <= _LARGEST_GAP
                    and self._light(children[previous + 1 : place], previous, children)
                ):
                    previous = place
                    continue
                if previous > start:
                    spans.append((start, previous))
                start = previous = place
        if not spans:
            light = light_runs(self.tree, self._lightest, self.signatures.sized, children)
            self.light_blocks.update(node for run in light for node in run)
            return light
        spans.sort()
        joined: list[tuple[int, int]] = []
        for begin, end in spans:
            if joined and begin <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
            else:
                joined.append((begin, end))
        return [tuple(children[begin : end + 1]) for begin, end in joined]

    def _called_side_by_side(self, nodes: Sequence[int]) -> bool:
        """Whether all nodes are calls of one module, of which none reads what the one before returned."""
        if len(nodes) < 2 or len({self.tree.module[node] for node in nodes}) > 1:
            return False
        return not any(self.flow.follows(node, before) for before, node in pairwise(nodes))

    def _one_stack(self, key: _Key, node: int, other_key: _Key, other: int) -> bool:
        """Whether two siblings are blocks of one stack: they keep the shape, and are of one class or built alike."""
        if key.extent != other_key.extent or key.stem != other_key.stem:
            return False
        if key.kinds == other_key.kinds:
            return True
        bag, other_bag = self.signatures.bag[node], self.signatures.bag[other]
        if cosine(bag, other_bag) < ALIKE or not _mass_alike(bag, other_bag):
            return False
        if key.class_name == other_key.class_name and self.tree.call[node] >= 0 and key.class_name not in CONTAINERS:
            return True
        ratio = float(bag.sum()) / float(other_bag.sum())
        close = cosine(bag, other_bag) >= _CLOSE and 0.6 <= ratio <= 1.6
        return close and words_similarity(role_words(key.class_name), role_words(other_key.class_name)) >= 0.5

    def _light(self, between: list[int], previous: int, children: list[int]) -> bool:
        """Whether what lies between two blocks is no larger than a block."""
        return sum(float(self.tree.mass[node]) for node in between) <= float(self.tree.mass[children[previous]]) * 1.01


def _read_one_tensor(tree: Tree, nodes: Sequence[int]) -> bool:
    """Whether several calls read the same tensor."""
    read = {tuple(tree.input_tensors[tree.call[node]][:1]) for node in nodes if tree.call[node] >= 0}
    return len(nodes) > 1 and len(read) == 1 and read != {()}


def _extents_by_stem(tree: Tree, children: Sequence[int]) -> dict[str, set[Extent]]:
    found: dict[str, set[Extent]] = {}
    for child in children:
        if tree.children[child]:
            found.setdefault(stem(tree.segment[child]), set()).add(tree.extent[child])
    return found


def _mass_alike(first: Array, second: Array) -> bool:
    ratio = float(first.sum()) / max(float(second.sum()), 1e-9)
    return 0.4 <= ratio <= 2.5
