"""What the score needs of each node of one model, as arrays; numbers mean the same in both models."""

from __future__ import annotations

import numpy as np

from tb_plugin_structure.analysis.alignment.kinds import SUBSTANCE, TRANSPARENT
from tb_plugin_structure.analysis.alignment.numbering import Interner
from tb_plugin_structure.analysis.alignment.roles import is_opaque, says_little
from tb_plugin_structure.analysis.alignment.signatures import KIND_CODE, KINDS, Signatures
from tb_plugin_structure.analysis.alignment.tree import Tree
from tb_plugin_structure.records.table import Array

_SUBSTANCE = np.array([SUBSTANCE[kind] for kind in KINDS])
_SOLID = np.array([kind not in TRANSPARENT for kind in KINDS])


class Features:
    """Arrays over the nodes of one tree.

    Attributes:
        kind: Code of each node's kind.
        substance: What a node of this kind counts.
        solid: Whether it does something to its input at evaluation.
        attributes: Number of its kernel, stride and whether it works on each channel by itself.
        ratio: Output's by input's width, in steps of the square root of two.
        width: Width of the output.
        positions: Number of the output's rank and positions.
        telling: Whether a node's own path segment names a role.
    """

    def __init__(self, tree: Tree, signatures: Signatures, intern: Interner) -> None:
        self.tree, self.signatures, self.intern = tree, signatures, intern
        count = len(tree)
        self.kind: Array = np.fromiter(map(KIND_CODE.__getitem__, tree.kind), np.int64, count)
        self.substance: Array = _SUBSTANCE[self.kind]
        self.solid: Array = _SOLID[self.kind]
        rows, entries = np.array(tree.extent_row, np.int64), np.array(tree.entry_row, np.int64)
        widths = np.array([extent.width for extent in tree.extents], np.float64)
        positions = intern.each("positions", [(extent.rank, extent.positions) for extent in tree.extents])
        self.width: Array = widths[rows]
        self.positions: Array = positions[rows]
        both = (widths[rows] > 0) & (widths[entries] > 0)
        ratio = np.divide(widths[rows], widths[entries], out=np.ones(count), where=both)
        self.ratio: Array = np.where(both, np.round(2 * np.log2(ratio)), np.inf)
        of_module = _attributes(tree, intern)
        self.attributes: Array = np.fromiter(map(of_module.__getitem__, tree.module), np.int64, count)
        tells = {name: not (is_opaque(name) or says_little(name)) for name in dict.fromkeys(tree.segment)}
        self.telling: list[bool] = list(map(tells.__getitem__, tree.segment))


def _attributes(tree: Tree, intern: Interner) -> list[int]:
    """A number for each module's kernel, stride and whether it is depthwise."""
    stated = [(known.get("kernel_size"), known.get("stride")) for known in tree.attribute_sets]
    known: dict[tuple[int, tuple[int, ...]], int] = {}
    found = []
    for key in zip(tree.attribute_row, tree.weight_shapes, strict=True):
        number = known.get(key)
        if number is None:
            (kernel, stride), weight = stated[key[0]], key[1]
            depthwise = len(weight) > 2 and weight[1] == 1 and weight[0] > 1
            number = known[key] = intern("kernel", (weight[2:] if len(weight) > 2 else (kernel,), stride, depthwise))
        found.append(number)
    return found
