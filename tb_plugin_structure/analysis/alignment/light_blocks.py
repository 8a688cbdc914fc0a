"""Blocks with a single layer each, such as (linear, activation, dropout), that form a stack.

So small a composite may be anything, so more is asked than of larger blocks: entries of one list, equal in class,
shapes and parts, one after the other, not side by side.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from tb_plugin_structure.analysis.alignment.tree import Tree


def may_be_light(tree: Tree, weighted: Sequence[float], node: int) -> bool:
    """Whether a node is a numbered entry with a weighted leaf that returns the shape it takes.

    Args:
        tree: The model.
        weighted: How many leaves at or below each node hold weights of a layer.
        node: The node.
    """
    return (
        tree.call[node] >= 0
        and len(tree.children[node]) > 1
        and tree.segment[node].isdigit()
        and tree.entry[node] == tree.extent[node]
        and weighted[node] >= 1
    )


def light_runs(
    tree: Tree, possible: Container[int], sized: Sequence[int], children: Sequence[int]
) -> list[tuple[int, ...]]:
    """Stacks of light blocks among the children of a node.

    Args:
        tree: The model.
        possible: Nodes that may be light blocks.
        sized: Numbers of subtrees, equal where class, shapes and parts are.
        children: The children, in order of execution.
    """
    runs: list[list[int]] = [[]]
    for child in children:
        if child not in possible:
            runs.append([])
        elif runs[-1] and sized[child] == sized[runs[-1][-1]]:
            runs[-1].append(child)
        else:
            runs.append([child])
    return [tuple(run) for run in runs if len(run) > 1 and not _share_input(tree, run)]


def _share_input(tree: Tree, run: Sequence[int]) -> bool:
    """Whether two of several calls read one tensor first."""
    return len({tuple(tree.input_tensors[tree.call[node]][:1]) for node in run}) < len(run)
