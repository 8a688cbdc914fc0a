"""The module calls of one record as a tree of nodes in pre-order, with what alignment needs to know of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np

from tb_plugin_structure.analysis.alignment.kinds import SUBSTANCE, class_kind, leaf_kind
from tb_plugin_structure.analysis.alignment.roles import role_words
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.records.table import Array, Table

_MOST_OPERATORS_FOR_KIND = 8

_MOST_AROUND = 12
"""Composites around a node whose names tell where it is."""


class Extent(NamedTuple):
    """The output shape of a node, split into what the size of the input decides and what the model decides."""

    rank: int
    width: int
    positions: tuple[int, ...]


NOTHING = Extent(0, 0, ())


@dataclass
class Tree:
    """Nodes are numbered in pre-order: a node's subtree is ``[node, node + size[node])``.

    A node is a module call or a *container*: a module that groups called modules but is never called itself
    (``ModuleList``), which exists only where its calls follow one another.
    """

    structure: Structure
    call: list[int] = field(default_factory=list)
    module: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    children: list[list[int]] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    path: list[str] = field(default_factory=list)
    segment: list[str] = field(default_factory=list)
    class_name: list[str] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    extent: list[Extent] = field(default_factory=list)
    entry: list[Extent] = field(default_factory=list)
    ordinal: list[int] = field(default_factory=list)
    extents: list[Extent] = field(default_factory=list)
    """Distinct extents; ``extent_row`` and ``entry_row`` hold their places here for each node."""
    extent_row: list[int] = field(default_factory=list)
    entry_row: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.call)

    def is_leaf(self, node: int) -> bool:
        return not self.children[node]

    def leaves(self, node: int = 0) -> list[int]:
        """Leaf nodes at or below `node`, in execution order."""
        return [below for below in range(node, node + self.size[node]) if not self.children[below]]

    def contains(self, outer: int, inner: int) -> bool:
        return outer <= inner < outer + self.size[outer]

    def ancestors(self, node: int) -> list[int]:
        """The nodes around `node`, innermost first, itself excluded."""
        found = []
        node = self.parent[node]
        while node >= 0:
            found.append(node)
            node = self.parent[node]
        return found

    def chain(self, node: int) -> list[int]:
        """A node, the composite that is all it calls, and so on."""
        chain = [node]
        while self.kind[node] == "block" and len(self.children[node]) == 1 and self.children[self.children[node][0]]:
            node = self.children[node][0]
            chain.append(node)
        return chain

    def returns_same(self, first: int, second: int) -> bool:
        """Whether two calls return the same tensor (first elements of what they return)."""
        if self.call[first] < 0 or self.call[second] < 0:
            return False
        returned = self.output_tensors[self.call[first]][:1]
        return returned != () and returned == self.output_tensors[self.call[second]][:1]

    def words_between(self, node: int, scope: int) -> frozenset[str]:
        """Role words of the path segments between a scope and a node, both excluded; of the innermost ones only."""
        words: set[str] = set()
        for _ in range(_MOST_AROUND):
            node = self.parent[node]
            if node <= scope:
                break
            words |= role_words(self.segment[node])
        return frozenset(words)

    @cached_property
    def depth(self) -> list[int]:
        """How many nodes lie around each node."""
        depth = [0] * len(self)
        for node in range(1, len(self)):
            depth[node] = depth[self.parent[node]] + 1
        return depth

    @cached_property
    def declared(self) -> list[frozenset[str]]:
        """By module row, the names of the modules that it holds, called or not."""
        names = [path.rpartition(".")[2] for path in self.structure.module_paths]
        return [frozenset(names[row] for row in rows) for rows in self.structure.module_children]

    @cached_property
    def attribute_row(self) -> list[int]:
        """By module row, the place of its attributes in ``attribute_sets``; alike modules share one."""
        modules = self.structure.modules
        known: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        columns = zip(_rows(modules, "attribute_names"), _rows(modules, "attribute_values"), strict=True)
        return [known.setdefault(column, len(known)) for column in columns]

    @cached_property
    def attribute_sets(self) -> list[dict[str, str]]:
        """Distinct sets of constructor-like attributes."""
        first: dict[int, int] = {}
        for row, place in enumerate(self.attribute_row):
            first.setdefault(place, row)
        return [self.structure.attributes(row) for row in first.values()]

    @cached_property
    def attributes(self) -> list[dict[str, str]]:
        """Constructor-like attributes by module row; alike modules share one dictionary."""
        return list(map(self.attribute_sets.__getitem__, self.attribute_row))

    def attribute(self, node: int, name: str) -> str | None:
        return self.attributes[self.module[node]].get(name)

    @cached_property
    def own_parameters(self) -> list[tuple[int, ...]]:
        """Module row -> parameter rows registered on it."""
        return _rows(self.structure.modules, "parameters")

    @cached_property
    def parameter_shapes(self) -> list[tuple[int, ...]]:
        return _rows(self.structure.parameters, "shape")

    @cached_property
    def input_tensors(self) -> list[tuple[int, ...]]:
        return _rows(self.structure.module_calls, "inputs")

    @cached_property
    def output_tensors(self) -> list[tuple[int, ...]]:
        return _rows(self.structure.module_calls, "outputs")

    @cached_property
    def weight_shapes(self) -> list[tuple[int, ...]]:
        """By module row, the shape of the largest own parameter; () where there is none."""
        shapes = self.parameter_shapes
        return [
            max((shapes[row] for row in rows), key=lambda shape: (len(shape), prod(shape))) if rows else ()
            for rows in self.own_parameters
        ]

    def weight_shape(self, node: int) -> tuple[int, ...]:
        """Shape of the largest own parameter of a node's module; () when it has none."""
        return self.weight_shapes[self.module[node]]

    @cached_property
    def mass(self) -> Array:
        """Summed substance of the leaves at or below each node."""
        own = [
            SUBSTANCE[kind] if not below or kind != "block" else 0.0
            for kind, below in zip(self.kind, self.children, strict=True)
        ]
        running = np.concatenate([[0.0], np.cumsum(own)])
        places = np.arange(len(self))
        mass: Array = np.round(running[places + np.array(self.size, np.int64)] - running[places], 6)
        return mass


def _rows(table: Table, column: str) -> list[tuple[int, ...]]:
    """All lists of a list column as tuples, which Python's collector of cycles does not walk again and again."""
    values, offsets = tuple(table[column].tolist()), table.offsets(column).tolist()
    return [values[begin:end] for begin, end in pairwise(offsets)]


def build_tree(structure: Structure) -> Tree:
    """The tree of module calls of a record, containers included."""
    tree = Tree(structure)
    if structure.module_calls.rows:
        _add_nodes(tree)
        if min(tree.call) < 0:  # without containers nodes were made in pre-order
            _renumber(tree)
    parents, sizes = tree.parent, [1] * len(tree)
    for node in range(len(tree) - 1, 0, -1):
        sizes[parents[node]] += sizes[node]
    tree.size = sizes
    _describe_nodes(tree)
    return tree


def _add_nodes(tree: Tree) -> None:
    """Nodes of all calls and of the containers between them, parents before children."""
    structure = tree.structure
    modules = structure.module_calls["module"].tolist()
    ordinals = structure.module_calls["ordinal"].tolist()
    paths, classes = structure.module_paths, structure.module_classes
    registered_on = structure.modules["parent"].tolist()
    was_called = structure.modules["calls"].tolist()
    module_row = structure.module_row
    last_pieces = [path.rpartition(".")[2] for path in paths]

    def containers(prefix: str, path: str) -> tuple[str, ...]:
        """Paths of never-called modules between a caller and the module it called, outermost first."""
        if prefix and not path.startswith(prefix + "."):
            return ()
        found = []
        position = path.find(".", len(prefix) + 1 if prefix else 0)
        while position >= 0:
            row = module_row.get(path[:position])
            if row is None or was_called[row]:
                return ()
            found.append(path[:position])
            position = path.find(".", position + 1)
        return tuple(found)

    calls, rows, parents, segments, children = tree.call, tree.module, tree.parent, tree.segment, tree.children

    def add(call: int, module: int, parent: int, segment: str) -> int:
        node = len(calls)
        calls.append(call)
        rows.append(module)
        parents.append(parent)
        segments.append(segment)
        children.append([])
        if parent >= 0:
            children[parent].append(node)
        return node

    # (call, parent node, segment); an explicit list, because records of deep models must not meet Python's recursion
    # limit.
    work: list[tuple[int, int, str]] = [(0, -1, paths[modules[0]])]
    while work:
        call, parent, segment = work.pop()
        module = modules[call]
        node = add(call, module, parent, segment)
        below = structure.call_children[call]
        if not below:
            continue
        called = [modules[child] for child in below]
        if all(registered_on[row] == module for row in called):  # nothing lies between
            work += [
                (child, node, last_pieces[row]) for child, row in zip(reversed(below), reversed(called), strict=True)
            ]
            continue
        path = paths[module]
        chains = _contiguous([containers(path, paths[row]) for row in called])
        opened: dict[str, int] = {}
        queued = []
        for child, row, chain in zip(below, called, chains, strict=True):
            above, around = node, path
            for container in chain:
                if container not in opened:
                    opened[container] = add(-1, module_row[container], above, _segment(around, container))
                above, around = opened[container], container
            queued.append((child, above, _segment(around, paths[row])))
        work.extend(reversed(queued))
    tree.path = [paths[row] for row in rows]
    tree.class_name = [classes[row] for row in rows]
    tree.ordinal = [ordinals[call] if call >= 0 else 0 for call in calls]


def _segment(outer: str, path: str) -> str:
    """The part of a path below what it lies in; the last piece where it lies elsewhere (a borrowed module)."""
    if not outer:
        return path
    return path[len(outer) + 1 :] if path.startswith(outer + ".") else path.rpartition(".")[2]


def _contiguous(chains: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Drop containers whose calls do not follow one another: they would hide the order of execution."""
    runs: dict[str, int] = {}
    previous: tuple[str, ...] = ()
    for chain in chains:
        for container in chain:
            if container not in previous:
                runs[container] = runs.get(container, 0) + 1
        previous = chain
    return [tuple(container for container in chain if runs[container] == 1) for chain in chains]


def _describe_nodes(tree: Tree) -> None:
    """Kind, extent and entry of each node."""
    structure = tree.structure
    class_modules = structure.modules.column_texts("class_module")
    # Only the tensors that calls take and return are looked at: records hold many more.
    sizes, places = structure.tensors["shape"].tolist(), structure.tensors.offsets("shape").tolist()
    is_buffer = structure.parameters["is_buffer"].tolist()
    own_parameters, is_holder = tree.own_parameters, structure.module_children
    operator_kinds = _OperatorNames(structure)

    stated = [class_kind(*names) for names in zip(structure.module_classes, class_modules, strict=True)]
    has_weights = [any(not is_buffer[row] for row in rows) for rows in own_parameters]

    def kind_of(node: int) -> str:
        module = tree.module[node]
        if tree.children[node]:
            weighs = has_weights[module]
            return _own_kind(tree, node, weighs) if weighs or stated[module] in _WITH_WEIGHTS else "block"
        if stated[module] and stated[module] not in _UNSURE:
            return stated[module]
        name = tree.class_name[node]
        dimensions = [len(tree.parameter_shapes[row]) for row in own_parameters[module] if not is_buffer[row]]
        operators = partial(operator_kinds.of_call, tree.call[node])
        return leaf_kind(name, class_modules[module], operators, dimensions, bool(is_holder[module]))

    known: dict[tuple[object, ...], int] = {}
    extents = [NOTHING]
    layouts: dict[tuple[str, str], tuple[bool, str]] = {}

    def extent_of(tensors: tuple[int, ...], layout: tuple[bool, str]) -> int:
        if not tensors:
            return 0
        shape = tuple(sizes[places[tensors[0]] : places[tensors[0] + 1]])
        found = known.get((shape, layout))
        if found is None:
            found = known[shape, layout] = len(extents)
            extents.append(_extent(shape, layout))
        return found

    count = len(tree)
    kinds = tree.kind = ["block"] * count
    extent_row, entry_row = [0] * count, [0] * count
    outputs, inputs = tree.output_tensors, tree.input_tensors
    for node in range(count - 1, -1, -1):
        call = tree.call[node]
        if call < 0:
            extent_row[node] = extent_row[tree.children[node][-1]]
            entry_row[node] = entry_row[tree.children[node][0]]
            continue
        kind = kinds[node] = kind_of(node)
        key = (kind, tree.class_name[node])
        layout = layouts.get(key)
        if layout is None:
            layout = layouts[key] = _layout(*key)
        extent_row[node] = extent_of(outputs[call], layout)
        entry_row[node] = extent_of(inputs[call], layout)
    # One row for each extent, whichever layout it was read with.
    distinct: dict[Extent, int] = {}
    place = [distinct.setdefault(extent, len(distinct)) for extent in extents]
    tree.extents = list(distinct)
    tree.extent_row = [place[row] for row in extent_row]
    tree.entry_row = [place[row] for row in entry_row]
    tree.extent = [extents[row] for row in extent_row]
    tree.entry = [extents[row] for row in entry_row]


_WITH_WEIGHTS = frozenset(("linear", "convolution", "transposed_convolution", "norm"))
"""Kinds of layers that may have weights of their own and call others on the side."""

_UNSURE = frozenset(("position", "embedding"))
"""Kinds that a class may state and its parameters refute."""


class _OperatorNames:
    """Names of the operators that calls ran."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._known: dict[tuple[int, ...], list[str]] = {}

    @cached_property
    def _columns(self) -> tuple[list[int], list[int], list[int]]:
        structure = self._structure
        calls = structure.module_calls
        return (
            structure.operators["name"].tolist(),
            calls["operator_begin"].tolist(),
            calls["operator_end"].tolist(),
        )

    def of_call(self, call: int) -> list[str]:
        """Names of a call's operators; none of a call with many, which is more than one layer."""
        names, begins, ends = self._columns
        low, high = begins[call], ends[call]
        if high - low > _MOST_OPERATORS_FOR_KIND:
            return []
        key = tuple(names[low:high])
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = [self._structure.operators.text("name", row) for row in range(low, high)]
        return found


def _own_kind(tree: Tree, node: int, has_parameters: bool) -> str:
    """The kind of a composite: "block", or that of a layer which has weights of its own and calls others on the side
    (a norm that also calls its activation, a parametrised layer that computes its weight)."""
    name = tree.class_name[node]
    if not has_parameters and not name.startswith("Parametrized"):
        return "block"
    kind = class_kind(name)
    if kind not in _WITH_WEIGHTS:
        return "block"
    inside = range(node + 1, node + tree.size[node])
    return "block" if any(tree.kind[below] == kind for below in inside) else kind


def _renumber(tree: Tree) -> None:
    """Put nodes into pre-order, children in order of execution."""
    first = list(tree.call)
    for node in range(len(tree) - 1, -1, -1):
        if first[node] < 0:
            first[node] = min((first[child] for child in tree.children[node]), default=0)
    order: list[int] = []
    work = [0] if len(tree) else []
    while work:
        node = work.pop()
        order.append(node)
        work.extend(sorted(tree.children[node], key=lambda child: first[child], reverse=True))
    place = {old: new for new, old in enumerate(order)}
    for name in ("call", "module", "path", "segment", "class_name", "ordinal"):
        values = getattr(tree, name)
        setattr(tree, name, [values[old] for old in order])
    parents, tree.parent = tree.parent, []
    for old in order:
        tree.parent.append(place[parents[old]] if parents[old] >= 0 else -1)
    tree.children = [[] for _ in order]
    for node, parent in enumerate(tree.parent):
        if parent >= 0:
            tree.children[parent].append(node)


def _layout(kind: str, class_name: str) -> tuple[bool, str]:
    """Whether channels come second in [N, C, T], and where they are in images: "second", "last", or as the shape
    says."""
    convolves = kind in ("convolution", "transposed_convolution")
    second = convolves or (kind in ("norm", "pool") and "1d" in class_name.lower())
    return second, "second" if convolves or kind == "pool" else "last" if kind == "linear" else ""


def _extent(shape: tuple[int, ...], layout: tuple[bool, str]) -> Extent:
    """Split a shape [batch, ...] into width and positions.

    Channels come second in images [N, C, H, W] unless height equals width in the places where a channels-last
    image [N, H, W, C] has them; in [N, T, C] they come last unless a 1-d convolution says otherwise.
    """
    second, in_images = layout
    rank = len(shape)
    if rank == 0:
        return NOTHING
    if rank == 1:
        return Extent(1, shape[0], ())
    if rank == 2:
        return Extent(2, shape[1], ())
    if rank == 3:
        return Extent(3, shape[1], (shape[2],)) if second else Extent(3, shape[2], (shape[1],))
    if rank == 4 and (in_images == "last" or (not in_images and shape[1] == shape[2] != shape[3])):
        return Extent(4, shape[3], shape[1:3])
    return Extent(rank, shape[1], shape[2:])
