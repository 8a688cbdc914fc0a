"""Runs of alike blocks among the children of a node: the stacks of one model."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tb_plugin_structure.analysis.alignment.dataflow import DataFlow
from tb_plugin_structure.analysis.alignment.dense_growth import widthless_extents
from tb_plugin_structure.analysis.alignment.extents import Extent
from tb_plugin_structure.analysis.alignment.kinds import WEIGHTED
from tb_plugin_structure.analysis.alignment.light_blocks import light_runs, may_be_light
from tb_plugin_structure.analysis.alignment.roles import role_words, words_similarity
from tb_plugin_structure.analysis.alignment.signatures import KIND_CODE, Signatures, cosine
from tb_plugin_structure.analysis.alignment.tree import Tree
from tb_plugin_structure.records.table import Array

ALIKE = 0.85
"""Cosine of two blocks' bags of kinds above which they may belong to one stack."""

CONTAINERS = frozenset(("Sequential", "ModuleList", "ModuleDict"))
WEIGHTED_CODES = np.array(sorted(KIND_CODE[kind] for kind in WEIGHTED))
_CLOSE = 0.9
_LARGEST_GAP = 2


Positions = tuple[int, ...]


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


class StackRuns:
    """The stacks of one model.

    Attributes:
        stacks: Node -> stacks among its children, each the children in order.
        light_blocks: Elements of stacks of blocks with a single layer each.
        weighted: How many leaves at or below each node hold weights of a layer.
    """

    def __init__(self, flow: DataFlow, signatures: Signatures) -> None:
        tree = flow.tree
        self.tree, self.flow, self.signatures = tree, flow, signatures
        self.light_blocks: set[int] = set()
        self.weighted: list[float] = signatures.bag[:, WEIGHTED_CODES].sum(axis=1).tolist()
        self._heavy = [
            weighted >= 2 if below else kind == "block"
            for weighted, below, kind in zip(self.weighted, tree.children, tree.kind, strict=True)
        ]
        self._lightest = [
            node for node in range(len(tree)) if tree.children[node] and may_be_light(tree, self.weighted, node)
        ]
        self._akin = self._like_siblings()
        self._inner: list[int] = []
        """Nodes that hold stacks, negative, so that they rise while inner ones come first."""
        self._found: dict[int, list[tuple[int, ...]]] = {}
        for node in reversed(self._holders()):  # inner ones first: what is in a block tells what it is
            runs = self._of(node)
            if runs:
                self._found[node] = runs
                self._inner.append(-node)
        self.stacks = dict(reversed(self._found.items()))

    def is_block(self, node: int) -> bool:
        """Whether a node is a composite that holds two or more weighted leaves (or is opaque but may), an entry of a
        list beside such ones of its class, or an entry of a list of alike composites that keep the shape, however
        little each holds (a light block)."""
        return self._heavy[node] or node in self.light_blocks or node in self._akin

    def possible_light_blocks(self) -> list[int]:
        """Nodes that would be light blocks if others were beside them."""
        return self._lightest

    def _like_siblings(self) -> set[int]:
        """Entries of lists with a single layer, where others of their class beside them have more (branches that only
        some blocks have)."""
        tree = self.tree
        few = [
            node
            for node, below in enumerate(tree.children)
            if below and not self._heavy[node] and self.weighted[node] >= 1 and tree.segment[node].isdigit()
        ]
        return {
            node
            for node in few
            if tree.call[node] >= 0
            and tree.class_name[node] not in CONTAINERS
            and any(
                self._heavy[other] and tree.class_name[other] == tree.class_name[node]
                for other in tree.children[tree.parent[node]]
            )
        }

    def _holders(self) -> list[int]:
        """Nodes with two or more children that may be blocks of one stack."""
        parents = self.tree.parent
        counts = Counter(parents[node] for node in range(1, len(parents)) if self._heavy[node])
        counts.update(parents[node] for node in self._akin)
        light = Counter(parents[node] for node in self._lightest)
        return sorted(
            node for node in counts.keys() | light.keys() if node >= 0 and (counts[node] >= 2 or light[node] >= 2)
        )

    def _of(self, node: int) -> list[tuple[int, ...]]:
        """Stacks among the children of a node."""
        children = self.tree.children[node]
        if len(children) < 2:
            return []
        widthless = widthless_extents(self.tree, children)
        groups: dict[_Key, list[int]] = {}
        for place, child in enumerate(children):
            if self.is_block(child):
                key = _Key(
                    stem(self.tree.segment[child]),
                    self.tree.class_name[child],
                    self.signatures.kinds[child],
                    widthless.get(child, self.tree.extent[child]),
                )
                groups.setdefault(key, []).append(place)
        varied = {
            name
            for name, extents in _extents_by_stem(self.tree, children, widthless).items()
            if name and len(extents) > 1
        }
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
            if (key.stem or not alike) and _run_side_by_side(self.tree, nodes):
                continue  # branch1, branch2 and so on that run side by side; not so the equal experts of a list
            places.sort()
            start = previous = places[0]
            for place in [*places[1:], -1]:
                if (
                    place >= 0
                    and place - previous <= _LARGEST_GAP
                    and self._is_light(children[previous + 1 : place], previous, children)
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
        if cosine(bag, other_bag) < ALIKE or not mass_alike(bag, other_bag) or self._are_stages(node, other):
            return False
        if key.class_name == other_key.class_name and self.tree.call[node] >= 0 and key.class_name not in CONTAINERS:
            return True
        ratio = float(bag.sum()) / float(other_bag.sum())
        close = cosine(bag, other_bag) >= _CLOSE and 0.6 <= ratio <= 1.6
        return close and words_similarity(role_words(key.class_name), role_words(other_key.class_name)) >= 0.5

    def _is_light(self, between: list[int], previous: int, children: list[int]) -> bool:
        """Whether what lies between two blocks is no larger than a block."""
        return sum(float(self.tree.mass[node]) for node in between) <= float(self.tree.mass[children[previous]]) * 1.01

    def _are_stages(self, node: int, other: int) -> bool:
        """Whether two siblings hold stacks of their own and differ in these, or in whether they keep the resolution:
        stages of a trunk, not blocks."""
        chains, other_chains = self._chains(node), self._chains(other)
        if not chains and not other_chains:
            return False
        narrows = self._ends_narrower(node, chains) or self._ends_narrower(other, other_chains)
        return narrows or [length for length, _ in chains] != [length for length, _ in other_chains]

    def _ends_narrower(self, node: int, chains: Sequence[tuple[int, Positions]]) -> bool:
        """Whether the resolution changes after the stacks in a node: a block may change it at its begin."""
        taken, returned = self.tree.entry[node].positions, self.tree.extent[node].positions
        return taken != returned and any(positions != returned for _, positions in chains)

    def _chains(self, node: int) -> list[tuple[int, Positions]]:
        """Lengths and positions of the outermost stacks below a node whose blocks are of one class and run one after
        the other, as experts do not."""
        end = node + self.tree.size[node]
        begin, stop = bisect_left(self._inner, 1 - end), bisect_left(self._inner, 1 - node)
        found: list[tuple[int, Positions]] = []
        covered = node
        for holder in (-each for each in reversed(self._inner[begin:stop])):
            if holder < covered:
                continue
            for elements in self._found[holder]:
                if _run_in_turn(self.tree, elements):
                    found.append((len(elements), self.tree.extent[elements[0]].positions))
                covered = elements[-1] + self.tree.size[elements[-1]]
        return found


def _run_side_by_side(tree: Tree, nodes: Sequence[int]) -> bool:
    """Whether several calls read the same tensor first, and none reads what another returned (dense connections)."""
    calls = [tree.call[node] for node in nodes if tree.call[node] >= 0]
    read = {tree.input_tensors[call][:1] for call in calls}
    if len(nodes) < 2 or len(read) != 1 or read == {()}:
        return False
    returned = {tensor for call in calls for tensor in tree.output_tensors[call]}
    return not any(returned.intersection(tree.input_tensors[call]) for call in calls)


def _extents_by_stem(tree: Tree, children: Sequence[int], widthless: Mapping[int, Extent]) -> dict[str, set[Extent]]:
    found: dict[str, set[Extent]] = {}
    for child in children:
        if tree.children[child]:
            found.setdefault(stem(tree.segment[child]), set()).add(widthless.get(child, tree.extent[child]))
    return found


def mass_alike(first: Array, second: Array) -> bool:
    ratio = float(first.sum()) / max(float(second.sum()), 1e-9)
    return 0.4 <= ratio <= 2.5


def _run_in_turn(tree: Tree, elements: Sequence[int]) -> bool:
    """Whether elements are of one class, and one takes the tensor that the one before returned."""
    return len({tree.class_name[node] for node in elements}) == 1 and any(
        tree.call[before] >= 0
        and tree.call[node] >= 0
        and tree.output_tensors[tree.call[before]][:1] == tree.input_tensors[tree.call[node]][:1] != ()
        for before, node in pairwise(elements)
    )
