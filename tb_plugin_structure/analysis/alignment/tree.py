"""The module calls of one record as a tree of nodes in pre-order, with what alignment needs to know of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from math import prod
from typing import NamedTuple

import numpy as np

from tb_plugin_structure.analysis.alignment.kinds import SUBSTANCE, class_kind, leaf_kind
from tb_plugin_structure.analysis.alignment.roles import role_words
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.records.table import Array

_MOST_OPERATORS_FOR_KIND = 8


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

    def __len__(self) -> int:
        return len(self.call)

    def add(self, call: int, module: int, parent: int, path: str, segment: str, ordinal: int) -> int:
        """Append a node; its kind and extents are found later."""
        node = len(self.call)
        self.call.append(call)
        self.module.append(module)
        self.parent.append(parent)
        self.children.append([])
        self.size.append(1)
        self.path.append(path)
        self.segment.append(segment)
        self.class_name.append(self.structure.module_classes[module])
        self.kind.append("block")
        self.extent.append(NOTHING)
        self.entry.append(NOTHING)
        self.ordinal.append(ordinal)
        if parent >= 0:
            self.children[parent].append(node)
        return node

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
        return returned != [] and returned == self.output_tensors[self.call[second]][:1]

    def words_between(self, node: int, scope: int) -> frozenset[str]:
        """Role words of the path segments between a scope and a node, both excluded."""
        words: set[str] = set()
        node = self.parent[node]
        while node > scope:
            words |= role_words(self.segment[node])
            node = self.parent[node]
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
    def attributes(self) -> list[dict[str, str]]:
        """Constructor-like attributes by module row; alike modules share one dictionary."""
        modules = self.structure.modules
        known: dict[tuple[int, ...], dict[str, str]] = {}
        found = []
        columns = zip(modules.column_lists("attribute_names"), modules.column_lists("attribute_values"), strict=True)
        for row, (names, values) in enumerate(columns):
            key = (*names, *values)
            attributes = known.get(key)
            if attributes is None:
                attributes = known[key] = self.structure.attributes(row)
            found.append(attributes)
        return found

    def attribute(self, node: int, name: str) -> str | None:
        return self.attributes[self.module[node]].get(name)

    @cached_property
    def own_parameters(self) -> list[list[int]]:
        """Module row -> parameter rows registered on it."""
        return self.structure.modules.column_lists("parameters")

    @cached_property
    def parameter_shapes(self) -> list[tuple[int, ...]]:
        return [tuple(shape) for shape in self.structure.parameters.column_lists("shape")]

    @cached_property
    def input_tensors(self) -> list[list[int]]:
        return self.structure.module_calls.column_lists("inputs")

    @cached_property
    def output_tensors(self) -> list[list[int]]:
        return self.structure.module_calls.column_lists("outputs")

    def weight_shape(self, node: int) -> tuple[int, ...]:
        """Shape of the largest own parameter; () when it has none."""
        rows = self.own_parameters[self.module[node]]
        if not rows:
            return ()
        return max((self.parameter_shapes[row] for row in rows), key=lambda shape: (len(shape), prod(shape)))

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


def build_tree(structure: Structure) -> Tree:
    """The tree of module calls of a record, containers included."""
    tree = Tree(structure)
    calls = structure.module_calls
    if calls.rows:
        _add_nodes(tree)
        if min(tree.call) < 0:  # without containers nodes were made in pre-order
            _renumber(tree)
    parents = tree.parent
    for node in range(len(tree) - 1, 0, -1):
        tree.size[parents[node]] += tree.size[node]
    _describe_nodes(tree)
    return tree


def _add_nodes(tree: Tree) -> None:
    """Nodes of all calls and of the containers between them, parents before children."""
    structure = tree.structure
    modules = structure.module_calls["module"].tolist()
    ordinals = structure.module_calls["ordinal"].tolist()
    paths = structure.module_paths
    was_called = structure.modules["calls"].tolist()
    module_row = structure.module_row

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

    # (call, parent node, path of the innermost container or caller); an explicit list, because records of deep models
    # must not meet Python's recursion limit.
    work: list[tuple[int, int, str]] = [(0, -1, "")]
    while work:
        call, parent, outer = work.pop()
        path = paths[modules[call]]
        node = tree.add(call, modules[call], parent, path, _segment(outer, path), ordinals[call])
        below = structure.call_children[call]
        chains = _contiguous([containers(path, paths[modules[child]]) for child in below])
        opened: dict[str, int] = {}
        queued = []
        for child, chain in zip(below, chains, strict=True):
            above, around = node, path
            for container in chain:
                if container not in opened:
                    segment = _segment(around, container)
                    opened[container] = tree.add(-1, module_row[container], above, container, segment, 0)
                above, around = opened[container], container
            queued.append((child, above, around))
        work.extend(reversed(queued))


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
    calls = structure.module_calls
    class_modules = structure.modules.column_texts("class_module")
    # Only the tensors that calls take and return are looked at: records hold many more.
    sizes, places = structure.tensors["shape"].tolist(), structure.tensors.offsets("shape").tolist()

    known: dict[tuple[object, ...], Extent] = {}

    def extent_of(tensor: int, kind: str, class_name: str) -> Extent:
        shape = tuple(sizes[places[tensor] : places[tensor + 1]])
        key = (shape, kind, class_name)
        found = known.get(key)
        if found is None:
            found = known[key] = _extent(shape, kind, class_name)
        return found

    is_buffer = structure.parameters["is_buffer"].tolist()
    begins, ends = calls["operator_begin"].tolist(), calls["operator_end"].tolist()
    for node in range(len(tree) - 1, -1, -1):
        call, module = tree.call[node], tree.module[node]
        if call < 0:
            tree.extent[node] = tree.extent[tree.children[node][-1]]
            tree.entry[node] = tree.entry[tree.children[node][0]]
            continue
        if not tree.children[node]:
            low, high = begins[call], ends[call]
            tree.kind[node] = leaf_kind(
                tree.class_name[node],
                class_modules[module],
                partial(_operator_names, structure, low, high),
                [len(tree.parameter_shapes[row]) for row in tree.own_parameters[module] if not is_buffer[row]],
                bool(structure.module_children[module]),
            )
        else:
            tree.kind[node] = _own_kind(tree, node, any(not is_buffer[row] for row in tree.own_parameters[module]))
        outputs, inputs = tree.output_tensors[call], tree.input_tensors[call]
        if outputs:
            tree.extent[node] = extent_of(outputs[0], tree.kind[node], tree.class_name[node])
        if inputs:
            tree.entry[node] = extent_of(inputs[0], tree.kind[node], tree.class_name[node])


def _operator_names(structure: Structure, begin: int, end: int) -> list[str]:
    """Names of a call's operators; none of a call with many, which is more than one layer."""
    if end - begin > _MOST_OPERATORS_FOR_KIND:
        return []
    return [structure.operators.text("name", row) for row in range(begin, end)]


def _own_kind(tree: Tree, node: int, has_parameters: bool) -> str:
    """The kind of a composite: "block", or that of a layer which has weights of its own and calls others on the side
    (a norm that also calls its activation, a parametrised layer that computes its weight)."""
    name = tree.class_name[node]
    if not has_parameters and not name.startswith("Parametrized"):
        return "block"
    kind = class_kind(name)
    if kind not in ("linear", "convolution", "transposed_convolution", "norm"):
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
    for name in ("call", "module", "path", "segment", "class_name", "kind", "extent", "entry", "ordinal"):
        values = getattr(tree, name)
        setattr(tree, name, [values[old] for old in order])
    parents, tree.parent = tree.parent, []
    for old in order:
        tree.parent.append(place[parents[old]] if parents[old] >= 0 else -1)
    tree.size = [1] * len(order)
    tree.children = [[] for _ in order]
    for node, parent in enumerate(tree.parent):
        if parent >= 0:
            tree.children[parent].append(node)


def _extent(shape: tuple[int, ...], kind: str, class_name: str) -> Extent:
    """Split a shape [batch, ...] into width and positions.

    Channels come second in images [N, C, H, W] unless height equals width in the places where a channels-last
    image [N, H, W, C] has them; in [N, T, C] they come last unless a 1-d convolution says otherwise.
    """
    rank = len(shape)
    if rank == 0:
        return NOTHING
    if rank == 1:
        return Extent(1, shape[0], ())
    if rank == 2:
        return Extent(2, shape[1], ())
    if rank == 3:
        if kind in ("convolution", "transposed_convolution") or (
            kind in ("norm", "pool") and "1d" in class_name.lower()
        ):
            return Extent(3, shape[1], (shape[2],))
        return Extent(3, shape[2], (shape[1],))
    channels_last = rank == 4 and kind not in ("convolution", "transposed_convolution", "pool")
    if channels_last and (shape[1] == shape[2] != shape[3] or kind == "linear"):
        return Extent(4, shape[3], shape[1:3])
    return Extent(rank, shape[1], shape[2:])
