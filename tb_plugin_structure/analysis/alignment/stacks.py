"""Folding: runs of alike blocks become one unit, so that a network of any depth is a short sequence."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Sequence, Set
from dataclasses import dataclass

import numpy as np

from tb_plugin_structure.analysis.alignment.dataflow import DataFlow
from tb_plugin_structure.analysis.alignment.kinds import SUBSTANCE
from tb_plugin_structure.analysis.alignment.roles import is_opaque
from tb_plugin_structure.analysis.alignment.signatures import KIND_CODE, Signatures, cosine
from tb_plugin_structure.analysis.alignment.stack_runs import ALIKE, CONTAINERS, StackRuns, mass_alike, stem
from tb_plugin_structure.records.table import Array

_TELLING_CODES = np.array(sorted(KIND_CODE[kind] for kind, weight in SUBSTANCE.items() if weight >= 0.5))


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


class Folding:
    """Finds the units of any scope of one tree; the other tree's stacks decide which single blocks count as stacks."""

    def __init__(self, flow: DataFlow, signatures: Signatures) -> None:
        tree = flow.tree
        self.tree, self.flow = tree, flow
        self.signatures = signatures
        self.runs = StackRuns(flow, signatures)
        self._stacks, self.light_blocks = self.runs.stacks, self.runs.light_blocks
        self._weighted = self.runs.weighted
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
            if below and name in self.element_classes and name not in CONTAINERS
        ]
        distinct_blocks = {
            signatures.kinds[element]: signatures.bag[element]
            for stacks in self._stacks.values()
            for elements in stacks
            for element in elements
            if self.is_block(element)
        }
        self.own_bags = list(distinct_blocks.values())
        self.deep_classes = {
            tree.class_name[element]
            for stacks in self._stacks.values()
            for elements in stacks
            for element in elements
            if tree.call[element] >= 0 and tree.class_name[element] not in CONTAINERS and self._holds_stack(element)
        }
        """Classes of blocks that hold stacks themselves: modules of parallel branches, groups of blocks."""
        self.other_classes: set[str] = set()
        self._other_unlike: Set[str] = frozenset()
        self._deep: Set[str] = self.deep_classes
        stages = self._count_stages()
        self.stage_classes = {name for (_, name), count in stages.items() if count > 1}
        self._stages_beside = stages.keys()
        self._small_stages: set[int] = set()
        self._light_singles: set[int] = set()
        self._staged = self._staged_parents()
        self.stage_stems = {stem(tree.segment[node]) for parent in self._staged for node in self._numbered(parent, 3)}
        self.stages: set[int] = set()
        called = {module for module, call in zip(tree.module, tree.call, strict=True) if call >= 0}
        self.class_counts = Counter(tree.structure.module_classes[module] for module in called)

    def is_block(self, node: int) -> bool:
        """Whether a node may be one of a stack's blocks."""
        return self.runs.is_block(node)

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
            stack_of = {
                element: elements
                for elements in stacks
                if elements[0] not in opened and elements[0] not in self._small_stages
                for element in elements
            }
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
        self._other_unlike = other.class_counts.keys() - other.element_classes - CONTAINERS
        self._deep = self.deep_classes | other.deep_classes
        kinds = {other.signatures.kinds[node] for node in other.light_blocks}
        singles = {node for node in self.runs.possible_light_blocks() if self.signatures.kinds[node] in kinds}
        self._light_singles = singles - self.light_blocks - {0}
        self._mark_stages(self.stage_stems | other.stage_stems)
        self._small_stages = {
            element
            for stacks in self._stacks.values()
            for elements in stacks
            if self._may_be_small_stages(elements, other.stage_classes)
            for element in elements
        }

    def _count_stages(self) -> Counter[tuple[int, str]]:
        """How many numbered siblings of a class hold a stack each, (node around, class): stages."""
        tree = self.tree
        blocks = {element for stacks in self._stacks.values() for elements in stacks for element in elements}
        found: Counter[tuple[int, str]] = Counter()
        stages: set[int] = set()
        for holder in self._stacked:
            stage = holder
            while stage > 0 and stage not in blocks and stage not in stages:
                stages.add(stage)
                if tree.segment[stage][-1:].isdigit():
                    found[tree.parent[stage], tree.class_name[stage]] += 1
                stage = tree.parent[stage]
        return found

    def _may_be_small_stages(self, elements: Sequence[int], stage_classes: Container[str]) -> bool:
        """Whether what looks like a stack of blocks is stages (of one block each, or as long as one another), as others
        of the class beside them or in the other model are."""
        tree, beside = self.tree, self._stages_beside
        return all(
            (tree.class_name[element] in stage_classes or (tree.parent[element], tree.class_name[element]) in beside)
            and (
                self._holds_stack(element) or tree.class_name[element] not in CONTAINERS or len(tree.chain(element)) > 1
            )
            for element in elements
        )

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
        if tree.call[node] < 0 or not self.is_block(node) or node in self._small_stages:
            return False
        name = tree.class_name[node]
        if name not in self.element_classes | self.other_classes and (
            name in CONTAINERS or len(tree.children[node]) == 1 or self.class_counts[name] < 2
        ):
            return False  # a wrapper around the block, or something that the model has once: a head, a stem
        if name in self._other_unlike - self.element_classes:
            return False  # the other model has such modules, and they are no blocks there
        bag = self.signatures.bag[node]
        if name in self._deep:
            return any(cosine(bag, other) >= ALIKE for other in blocks)
        place = bisect_left(self._block_classed, node + 1)
        if place < len(self._block_classed) and self._block_classed[place] < node + tree.size[node]:
            return False  # what holds a block is no block
        telling = bag[_TELLING_CODES] > 0
        if name in self.element_classes:
            blocks = [*blocks, *self.own_bags]
        return any(
            cosine(bag, other) >= ALIKE and mass_alike(bag, other) and ((other[_TELLING_CODES] > 0) == telling).all()
            for other in blocks
        ) and not self._holds_stack(node)
