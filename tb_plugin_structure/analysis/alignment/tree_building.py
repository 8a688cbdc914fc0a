"""From a record to its tree: the calls, the containers between them, and what each is."""

from __future__ import annotations

import numpy as np

from tb_plugin_structure.analysis.alignment.extents import NOTHING, Extent, extent, layout
from tb_plugin_structure.analysis.alignment.node_kinds import node_kinds
from tb_plugin_structure.analysis.alignment.numbering import first_rows, first_values, number_lists, ranked
from tb_plugin_structure.analysis.alignment.tree import Tree
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.records.table import Array


def build_tree(structure: Structure) -> Tree:
    """The tree of module calls of a record, containers included."""
    tree = Tree(structure)
    if structure.module_calls.rows:
        _add_nodes(tree)
        tree.kind = node_kinds(tree)
        _add_extents(tree)
    return tree


def _add_nodes(tree: Tree) -> None:
    """Nodes of all calls below the first call of the model, and of the containers between them, in pre-order."""
    structure = tree.structure
    order = np.array(_preorder(structure), np.int64)
    opened, below = _containers(structure, order)
    modules = structure.module_calls["module"].astype(np.int64)
    callers = structure.module_calls["parent"].astype(np.int64)
    before = np.zeros(len(callers), np.int64)
    for call, rows in opened.items():
        before[call] = len(rows)
    place = np.arange(len(order)) + np.cumsum(before[order])
    node_of = np.full(len(callers) + 1, -1, np.int64)  # the last place is what the caller -1 reads
    node_of[order] = place
    count = len(order) + int(before[order].sum())
    call_of, module_of, parent_of = np.full((3, count), -1, np.int64)
    call_of[place], module_of[place], parent_of[place] = order, modules[order], node_of[callers[order]]
    container: dict[tuple[int, int], int] = {}
    for call, rows in opened.items():
        caller = int(callers[call])
        for distance, (row, around) in enumerate(rows):
            node = container[caller, row] = int(node_of[call]) - len(rows) + distance
            module_of[node] = row
            parent_of[node] = container[caller, around] if around >= 0 else node_of[caller]
    for call, row in below.items():
        parent_of[node_of[call]] = container[int(callers[call]), row]
    tree.call, tree.module, tree.parent = call_of.tolist(), module_of.tolist(), parent_of.tolist()
    tree.path = list(map(structure.module_paths.__getitem__, tree.module))
    tree.class_name = list(map(structure.module_classes.__getitem__, tree.module))
    held = (parent_of >= 0) & (structure.modules["parent"][module_of] == module_of[parent_of])
    tree.segment = [
        path.rpartition(".")[2] if simple else _segment(tree, node)
        for node, (path, simple) in enumerate(zip(tree.path, held.tolist(), strict=True))
    ]
    tree.children = [[] for _ in range(count)]
    for node in range(1, count):
        tree.children[tree.parent[node]].append(node)
    tree.size = _sizes(tree.parent)


def _sizes(parents: list[int]) -> list[int]:
    """Rows at or below each row of a tree in which rows come after their parents."""
    sizes = [1] * len(parents)
    for row in range(len(parents) - 1, 0, -1):
        if parents[row] >= 0:
            sizes[parents[row]] += sizes[row]
    return sizes


def _preorder(structure: Structure) -> list[int]:
    """The calls at or below the first call, each followed by what it called."""
    parents = structure.module_calls["parent"].tolist()
    sizes = _sizes(parents)
    if all(call < above + sizes[above] for call, above in enumerate(parents[: sizes[0]]) if above >= 0):
        return list(range(sizes[0]))  # as calls are recorded
    order: list[int] = []
    work = [0]
    while work:
        call = work.pop()
        order.append(call)
        work.extend(reversed(structure.call_children[call]))
    return order


_Opened = dict[int, list[tuple[int, int]]]


def _containers(structure: Structure, order: Array) -> tuple[_Opened, dict[int, int]]:
    """Where containers lie between callers and what they called, of the calls in `order`.

    Returns:
        Call -> containers that begin before it, outermost first, as (module row, row of the container around or -1);
        and call -> the container it lies in.
    """
    calls = structure.module_calls
    parents, modules = calls["parent"].astype(np.int64), calls["module"].astype(np.int64)
    apart = np.zeros(len(parents), bool)
    apart[order] = (parents[order] >= 0) & (structure.modules["parent"][modules] != modules[parents])[order]
    opened: _Opened = {}
    below: dict[int, int] = {}
    if not apart.any():
        return opened, below
    paths, module_row = structure.module_paths, structure.module_row
    was_called = structure.modules["calls"].tolist()

    def between(prefix: str, path: str) -> tuple[int, ...]:
        """Never-called modules between a caller and the module it called, outermost first."""
        if prefix and not path.startswith(prefix + "."):
            return ()
        found = []
        position = path.find(".", len(prefix) + 1 if prefix else 0)
        while position >= 0:
            row = module_row.get(path[:position])
            if row is None or was_called[row]:
                return ()
            found.append(row)
            position = path.find(".", position + 1)
        return tuple(found)

    for caller in np.unique(parents[apart]).tolist():
        children = structure.call_children[caller]
        prefix = paths[modules[caller]]
        chains = _contiguous([between(prefix, paths[modules[child]]) for child in children])
        known: set[int] = set()
        for child, chain in zip(children, chains, strict=True):
            for around, row in zip((-1, *chain), chain, strict=False):
                if row not in known:
                    known.add(row)
                    opened.setdefault(child, []).append((row, around))
            if chain:
                below[child] = chain[-1]
    return opened, below


def _contiguous(chains: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Drop containers whose calls do not follow one another: they would hide the order of execution."""
    runs: dict[int, int] = {}
    previous: tuple[int, ...] = ()
    for chain in chains:
        for container in chain:
            if container not in previous:
                runs[container] = runs.get(container, 0) + 1
        previous = chain
    return [tuple(container for container in chain if runs[container] == 1) for chain in chains]


def _segment(tree: Tree, node: int) -> str:
    """The part of a path below what it lies in; the last piece where it lies elsewhere (a borrowed module)."""
    path, above = tree.path[node], tree.parent[node]
    outer = tree.path[above] if above >= 0 else ""
    if not outer:
        return path
    return path[len(outer) + 1 :] if path.startswith(outer + ".") else path.rpartition(".")[2]


def _add_extents(tree: Tree) -> None:
    """What each node takes and returns: the first tensor of each, read as its kind reads it."""
    structure = tree.structure
    calls = np.array(tree.call, np.int64)
    called = np.flatnonzero(calls >= 0)
    layouts = {key: layout(*key) for key in dict.fromkeys(zip(tree.kind, tree.class_name, strict=True))}
    distinct = list(dict.fromkeys(layouts.values()))
    code_of = {key: distinct.index(value) for key, value in layouts.items()}
    codes = np.array([code_of[key] for key in zip(tree.kind, tree.class_name, strict=True)], np.int64)[called]
    sides = [
        first_values(structure.module_calls[side], structure.module_calls.offsets(side))[calls[called]]
        for side in ("outputs", "inputs")
    ]
    tensors = np.concatenate(sides)
    shapes = structure.tensors["shape"], structure.tensors.offsets("shape").astype(np.int64)
    some = np.flatnonzero(tensors >= 0)
    keys = np.full(len(tensors), -1, np.int64)
    keys[some] = number_lists(*shapes, tensors[some]) * len(distinct) + np.tile(codes, 2)[some]
    values, number = ranked(keys)
    found = [
        extent(
            tuple(shapes[0][shapes[1][tensors[row]] : shapes[1][tensors[row] + 1]].tolist()),
            distinct[key % len(distinct)],
        )
        if key >= 0
        else NOTHING
        for key, row in zip(values.tolist(), first_rows(number).tolist(), strict=True)
    ]
    # One row for each extent, whichever layout it was read with.
    rows: dict[Extent, int] = {NOTHING: 0}
    row_of = np.array([rows.setdefault(value, len(rows)) for value in found], np.int64)[number]
    extent_row, entry_row = np.zeros((2, len(tree)), np.int64)
    extent_row[called], entry_row[called] = np.split(row_of, 2)
    for node in np.flatnonzero(calls < 0)[::-1].tolist():  # a container returns what its last part does
        extent_row[node], entry_row[node] = extent_row[tree.children[node][-1]], entry_row[tree.children[node][0]]
    tree.extents = list(rows)
    tree.extent_row, tree.entry_row = extent_row.tolist(), entry_row.tolist()
    tree.extent = list(map(tree.extents.__getitem__, tree.extent_row))
    tree.entry = list(map(tree.extents.__getitem__, tree.entry_row))
