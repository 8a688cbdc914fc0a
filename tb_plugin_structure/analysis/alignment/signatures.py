"""Hash-consing: equal subtrees of both models get equal numbers, at three strengths."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from tb_plugin_structure.analysis.alignment.kinds import SUBSTANCE
from tb_plugin_structure.analysis.alignment.tree import Tree
from tb_plugin_structure.records.table import Array

KINDS = tuple(sorted(SUBSTANCE))
KIND_CODE = {kind: code for code, kind in enumerate(KINDS)}
SUBSTANCES = np.array([SUBSTANCE[kind] for kind in KINDS])


class Interner:
    """Numbers for hashable values; shared by the two trees, so that numbers compare across them."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def __call__(self, value: Hashable) -> int:
        return self._numbers.setdefault(value, len(self._numbers))


@dataclass
class Signatures:
    """One number a node and strength.

    named: segment, class, shapes and children: subtrees of equal number align alike.
    sized: class, shapes and children, names left out.
    shape_free: class, kernel-like attributes and children; widths and names left out.
    kinds: kinds and children only.
    bag: [nodes, kinds] summed substance of the leaves at or below each node.
    """

    named: list[int]
    sized: list[int]
    shape_free: list[int]
    kinds: list[int]
    bag: Array


_WIDTH_FREE_ATTRIBUTES = ("kernel_size", "stride", "padding", "dilation", "approximate", "p", "negative_slope")


def sign(tree: Tree, intern: Interner) -> Signatures:
    """Signatures of every node, children before parents. O(nodes)."""
    count = len(tree)
    named, sized, shape_free, kinds = [0] * count, [0] * count, [0] * count, [0] * count
    leaf_numbers: dict[int, int] = {}
    bag = np.zeros((count, len(KINDS)))
    bag_nodes: list[int] = []
    bag_kinds: list[int] = []
    labels = {segment: intern(("label", _label(segment))) for segment in dict.fromkeys(tree.segment)}
    for node in range(count - 1, -1, -1):
        children, module, kind = tree.children[node], tree.module[node], tree.kind[node]
        name = tree.class_name[node] if tree.call[node] >= 0 else ""
        if not children:
            found = leaf_numbers.get(module)
            if found is None:
                attributes = tuple(tree.attribute(node, attribute) for attribute in _WIDTH_FREE_ATTRIBUTES)
                found = leaf_numbers[module] = intern(("own", name, attributes))
            own, weight = found, tree.weight_shape(node)
        else:
            own, weight = intern(("own", name)), ()
        if not children or kind != "block":
            bag_nodes.append(node)
            bag_kinds.append(KIND_CODE[kind])
        sizes = intern((tree.extent[node], tree.entry[node], weight))
        if not children:
            shape_free[node] = own
            kinds[node] = intern(("k", kind))
            sized[node] = intern(("s", own, sizes))
            named[node] = sized[node]
            continue
        shape_free[node] = intern(("f", own, *[shape_free[child] for child in children]))
        kinds[node] = intern(("k", kind, *[kinds[child] for child in children]))
        sized[node] = intern(("s", own, sizes, *[sized[child] for child in children]))
        inside = [number for child in children for number in (named[child], labels[tree.segment[child]])]
        named[node] = intern(("n", own, sizes, *inside))
    bag[bag_nodes, bag_kinds] = SUBSTANCES[bag_kinds]
    # A subtree is a range of nodes, so its bag is a difference of running sums.
    running = np.concatenate([np.zeros((1, len(KINDS))), np.cumsum(bag, axis=0)])
    bag = np.round(running[np.arange(count) + np.array(tree.size, np.int64)] - running[:count], 6)
    return Signatures(named, sized, shape_free, kinds, bag)


def _label(segment: str) -> str:
    """A segment as part of a signature: positions in a list do not count, so that equal blocks are equal."""
    return "" if segment.isdigit() else segment


def cosine(first: Array, second: Array) -> float:
    """Cosine of two bags; 0 when either is empty."""
    product = float(np.sqrt((first * first).sum() * (second * second).sum()))
    return float((first * second).sum()) / product if product > 0 else 0.0
