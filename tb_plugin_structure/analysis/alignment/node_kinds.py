"""The kind of each node: from its class, its parameters, then the operators that it ran."""

from __future__ import annotations

import numpy as np

from tb_plugin_structure.analysis.alignment.kinds import OPERATOR_KINDS, class_kind, operator_rank
from tb_plugin_structure.analysis.alignment.tree import Tree
from tb_plugin_structure.records.table import Array

_MOST_OPERATORS = 8
"""Operators of a layer; a call with more of them is more than one layer."""

_WITH_WEIGHTS = frozenset(("linear", "convolution", "transposed_convolution", "norm"))
"""Kinds of layers that may have weights of their own and call others on the side."""


def node_kinds(tree: Tree) -> list[str]:
    """Kinds of :data:`~tb_plugin_structure.analysis.alignment.kinds.SUBSTANCE`, one a node."""
    structure = tree.structure
    class_modules = structure.modules.column_texts("class_module")
    stated = list(map(class_kind, structure.module_classes, class_modules))
    weighs = _have_weights(tree)
    kinds = ["block"] * len(tree)
    silent: list[int] = []
    composites: list[int] = []
    for node, (call, module, below) in enumerate(zip(tree.call, tree.module, tree.children, strict=True)):
        kind = stated[module]
        if below:
            if call >= 0 and (weighs[module] or kind in _WITH_WEIGHTS):
                composites.append(node)
        elif kind in ("position", "embedding"):
            kinds[node] = _table_kind(tree, node, kind)
        elif kind:
            kinds[node] = kind
        elif not structure.module_children[module]:
            silent.append(node)
        # What calls nothing though modules are registered on it (a fused fast path) is a block.
    for node, kind in zip(silent, _operator_kinds(tree, silent), strict=True):
        kinds[node] = kind
    for node in reversed(composites):  # inner ones first
        kinds[node] = _composite_kind(tree, node, weighs[tree.module[node]], kinds)
    return kinds


def _have_weights(tree: Tree) -> list[bool]:
    """Whether each module has a parameter of its own that is no buffer."""
    structure = tree.structure
    offsets = structure.modules.offsets("parameters").astype(np.int64)
    counted = structure.parameters["is_buffer"][structure.modules["parameters"].astype(np.int64)] == 0
    running = np.concatenate([[0], np.cumsum(counted)])
    found: list[bool] = (running[offsets[1:]] > running[offsets[:-1]]).tolist()
    return found


def _table_kind(tree: Tree, node: int, stated: str) -> str:
    """An embedding has a table, or looks one up; a position encoding has none. Classes may be named either way."""
    structure = tree.structure
    is_buffer = structure.parameters["is_buffer"]
    shapes = [tree.parameter_shapes[row] for row in tree.own_parameters[tree.module[node]] if not is_buffer[row]]
    if stated == "position":
        return "embedding" if any(len(shape) == 2 for shape in shapes) else "position"
    begin, end = (int(structure.module_calls[name][tree.call[node]]) for name in ("operator_begin", "operator_end"))
    return "embedding" if shapes or 0 < end - begin <= _MOST_OPERATORS else "position"


def _operator_kinds(tree: Tree, nodes: list[int]) -> list[str]:
    """Kinds of leaves whose classes say nothing, from the names of their operators."""
    if not nodes:
        return []
    structure = tree.structure
    names = structure.operators["name"].astype(np.int64)
    rank_of_text = np.full(int(names.max(initial=0)) + 1, len(OPERATOR_KINDS), np.int64)
    used = np.flatnonzero(np.bincount(names))
    rank_of_text[used] = [operator_rank(structure.operators.text("name", row)) for row in _first_row(names, used)]
    ranks = np.append(rank_of_text[names], len(OPERATOR_KINDS))
    calls = np.array(tree.call, np.int64)[nodes]
    begin = structure.module_calls["operator_begin"].astype(np.int64)[calls]
    end = structure.module_calls["operator_end"].astype(np.int64)[calls]
    small = (end > begin) & (end - begin <= _MOST_OPERATORS)
    best = np.full(len(nodes), len(OPERATOR_KINDS), np.int64)
    if small.any():
        bounds = np.stack([begin[small], end[small]], axis=1).ravel()
        best[small] = np.minimum.reduceat(ranks, bounds)[::2]
    return [(*OPERATOR_KINDS, "other")[rank] for rank in best.tolist()]


def _first_row(names: Array, used: Array) -> list[int]:
    """A row in which each of some numbers occurs."""
    row = np.zeros(int(names.max(initial=0)) + 1, np.int64)
    row[names] = np.arange(len(names))
    found: list[int] = row[used].tolist()
    return found


def _has_matrix(tree: Tree, node: int) -> bool:
    """Whether a module has a weight of its own that mixes channels, or computes one (parametrised): a gain alone makes
    a "DenseBlock" no linear layer."""
    if tree.class_name[node].startswith("Parametrized"):
        return True
    return any(len(tree.parameter_shapes[row]) > 1 for row in tree.own_parameters[tree.module[node]])


def _composite_kind(tree: Tree, node: int, weighs: bool, kinds: list[str]) -> str:
    """The kind of a composite: "block", or that of a layer which has weights of its own and calls others on the side
    (a norm that also calls its activation, a parametrised layer that computes its weight)."""
    name = tree.class_name[node]
    if not weighs and not name.startswith("Parametrized"):
        return "block"
    kind = class_kind(name)
    if kind not in _WITH_WEIGHTS or (kind != "norm" and not _has_matrix(tree, node)):
        return "block"
    inside = range(node + 1, node + tree.size[node])
    return "block" if any(kinds[below] == kind for below in inside) else kind
