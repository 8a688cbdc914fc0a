"""Equal subtrees of both models get equal numbers, at four strengths."""

from __future__ import annotations

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
    """

    named: list[int]
    sized: list[int]
    shape_free: list[int]
    kinds: list[int]
    bag: Array


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
    # A subtree is a range of nodes, so its bag is a difference of running sums.
    running = np.concatenate([np.zeros((1, len(KINDS))), np.cumsum(bag, axis=0)])
    bag = np.round(running[np.arange(count) + sizes] - running[:count], 6)
    return Signatures(
        named=subtrees.of(node, label).tolist(),
        sized=subtrees.of(node).tolist(),
        shape_free=subtrees.of(own).tolist(),
        kinds=subtrees.of(kind).tolist(),
        bag=bag,
    )


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
