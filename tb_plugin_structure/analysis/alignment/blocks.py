"""Pairing the elements of two stacks: pins, then weights, then the policy in force."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from tb_plugin_structure.analysis.alignment.dataflow import DataFlow
from tb_plugin_structure.analysis.alignment.features import Features
from tb_plugin_structure.analysis.alignment.links import Outcome
from tb_plugin_structure.analysis.alignment.policies import policy_indices
from tb_plugin_structure.analysis.alignment.sequence import monotone_pairs
from tb_plugin_structure.analysis.alignment.signatures import Signatures, cosine
from tb_plugin_structure.analysis.alignment.stack_runs import ALIKE, WEIGHTED_CODES
from tb_plugin_structure.analysis.alignment.stacks import Folding, Unit
from tb_plugin_structure.analysis.alignment.tree import Tree
from tb_plugin_structure.analysis.alignment.weights import EQUAL_WEIGHTS, Sketches, correlations
from tb_plugin_structure.records.table import Array

Policy = str | Sequence[int]

Kind = Hashable

_MOST_VOTERS = 32

_PAIRED, _SAME_LAYERS = 1000.0, 10.0
"""What a pair of blocks counts, and what more when both hold the same layers: as many pairs as possible, then pairs of
one kind, then the policy's."""


@dataclass(frozen=True)
class Side:
    """One model as far as pairing blocks needs it."""

    tree: Tree
    signatures: Signatures
    folding: Folding
    features: Features
    sketches: Sketches
    flow: DataFlow

    def bag(self, node: int) -> Array:
        row: Array = self.signatures.bag[node]
        return row

    def main(self, elements: Sequence[int]) -> list[int]:
        """Positions of the elements that make a stack what it is; the rest lies between them."""
        blocks = [k for k, element in enumerate(elements) if self.folding.is_block(element)]
        if len(blocks) < 2:
            return blocks or list(range(len(elements)))
        voters = blocks[:: max(1, len(blocks) // _MOST_VOTERS)]
        votes = [
            sum(float(self.tree.mass[elements[o]]) for o in voters if self._alike(elements[k], elements[o]))
            for k in voters
        ]
        leader = elements[voters[int(np.argmax(votes))]]
        return [k for k in blocks if self._alike(elements[k], leader)]

    def layers(self, nodes: Sequence[int]) -> list[bytes]:
        """For each node what layers with weights it holds, and how many of each."""
        return [row.tobytes() for row in self.signatures.bag[nodes][:, WEIGHTED_CODES]]

    def classes(self, nodes: Sequence[int]) -> list[str]:
        """For each node the classes of all that it holds: what a block is by its author's word, however often it calls
        what it holds (experts are called for the tokens that they get)."""
        tree, known = self.tree, {}
        for node in nodes:
            number = self.signatures.shape_free[node]
            if number not in known:
                known[number] = " ".join(sorted(set(tree.class_name[node : node + tree.size[node]])))
        return [known[self.signatures.shape_free[node]] for node in nodes]

    def _alike(self, node: int, other: int) -> bool:
        if self.signatures.kinds[node] == self.signatures.kinds[other]:
            return True
        return cosine(self.bag(node), self.bag(other)) >= ALIKE


class BlockPairing:
    """Pairs the elements of stacks of one teacher and one student."""

    def __init__(self, teacher: Side, student: Side, scope: Callable[[int, int], Outcome]) -> None:
        self.teacher, self.student = teacher, student
        self._scope = scope
        self.has_weights = bool(teacher.sketches.usable.any() and student.sketches.usable.any())

    def pair(
        self,
        unit_t: Unit,
        unit_s: Unit,
        policy: Policy,
        pinned: Sequence[tuple[int, int]] = (),
        without_t: Collection[int] = (),
        without_s: Collection[int] = (),
    ) -> tuple[list[tuple[int, int]], str, bool]:
        """Pairs of positions, what decided, and whether structure leaves the choice open.

        Args:
            unit_t: The teacher's stack.
            unit_s: The student's stack.
            policy: A policy's name or a list of indices.
            pinned: Positions that pins pair.
            without_t: Positions out of the search.
            without_s: The same of the student.
        """
        main_t = [k for k in self.teacher.main(unit_t.elements) if k not in without_t]
        main_s = [k for k in self.student.main(unit_s.elements) if k not in without_s]
        where = self.student.tree.path[unit_s.node] or self.teacher.tree.path[unit_t.node] or "the stack"
        open_choice = len(main_t) != len(main_s)
        if pinned:
            chosen = _around_pins(main_t, main_s, sorted(set(pinned)), policy, where)
            decided = "pins"
        elif main_t and main_s:
            blocks_t = [unit_t.elements[k] for k in main_t]
            blocks_s = [unit_s.elements[k] for k in main_s]
            found = self._by_weights(blocks_t, blocks_s)
            if found:
                decided, open_choice = "weights", False
            else:
                found = self._by_policy(blocks_t, blocks_s, policy, where)
                decided = "equal length" if not open_choice else (policy if isinstance(policy, str) else "custom")
            chosen = [(main_t[a], main_s[b]) for a, b in found]
        else:
            chosen, decided = [], "equal length"
        if not pinned and all(a == b for a, b in chosen) and self._are_equal(unit_t, unit_s):
            return [(k, k) for k in range(len(unit_t.elements))], decided, open_choice
        chosen += self._rest(unit_t, unit_s, chosen, set(main_t), set(main_s))
        return sorted(chosen), decided, open_choice

    def _are_equal(self, unit_t: Unit, unit_s: Unit) -> bool:
        """Whether two stacks hold the same elements, position by position."""
        named_t, named_s = self.teacher.signatures.named, self.student.signatures.named
        return [named_t[element] for element in unit_t.elements] == [named_s[element] for element in unit_s.elements]

    def _by_policy(self, blocks_t: list[int], blocks_s: list[int], policy: Policy, where: str) -> list[tuple[int, int]]:
        count_t, count_s = len(blocks_t), len(blocks_s)
        longer, shorter = max(count_t, count_s), min(count_t, count_s)
        images = all(
            len(side.tree.extent[blocks[0]].positions) == 2
            for side, blocks in ((self.teacher, blocks_t), (self.student, blocks_s))
        )
        if shorter == 1 and policy == "copy" and images:
            indices = [longer - 1]  # feature maps of a stage are taken where it ends
        else:
            indices = policy_indices(policy, longer, shorter, where)
        if policy == "copy" and 1 < shorter < longer:
            sides = [(self.teacher, blocks_t), (self.student, blocks_s)]
            indices = _of_one_kind(indices, *_kinds(*(sides if count_t >= count_s else sides[::-1])))
        return [(index, k) if count_t >= count_s else (k, index) for k, index in enumerate(indices) if index >= 0]

    def _by_weights(self, blocks_t: list[int], blocks_s: list[int]) -> list[tuple[int, int]]:
        """Pairs that hold the same tensors, completed between them; [] when no tensor says so."""
        if not self.has_weights:
            return []
        matrix = self._correlations(blocks_t, blocks_s)
        sure = np.where(matrix > EQUAL_WEIGHTS, matrix, 0.0)
        if not sure.any():
            return []
        pairs = monotone_pairs(sure)
        filled: list[tuple[int, int]] = []
        last_t = last_s = -1
        for end_t, end_s in [*pairs, (len(blocks_t), len(blocks_s))]:
            gap_t, gap_s = end_t - last_t - 1, end_s - last_s - 1
            if gap_t > 0 and gap_s > 0:
                for k, index in enumerate(policy_indices("copy", max(gap_t, gap_s), min(gap_t, gap_s))):
                    a, b = (index, k) if gap_t >= gap_s else (k, index)
                    filled.append((last_t + 1 + a, last_s + 1 + b))
            if end_t < len(blocks_t):
                filled.append((end_t, end_s))
            last_t, last_s = end_t, end_s
        return filled

    def _correlations(self, blocks_t: list[int], blocks_s: list[int]) -> Array:
        """Mean correlation of the tensors of paired leaves, for every pair of blocks; 0 where nothing compares."""
        sums = np.zeros((len(blocks_t), len(blocks_s)))
        counts = np.zeros_like(sums)
        alike_t = _by_signature(self.teacher, blocks_t)
        alike_s = _by_signature(self.student, blocks_s)
        for places_t in alike_t:
            for places_s in alike_s:
                first_t, first_s = blocks_t[places_t[0]], blocks_s[places_s[0]]
                composite = self.teacher.tree.children[first_t] and self.student.tree.children[first_s]
                pairs = (
                    [(link.teacher, link.student) for link in self._scope(first_t, first_s).links] if composite else []
                )
                for offset_t, offset_s in dict.fromkeys([*pairs, (0, 0)]):
                    rows_t = _parameter_rows(self.teacher.tree, [blocks_t[k] + offset_t for k in places_t])
                    rows_s = _parameter_rows(self.student.tree, [blocks_s[k] + offset_s for k in places_s])
                    for column in range(min(rows_t.shape[1], rows_s.shape[1])):
                        found = correlations(
                            self.teacher.sketches, self.student.sketches, rows_t[:, column], rows_s[:, column]
                        )
                        known = ~np.isnan(found)
                        place = np.ix_(places_t, places_s)
                        sums[place] += np.where(known, found, 0.0)
                        counts[place] += known
        result: Array = sums / np.maximum(counts, 1)
        return result

    def _rest(
        self, unit_t: Unit, unit_s: Unit, chosen: list[tuple[int, int]], main_t: set[int], main_s: set[int]
    ) -> list[tuple[int, int]]:
        """Elements between the blocks, paired within the gaps that the blocks' pairs leave."""
        rest_t = [k for k in range(len(unit_t.elements)) if k not in main_t]
        rest_s = [k for k in range(len(unit_s.elements)) if k not in main_s]
        if not rest_t or not rest_s:
            return []
        found: list[tuple[int, int]] = []
        last_t = last_s = -1
        for end_t, end_s in [*sorted(chosen), (len(unit_t.elements), len(unit_s.elements))]:
            gap_t = [k for k in rest_t if last_t < k < end_t]
            gap_s = [k for k in rest_s if last_s < k < end_s]
            if gap_t and gap_s:
                bags_s = [self.student.bag(unit_s.elements[b]) for b in gap_s]
                alike = np.array([[cosine(self.teacher.bag(unit_t.elements[a]), bag) for bag in bags_s] for a in gap_t])
                found += [(gap_t[a], gap_s[b]) for a, b in monotone_pairs(np.where(alike >= ALIKE, alike, 0.0))]
            last_t, last_s = end_t, end_s
        return found


def _kinds(longer: tuple[Side, list[int]], shorter: tuple[Side, list[int]]) -> tuple[list[Kind], list[Kind]]:
    """What tells the blocks of a stack that mixes several kinds apart: their layers, and their classes where both
    models have the same."""
    layers, classes = (
        [side.layers(blocks) for side, blocks in (longer, shorter)],
        [side.classes(blocks) for side, blocks in (longer, shorter)],
    )
    if set(classes[0]) != set(classes[1]):
        return list(layers[0]), list(layers[1])
    both = [list(zip(*pair, strict=True)) for pair in zip(layers, classes, strict=True)]
    if set(both[1]) <= set(both[0]):
        return list(both[0]), list(both[1])
    return list(classes[0]), list(classes[1])


def _of_one_kind(indices: list[int], longer: list[Kind], shorter: list[Kind]) -> list[int]:
    """The indices of a policy, moved to the nearest block that holds the same layers where a stack mixes several kinds
    of blocks: local and global attention in turn, a dense and a sparse network in turn."""
    if len(set(longer)) == 1 or not set(shorter) <= set(longer) or min(indices) < 0:
        return indices
    same = np.array([[kind == other for other in shorter] for kind in longer])
    distance = np.abs(np.arange(len(longer))[:, None] - np.array(indices)[None, :]) / len(longer)
    moved = {k: index for index, k in monotone_pairs(_PAIRED + _SAME_LAYERS * same - distance)}
    return [moved[k] for k in range(len(shorter))]


def _around_pins(
    main_t: list[int], main_s: list[int], pinned: list[tuple[int, int]], policy: Policy, where: str
) -> list[tuple[int, int]]:
    """Pinned pairs of elements, and the policy between them."""
    chain = [pair for pair in pinned if all((pair[0] - a) * (pair[1] - b) > 0 for a, b in pinned if (a, b) != pair)]
    chosen = list(pinned)
    used_t, used_s = {a for a, _ in pinned}, {b for _, b in pinned}
    between = policy if isinstance(policy, str) else "copy"
    last_t = last_s = -1
    for end_t, end_s in [*chain, (1 << 60, 1 << 60)]:
        gap_t = [k for k in main_t if last_t < k < end_t and k not in used_t]
        gap_s = [k for k in main_s if last_s < k < end_s and k not in used_s]
        if gap_t and gap_s:
            longer, shorter = max(len(gap_t), len(gap_s)), min(len(gap_t), len(gap_s))
            for k, index in enumerate(policy_indices(between, longer, shorter, where)):
                if index >= 0:
                    a, b = (index, k) if len(gap_t) >= len(gap_s) else (k, index)
                    chosen.append((gap_t[a], gap_s[b]))
        last_t, last_s = end_t, end_s
    return chosen


def _by_signature(side: Side, blocks: list[int]) -> list[list[int]]:
    """Positions of blocks, grouped by equal subtrees."""
    groups: dict[int, list[int]] = {}
    for place, block in enumerate(blocks):
        groups.setdefault(side.signatures.named[block], []).append(place)
    return list(groups.values())


def _parameter_rows(tree: Tree, nodes: list[int]) -> Array:
    """Parameter rows registered on each node's module, [nodes, parameters]; alike nodes have alike parameters."""
    rows = [tree.own_parameters[tree.module[node]] for node in nodes]
    width = min(len(row) for row in rows)
    return np.array([row[:width] for row in rows], np.int64).reshape(len(nodes), width)
