"""Equal subtrees of both models get equal numbers, at four strengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tb_plugin_structure.analysis.alignment.kinds import SUBSTANCE
from tb_plugin_structure.analysis.alignment.numbering import Interner
from tb_plugin_structure.analysis.alignment.subtree_hashes import SubtreeHashes, tokens
from tb_plugin_structure.analysis.alignment.tree import Tree
from tb_plugin_structure.records.table import Array

KINDS = tuple(sorted(SUBSTANCE))
KIND_CODE = {kind: code for code, kind in enumerate(KINDS)}
SUBSTANCES = np.array([SUBSTANCE[kind] for kind in KINDS])


@dataclass
class Signatures:
    """One number a node and strength.

    named: segment, class, shapes and children: subtrees of equal number align alike.
    sized: class, shapes and children, names left out.
    shape_free: class, kernel-like attributes and children; widths and names left out.
    kinds: kinds and children only.
    bag: [nodes, kinds] summed substance of the leaves at or below each node.
    pointwise: [nodes] how much of it is convolutions of single positions, which are linear layers by another name.
    """

    named: list[int]
    sized: list[int]
    shape_free: list[int]
    kinds: list[int]
    bag: Array
    pointwise: Array

    def dense_bags(self, nodes: Sequence[int]) -> Array:
        """[nodes, kinds] bags in which convolutions of single positions count as the linear layers that they are."""
        bags: Array = self.bag[nodes]
        bags[:, _CONVOLUTION] -= self.pointwise[nodes]
        bags[:, KIND_CODE["linear"]] += self.pointwise[nodes]
        return bags


_CONVOLUTION = KIND_CODE["convolution"]
_WIDTH_FREE_ATTRIBUTES = ("kernel_size", "stride", "padding", "dilation", "approximate", "p", "negative_slope")


def sign(tree: Tree, intern: Interner) -> Signatures:
    """Signatures of every node."""
    count = len(tree)
    sizes = np.array(tree.size, np.int64)
    is_leaf = np.fromiter(map(len, tree.children), np.int64, count) == 0
    kind = np.fromiter(map(KIND_CODE.__getitem__, tree.kind), np.int64, count)
    extents = intern.each("extent", tree.extents)
    segments = {segment: row for row, segment in enumerate(dict.fromkeys(tree.segment))}
    labels = intern.each("label", map(_label, segments))
    label = labels[np.fromiter(map(segments.__getitem__, tree.segment), np.int64, count)]
    own = _own(tree, is_leaf, intern)
    weight = intern.each("weight", tree.weight_shapes)[tree.module]
    weight[~is_leaf] = intern("weight", ())
    size = tokens(extents[tree.extent_row], extents[tree.entry_row], weight) if count else own
    subtrees = SubtreeHashes(sizes, np.fromiter(map(len, tree.children), np.int64, count))
    node = tokens(own, size)
    bag = np.zeros((count, len(KINDS)))
    counted = np.flatnonzero(is_leaf | (kind != KIND_CODE["block"]))
    bag[counted, kind[counted]] = SUBSTANCES[kind[counted]]
    bag = _below(bag, sizes)
    return Signatures(
        named=subtrees.of(node, label).tolist(),
        sized=subtrees.of(node).tolist(),
        shape_free=subtrees.of(own).tolist(),
        kinds=subtrees.of(kind).tolist(),
        bag=bag,
        pointwise=_below(np.where(is_leaf & (kind == _CONVOLUTION), _is_pointwise(tree)[tree.module], 0.0), sizes),
    )


def _is_pointwise(tree: Tree) -> Array:
    """By module row, whether its weight mixes all channels of one position at a time."""
    return np.array([len(shape) > 2 and shape[1] > 1 and set(shape[2:]) == {1} for shape in tree.weight_shapes], bool)


def _below(values: Array, sizes: Array) -> Array:
    """Sums over the nodes at or below each node: a subtree is a range, so each is a difference of running sums."""
    running = np.concatenate([np.zeros((1, *values.shape[1:])), np.cumsum(values, axis=0)])
    below: Array = np.round(running[np.arange(len(sizes)) + sizes] - running[: len(sizes)], 6)
    return below


def _own(tree: Tree, is_leaf: Array, intern: Interner) -> Array:
    """A number for each node's class, and for a leaf also for its attributes that do not say how wide it is."""
    attributes = intern.each(
        "attributes",
        [tuple(known.get(attribute) for attribute in _WIDTH_FREE_ATTRIBUTES) for known in tree.attribute_sets],
    )
    classes = tree.structure.module_classes
    leaves = intern.each("own", zip(classes, attributes[tree.attribute_row].tolist(), strict=True))
    composites = intern.each("own", classes)
    called = np.array(tree.call, np.int64) >= 0
    return np.where(is_leaf, leaves[tree.module], np.where(called, composites[tree.module], intern("own", "")))


def _label(segment: str) -> str:
    """A segment as part of a signature: positions in a list do not count, so that equal blocks are equal."""
    return "" if segment.isdigit() else segment


def cosine(first: Array, second: Array) -> float:
    """Cosine of two bags; 0 when either is empty."""
    product = float(np.sqrt((first * first).sum() * (second * second).sum()))
    return float((first * second).sum()) / product if product > 0 else 0.0
