"""Dense connections: blocks that return what they take and some channels more, so that no two widths are equal."""

from __future__ import annotations

from collections.abc import Sequence

from tb_plugin_structure.analysis.alignment.extents import Extent
from tb_plugin_structure.analysis.alignment.tree import Tree

_LEAST_GROWTHS = 2
"""Equal growths, one after the other, that make a chain."""


def widthless_extents(tree: Tree, children: Sequence[int]) -> dict[int, Extent]:
    """For members of dense chains among the children of a node, what they return without its width.

    A chain's members are of one class and keep the resolution; each takes what the one before returned and widens it by
    the same number of channels. The first may widen by another.
    """
    found: dict[int, Extent] = {}
    chain: list[int] = []
    for child in [*children, -1]:
        if child >= 0 and chain and _continues(tree, chain[-1], child):
            if len(chain) == 1 or _growth(tree, child) == _growth(tree, chain[-1]):
                chain.append(child)
                continue
            if len(chain) == _LEAST_GROWTHS:  # the one before the last widens by another: this one may begin a chain
                chain = [chain[-1], child]
                continue
        growths = [_growth(tree, node) for node in chain]
        equal = len(growths) if len(set(growths)) == 1 else len(growths) - 1
        if equal >= _LEAST_GROWTHS:
            found.update((node, tree.extent[node]._replace(width=0)) for node in chain)
        chain = [child] if child >= 0 and tree.call[child] >= 0 and tree.children[child] else []
    return found


def _growth(tree: Tree, node: int) -> int:
    return tree.extent[node].width - tree.entry[node].width


def _continues(tree: Tree, before: int, node: int) -> bool:
    """Whether a call takes what the one before returned and widens it, both of one class."""
    returned, taken = tree.extent[before], tree.entry[node]
    return (
        tree.call[node] >= 0
        and bool(tree.children[node])
        and tree.class_name[node] == tree.class_name[before]
        and returned.positions == taken.positions == tree.extent[node].positions
        and returned.width == taken.width
        and _growth(tree, node) > 0
    )
