"""Top-down matching of two trees: scopes, stacks inside them, blocks inside those."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tb_plugin_structure.analysis.alignment.evidence import UNLIKE, Side, describe, scores
from tb_plugin_structure.analysis.alignment.fusing import fuse
from tb_plugin_structure.analysis.alignment.policies import policy_indices
from tb_plugin_structure.analysis.alignment.sequence import monotone_pairs
from tb_plugin_structure.analysis.alignment.signatures import Interner, cosine, sign
from tb_plugin_structure.analysis.alignment.stacks import ALIKE, Folding, Unit
from tb_plugin_structure.analysis.alignment.stages import StagePairs, anchor_stages
from tb_plugin_structure.analysis.alignment.tree import Tree
from tb_plugin_structure.analysis.alignment.weights import EQUAL_WEIGHTS, Sketches, correlation, correlations
from tb_plugin_structure.records.table import Array


@dataclass(frozen=True)
class Link:
    """A teacher node and a student node that correspond.

    score: fit in the units of evidence, 1 for a leaf of full evidence; what confidence is computed from.
    how: what made the pair: "sequence", "policy", "weights", "pin", "stage", "fused", "moved", "nesting".
    """

    teacher: int
    student: int
    score: float
    how: str
    group: int = -1
    stack: int = -1
    rival: float = 0.0


@dataclass
class StackMatch:
    """Two stacks and the pairing of their elements."""

    teacher: Unit
    student: Unit
    policy: str
    pairs: list[tuple[int, int]]
    interchangeable: bool


@dataclass
class Outcome:
    """Links and stacks of a scope; nodes are offsets from the scope's nodes."""

    links: list[Link] = field(default_factory=list)
    stacks: list[StackMatch] = field(default_factory=list)
    groups: int = 0


@dataclass
class Held:
    """What the pins inside one scope fix."""

    fixed: list[tuple[int, int]] = field(default_factory=list)
    elements: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)
    direct: list[tuple[int, int]] = field(default_factory=list)
    used_t: set[int] = field(default_factory=set)
    used_s: set[int] = field(default_factory=set)
    without_t: dict[int, set[int]] = field(default_factory=dict)
    without_s: dict[int, set[int]] = field(default_factory=dict)

    def drop(self, i: int, a: int, j: int, b: int) -> None:
        """Take units (or, where a or b is a position in a stack, single elements) out of the search."""
        if a >= 0:
            self.without_t.setdefault(i, set()).add(a)
        else:
            self.used_t.add(i)
        if b >= 0:
            self.without_s.setdefault(j, set()).add(b)
        else:
            self.used_s.add(j)


@dataclass
class Search:
    """The units of one scope and how they were paired."""

    side_t: Side
    side_s: Side
    matrix: Array
    members_t: dict[int, list[int]]
    members_s: dict[int, list[int]]
    held: Held
    pairs: list[tuple[int, int]]
    stage_only: StagePairs

    def lone(self) -> tuple[set[int], set[int]]:
        """Blocks that were kept whole though nothing on the other side is like them."""
        used_t = {i for i, _ in self.pairs} | {i for i, _, _ in self.stage_only}
        used_s = {j for _, j in self.pairs} | {j for _, j, _ in self.stage_only}
        return (
            {unit.first for i, unit in enumerate(self.side_t.units) if len(unit.elements) == 1 and i not in used_t},
            {unit.first for j, unit in enumerate(self.side_s.units) if len(unit.elements) == 1 and j not in used_s},
        )

    def total(self) -> float:
        return float(sum(self.matrix[i, j] for i, j in self.pairs)) + 4.0 * len(self.stage_only)


def _place(tree: Tree, units: Sequence[Unit], node: int) -> tuple[int, int]:
    """The unit that a node is or lies in, and the element of a stack it lies in; -1 for none."""
    for index, unit in enumerate(units):
        if not unit.is_stack and unit.node == node:
            return index, -1
        for position, element in enumerate(unit.elements):
            if tree.contains(element, node):
                return index, position
    return -1, -1


def _compatible(sure: list[tuple[int, int]], proposed: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """`sure` and those of `proposed` that neither cross nor share a unit with them."""
    return sorted([*sure, *(pair for pair in proposed if all((pair[0] - i) * (pair[1] - j) > 0 for i, j in sure))])


class Matcher:
    """Matches one teacher tree with one student tree."""

    def __init__(
        self,
        teacher: Tree,
        student: Tree,
        policy: str | Mapping[str, str | Sequence[int]] = "copy",
        pins: Sequence[tuple[int, int]] = (),
        alone: Collection[int] = (),
    ) -> None:
        self.teacher, self.student = teacher, student
        intern = Interner()
        self.sign_t, self.sign_s = sign(teacher, intern), sign(student, intern)
        self.fold_t, self.fold_s = Folding(teacher, self.sign_t), Folding(student, self.sign_s)
        self.fold_t.learn_from(self.fold_s)
        self.fold_s.learn_from(self.fold_t)
        self.sketch_t, self.sketch_s = Sketches(teacher), Sketches(student)
        self.has_weights = bool(self.sketch_t.usable.any() and self.sketch_s.usable.any())
        self.policy = policy
        self.pins, self.alone = list(pins), set(alone)
        self._named_t = sorted({node for node, _ in pins})
        self._named_s = sorted({node for _, node in pins} | self.alone)
        self._memo: dict[tuple[int, int], Outcome] = {}

    def run(self) -> Outcome:
        """Match the two models from their cores (wrappers stripped) down."""
        chain_t, chain_s = self.wrappers(self.teacher), self.wrappers(self.student)
        root_t, root_s = chain_t[-1], chain_s[-1]
        outcome = self._shifted(self.scope(root_t, root_s, top=True), root_t, root_s, 0, 0)
        links = [Link(root_t, root_s, 1.0, "root")]
        around_t, around_s = chain_t[-2::-1], chain_s[-2::-1]
        for place in range(max(len(around_t), len(around_s))):
            node_t = around_t[place] if place < len(around_t) else (around_t[-1] if around_t else root_t)
            node_s = around_s[place] if place < len(around_s) else (around_s[-1] if around_s else root_s)
            links.append(Link(node_t, node_s, 1.0, "wrapper"))
        outcome.links[:0] = links
        return outcome

    @staticmethod
    def wrappers(tree: Tree) -> list[int]:
        """The model and the chain of modules inside it that are all it calls; the last one is the core."""
        return Matcher.chain(tree, 0)

    @staticmethod
    def chain(tree: Tree, node: int) -> list[int]:
        """A node, the composite that is all it calls, and so on."""
        chain = [node]
        while len(tree.children[chain[-1]]) == 1 and tree.children[tree.children[chain[-1]][0]]:
            chain.append(tree.children[chain[-1]][0])
        return chain

    def _pinned_inside(self, named: list[int], node: int, size: int) -> bool:
        place = bisect_left(named, node)
        return place < len(named) and named[place] < node + size

    @staticmethod
    def _shifted(outcome: Outcome, teacher: int, student: int, group: int, stack: int) -> Outcome:
        def unit(unit: Unit, base: int) -> Unit:
            return Unit(unit.node + base, tuple(element + base for element in unit.elements))

        return Outcome(
            [
                Link(
                    link.teacher + teacher,
                    link.student + student,
                    link.score,
                    link.how,
                    link.group + group if link.group >= 0 else -1,
                    link.stack + stack if link.stack >= 0 else -1,
                    link.rival,
                )
                for link in outcome.links
            ],
            [
                StackMatch(
                    unit(found.teacher, teacher),
                    unit(found.student, student),
                    found.policy,
                    found.pairs,
                    found.interchangeable,
                )
                for found in outcome.stacks
            ],
            outcome.groups,
        )

    # ---- a scope

    def scope(self, node_t: int, node_s: int, top: bool = False) -> Outcome:
        """Match what lies below two nodes; the result holds offsets and is reused for equal pairs of subtrees."""
        pinned = self._pinned_inside(self._named_t, node_t, self.teacher.size[node_t]) or self._pinned_inside(
            self._named_s, node_s, self.student.size[node_s]
        )
        key = (self.sign_t.named[node_t], self.sign_s.named[node_s])
        known = None if pinned else self._memo.get(key)
        if known is not None:
            return known
        found = self._search(node_t, node_s, top, pinned)
        lone_t, lone_s = found.lone()
        if top and not pinned and (lone_t or lone_s):
            again = self._search(node_t, node_s, top, pinned, lone_t, lone_s)
            found = again if again.total() > found.total() else found
        outcome = self._outcome(node_t, node_s, found)
        if not pinned:
            self._memo[key] = outcome
        return outcome

    def _search(
        self, node_t: int, node_s: int, top: bool, pinned: bool,
        opened_t: Collection[int] = (), opened_s: Collection[int] = (),
    ) -> Search:  # fmt: skip
        """Pairs of units of one scope."""
        units_t, units_s = self._units(node_t, node_s, top, opened_t, opened_s)
        members_t: dict[int, list[int]] = {}
        members_s: dict[int, list[int]] = {}
        if not pinned:
            units_t, units_s, members_t, members_s = fuse(self.teacher, self.student, units_t, units_s)
        codes: dict[object, int] = {}
        side_t = describe(self.teacher, self.sign_t, node_t, units_t, codes)
        side_s = describe(self.student, self.sign_s, node_s, units_s, codes)
        matrix = scores(side_t, side_s, small_scope=not top)
        if self.has_weights:
            self._add_weights(side_t, side_s, matrix)
        held = self._hold_pins(node_t, node_s, units_t, units_s, matrix) if pinned else Held()
        fixed, stage_only = anchor_stages(side_t, side_s, matrix)
        fixed = _compatible(held.fixed, fixed)
        for i, j, _ in stage_only:
            matrix[i, :] = matrix[:, j] = 0.0
        return Search(side_t, side_s, matrix, members_t, members_s, held, self._between(matrix, fixed), stage_only)

    def _outcome(self, node_t: int, node_s: int, found: Search) -> Outcome:
        """Links of the pairs of units and of everything inside them."""
        outcome = Outcome()
        held = found.held
        linked_t = {i for i, _ in found.pairs} | held.used_t
        linked_s = {j for _, j in found.pairs} | held.used_s
        for i, j in found.pairs:
            self._link_units(outcome, node_t, node_s, found, i, j)
        for pin_t, pin_s in held.direct:
            outcome.links.append(Link(pin_t - node_t, pin_s - node_s, 1.0, "pin"))
            self._inside(outcome, node_t, node_s, pin_t, pin_s)
        for i, j, stage_pairs in found.stage_only:
            linked_t.add(i)
            linked_s.add(j)
            for element_t, element_s in stage_pairs:
                outcome.links.append(Link(element_t - node_t, element_s - node_s, 0.5, "stage"))
        self._moved(outcome, node_t, node_s, found, linked_t, linked_s)
        return outcome

    def _units(
        self, node_t: int, node_s: int, top: bool, opened_t: Collection[int], opened_s: Collection[int]
    ) -> tuple[list[Unit], list[Unit]]:
        closed_t, closed_s = set(self._named_t), set(self._named_s)
        units_t = self.fold_t.units(node_t, None, closed_t)
        units_s = self.fold_s.units(node_s, None, closed_s)
        if not top:
            return units_t, units_s
        bags_t, bags_s = self.fold_t.bags(units_t), self.fold_s.bags(units_s)
        return (
            self.fold_t.units(node_t, bags_s, closed_t, opened_t),
            self.fold_s.units(node_s, bags_t, closed_s, opened_s),
        )

    def _inside(self, outcome: Outcome, node_t: int, node_s: int, inner_t: int, inner_s: int) -> None:
        """Match inside a pair of composites and add it, when they are alike enough for that."""
        if not (self.teacher.children[inner_t] and self.student.children[inner_s]):
            return
        if cosine(self.sign_t.bag[inner_t], self.sign_s.bag[inner_s]) >= UNLIKE:
            self._merge(outcome, self.scope(inner_t, inner_s), inner_t - node_t, inner_s - node_s)

    def _hold_pins(self, node_t: int, node_s: int, units_t: list[Unit], units_s: list[Unit], matrix: Array) -> Held:
        """What the pins inside a scope fix; scores are cleared where a pin forbids a pair."""
        held = Held()
        wanted: list[tuple[int, int]] = []
        for pin_t, pin_s in self.pins:
            if not (self.teacher.contains(node_t, pin_t) and self.student.contains(node_s, pin_s)):
                continue
            i, a = _place(self.teacher, units_t, pin_t)
            j, b = _place(self.student, units_s, pin_s)
            if i < 0 or j < 0:
                continue
            if a >= 0 and b >= 0:
                held.elements.setdefault((i, j), []).append((a, b))
                wanted.append((i, j))
            elif a < 0 and b < 0:
                wanted.append((i, j))
            else:
                held.direct.append((pin_t, pin_s))
                held.drop(i, a, j, b)
        taken_t: set[int] = set()
        taken_s: set[int] = set()
        chain: list[tuple[int, int]] = []
        for i, j in dict.fromkeys(wanted):
            clash = i in taken_t or j in taken_s or any((i - p) * (j - q) < 0 for p, q in chain)
            if clash and not (units_t[i].is_stack and units_s[j].is_stack):
                held.direct.append((units_t[i].node, units_s[j].node))
                held.drop(i, -1, j, -1)
                continue
            if clash:
                for a, b in held.elements.get((i, j), []):
                    held.direct.append((units_t[i].elements[a], units_s[j].elements[b]))
                    held.drop(i, a, j, b)
                continue
            taken_t.add(i)
            taken_s.add(j)
            chain.append((i, j))
        held.fixed = sorted(chain)
        for place, unit in enumerate(units_t):
            if not unit.is_stack and self._pinned_inside(self._named_t, unit.node, 1):
                matrix[place, :] = 0.0
        for place, unit in enumerate(units_s):
            if not unit.is_stack and self._pinned_inside(self._named_s, unit.node, 1):
                matrix[:, place] = 0.0
            for b, element in enumerate(unit.elements):
                if element in self.alone:
                    held.without_s.setdefault(place, set()).add(b)
        for i, j in held.fixed:
            matrix[i, :] = matrix[:, j] = 0.0
            matrix[i, j] = 1.0
        return held

    def _between(self, matrix: Array, fixed: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Monotone pairs that keep to fixed ones."""
        pairs: list[tuple[int, int]] = []
        last_i = last_j = -1
        for i, j in [*sorted(fixed), (matrix.shape[0], matrix.shape[1])]:
            if i > last_i + 1 and j > last_j + 1:
                piece = matrix[last_i + 1 : i, last_j + 1 : j]
                pairs += [(last_i + 1 + a, last_j + 1 + b) for a, b in monotone_pairs(piece)]
            if i < matrix.shape[0]:
                pairs.append((i, j))
            last_i, last_j = i, j
        return pairs

    def _add_weights(self, side_t: Side, side_s: Side, matrix: Array) -> None:
        """Raise the score of leaves that hold samples of the same tensors."""
        own_t, own_s = self.teacher.own_parameters, self.student.own_parameters
        for i, j in np.argwhere(matrix > 0).tolist():
            if side_t.is_stack[i] or side_s.is_stack[j]:
                continue
            rows_t = own_t[self.teacher.module[side_t.units[i].node]]
            rows_s = own_s[self.student.module[side_s.units[j].node]]
            if rows_t and rows_s:
                found = correlation(self.sketch_t, self.sketch_s, rows_t, rows_s)
                if found > EQUAL_WEIGHTS:
                    matrix[i, j] += 2.0

    def _link_units(self, outcome: Outcome, node_t: int, node_s: int, found: Search, i: int, j: int) -> None:
        side_t, side_s, matrix, held = found.side_t, found.side_s, found.matrix, found.held
        members_t, members_s = found.members_t, found.members_s
        unit_t, unit_s = side_t.units[i], side_s.units[j]
        if unit_t.is_stack and unit_s.is_stack:
            without = held.without_t.get(i, set()), held.without_s.get(j, set())
            self._stack(outcome, node_t, node_s, unit_t, unit_s, held.elements.get((i, j), []), *without)
            return
        if (unit_t.node, unit_s.node) in self.pins:
            outcome.links.append(Link(unit_t.node - node_t, unit_s.node - node_s, 1.0, "pin"))
            self._inside(outcome, node_t, node_s, unit_t.node, unit_s.node)
            return
        score = float(matrix[i, j]) / max(min(side_t.substance[i], side_s.substance[j]), 0.05)
        rival = _rival(matrix, i, j) / max(min(side_t.substance[i], side_s.substance[j]), 0.05)
        group_t = members_t.get(unit_t.node, [unit_t.node])
        group_s = members_s.get(unit_s.node, [unit_s.node])
        group = -1
        if len(group_t) > 1 or len(group_s) > 1:
            group = outcome.groups
            outcome.groups += 1
        for leaf_t in group_t:
            for leaf_s in group_s:
                how = "fused" if group >= 0 else "sequence"
                outcome.links.append(Link(leaf_t - node_t, leaf_s - node_s, score, how, group, -1, rival))

    def _moved(
        self, outcome: Outcome, node_t: int, node_s: int, found: Search, linked_t: set[int], linked_s: set[int]
    ) -> None:
        """Pair leftovers across the order, where the evidence is strong."""
        side_t, side_s, matrix = found.side_t, found.side_s, found.matrix
        candidates = []
        for i in range(matrix.shape[0]):
            if i in linked_t:
                continue
            for j in range(matrix.shape[1]):
                if j in linked_s:
                    continue
                substance = max(min(side_t.substance[i], side_s.substance[j]), 0.05)
                score = float(matrix[i, j]) / substance
                if score > 0.5 and (substance > 0.3 or score > 0.8):
                    candidates.append((-score, i, j))
        for _, i, j in sorted(candidates):
            if i in linked_t or j in linked_s:
                continue
            linked_t.add(i)
            linked_s.add(j)
            before = len(outcome.links)
            self._link_units(outcome, node_t, node_s, found, i, j)
            for place in range(before, len(outcome.links)):
                link = outcome.links[place]
                if link.how == "sequence":
                    outcome.links[place] = Link(
                        link.teacher, link.student, link.score, "moved", link.group, link.stack, link.rival
                    )

    # ---- stacks

    def _policy_of(self, stack_t: Unit, stack_s: Unit) -> str | Sequence[int]:
        if isinstance(self.policy, str):
            return self.policy
        for path in (self.student.path[stack_s.node], self.teacher.path[stack_t.node], "*", ""):
            if path in self.policy:
                return self.policy[path]
        return "copy"

    def _stack(
        self, outcome: Outcome, node_t: int, node_s: int, unit_t: Unit, unit_s: Unit,
        pinned: Sequence[tuple[int, int]] = (), without_t: Collection[int] = (), without_s: Collection[int] = (),
    ) -> None:  # fmt: skip
        """Pair the elements of two stacks and match inside each pair."""
        elements_t, elements_s = unit_t.elements, unit_s.elements
        main_t, main_s = self._main(unit_t, unit_s)
        main_t = [k for k in main_t if k not in without_t]
        main_s = [k for k in main_s if k not in without_s]
        number = len(outcome.stacks)
        name = self._policy_of(unit_t, unit_s)
        where = self.student.path[unit_s.node] or self.teacher.path[unit_t.node] or "the stack"
        how = ""
        chosen: list[tuple[int, int]] = []
        if pinned:
            how, chosen = "pins", self._around_pins(main_t, main_s, sorted(set(pinned)), name, where)
        elif main_t and main_s:
            pairs, how = self._pair_blocks(
                [elements_t[k] for k in main_t], [elements_s[k] for k in main_s], name, where
            )
            chosen = [(main_t[a], main_s[b]) for a, b in pairs]
        chosen += self._rest(unit_t, unit_s, chosen, set(main_t), set(main_s))
        chosen.sort()
        policy = how if how else (name if isinstance(name, str) else "custom")
        interchangeable = how in ("", "pins") and len(main_t) != len(main_s)
        if how == "" and len(main_t) == len(main_s):
            policy = "equal length"
        outcome.stacks.append(
            StackMatch(
                Unit(unit_t.node - node_t, tuple(e - node_t for e in elements_t)),
                Unit(unit_s.node - node_s, tuple(e - node_s for e in elements_s)),
                policy, chosen, interchangeable,
            )
        )  # fmt: skip
        for a, b in chosen:
            block_t, block_s = elements_t[a], elements_s[b]
            alike = cosine(self.sign_t.bag[block_t], self.sign_s.bag[block_s])
            told = "pin" if (block_t, block_s) in self.pins else ("weights" if how == "weights" else "policy")
            outcome.links.append(Link(block_t - node_t, block_s - node_s, alike, told, -1, number))
            inner_t, inner_s = self._through(outcome, node_t, node_s, block_t, block_s)
            self._inside(outcome, node_t, node_s, inner_t, inner_s)
        self._whole_container(outcome, node_t, node_s, unit_t, unit_s)

    def _through(self, outcome: Outcome, node_t: int, node_s: int, block_t: int, block_s: int) -> tuple[int, int]:
        """Go into modules that only call one other composite, which is the same block once more."""
        chain_t, chain_s = self.chain(self.teacher, block_t), self.chain(self.student, block_s)
        for place in range(1, max(len(chain_t), len(chain_s))):
            inner_t = chain_t[min(place, len(chain_t) - 1)]
            inner_s = chain_s[min(place, len(chain_s) - 1)]
            deeper_t, deeper_s = place < len(chain_t), place < len(chain_s)
            same = (not deeper_t or self.teacher.returns_same(block_t, inner_t)) and (
                not deeper_s or self.student.returns_same(block_s, inner_s)
            )
            if same or (deeper_t and deeper_s):
                outcome.links.append(Link(inner_t - node_t, inner_s - node_s, 1.0, "nesting"))
        return chain_t[-1], chain_s[-1]

    @staticmethod
    def _around_pins(
        main_t: list[int], main_s: list[int], pinned: list[tuple[int, int]], policy: str | Sequence[int], where: str
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

    def _merge(self, outcome: Outcome, inner: Outcome, offset_t: int, offset_s: int) -> None:
        shifted = self._shifted(inner, offset_t, offset_s, outcome.groups, len(outcome.stacks))
        outcome.links += shifted.links
        outcome.stacks += shifted.stacks
        outcome.groups += inner.groups

    def _whole_container(self, outcome: Outcome, node_t: int, node_s: int, unit_t: Unit, unit_s: Unit) -> None:
        """The modules that hold nothing but the stacks correspond too."""
        top_t = self._holder(self.teacher, unit_t, node_t)
        top_s = self._holder(self.student, unit_s, node_s)
        for holder_t, holder_s in zip(top_t, top_s, strict=False):
            outcome.links.append(Link(holder_t - node_t, holder_s - node_s, 1.0, "nesting"))

    @staticmethod
    def _holder(tree: Tree, unit: Unit, scope: int) -> list[int]:
        """Called modules around a stack that hold nothing else, innermost first."""
        node = unit.node
        if len(tree.children[node]) != len(unit.elements):
            return []
        found = []
        while node > scope:
            if tree.call[node] >= 0:
                found.append(node)
            parent = tree.parent[node]
            if parent < 0 or len(tree.children[parent]) != 1:
                break
            node = parent
        return found

    def _main(self, unit_t: Unit, unit_s: Unit) -> tuple[list[int], list[int]]:
        """Positions of the elements that make the stack what it is; the rest lies between them."""

        def main(tree: Tree, fold: Folding, elements: tuple[int, ...], bags: Array) -> list[int]:
            blocks = [k for k, element in enumerate(elements) if fold.is_block(element)]
            if len(blocks) < 2:
                return blocks or list(range(len(elements)))
            votes = [
                sum(
                    float(tree.mass[elements[o]])
                    for o in blocks
                    if cosine(bags[elements[k]], bags[elements[o]]) >= ALIKE
                )
                for k in (blocks if len(blocks) <= 64 else blocks[:: len(blocks) // 32])
            ]
            sampled = blocks if len(blocks) <= 64 else blocks[:: len(blocks) // 32]
            leader = sampled[int(np.argmax(votes))]
            return [k for k in blocks if cosine(bags[elements[k]], bags[elements[leader]]) >= ALIKE]

        return (
            main(self.teacher, self.fold_t, unit_t.elements, self.sign_t.bag),
            main(self.student, self.fold_s, unit_s.elements, self.sign_s.bag),
        )

    def _pair_blocks(
        self, blocks_t: list[int], blocks_s: list[int], policy: str | Sequence[int], where: str
    ) -> tuple[list[tuple[int, int]], str]:
        """Positions paired, and what decided: "weights", or "" for the policy."""
        count_t, count_s = len(blocks_t), len(blocks_s)
        if count_t != count_s or count_t > 1:
            found = self._by_weights(blocks_t, blocks_s)
            if found:
                return found, "weights"
        student_longer = count_s > count_t
        longer, shorter = max(count_t, count_s), min(count_t, count_s)
        if shorter == 1 and policy == "copy" and len(self.student.extent[blocks_s[0]].positions) == 2:
            indices = [longer - 1]  # feature maps of a stage are taken where it ends
        else:
            indices = policy_indices(policy, longer, shorter, where)
        pairs = [(index, k) for k, index in enumerate(indices) if index >= 0]
        return ([(k, index) for index, k in pairs] if student_longer else pairs), ""

    def _by_weights(self, blocks_t: list[int], blocks_s: list[int]) -> list[tuple[int, int]]:
        """Pairs that hold the same tensors, completed between them; [] when no tensor says so."""
        if not self.has_weights:
            return []
        matrix = self._block_correlations(blocks_t, blocks_s)
        if matrix is None:
            return []
        sure = np.where(np.nan_to_num(matrix, nan=0.0) > EQUAL_WEIGHTS, matrix, 0.0)
        if not sure.any():
            return []
        pairs = monotone_pairs(sure)
        if len(blocks_t) == len(blocks_s) == len(pairs):
            return pairs
        filled: list[tuple[int, int]] = []
        last_t = last_s = -1
        for end_t, end_s in [*pairs, (len(blocks_t), len(blocks_s))]:
            gap_t, gap_s = end_t - last_t - 1, end_s - last_s - 1
            if gap_t > 0 and gap_s > 0:
                indices = policy_indices("copy", max(gap_t, gap_s), min(gap_t, gap_s))
                for k, index in enumerate(indices):
                    a, b = (index, k) if gap_t >= gap_s else (k, index)
                    filled.append((last_t + 1 + a, last_s + 1 + b))
            if end_t < len(blocks_t):
                filled.append((end_t, end_s))
            last_t, last_s = end_t, end_s
        return filled

    def _block_correlations(self, blocks_t: list[int], blocks_s: list[int]) -> Array | None:
        """Mean correlation of the tensors of paired leaves, for every pair of blocks."""
        sums = np.zeros((len(blocks_t), len(blocks_s)))
        counts = np.zeros_like(sums)
        own_t, own_s = self.teacher.own_parameters, self.student.own_parameters
        columns: dict[tuple[int, int], None] = {}
        inner = (
            self.scope(blocks_t[-1], blocks_s[-1])
            if self.teacher.children[blocks_t[-1]] and self.student.children[blocks_s[-1]]
            else None
        )
        offsets = [(link.teacher, link.student) for link in inner.links] if inner else [(0, 0)]
        for offset_t, offset_s in offsets:
            columns[(offset_t, offset_s)] = None
        for offset_t, offset_s in columns:
            rows_t = [self._rows(self.teacher, own_t, block, offset_t) for block in blocks_t]
            rows_s = [self._rows(self.student, own_s, block, offset_s) for block in blocks_s]
            width = min(max((len(r) for r in rows_t), default=0), max((len(r) for r in rows_s), default=0))
            for k in range(width):
                with_t = [i for i, r in enumerate(rows_t) if len(r) > k]
                with_s = [j for j, r in enumerate(rows_s) if len(r) > k]
                if not with_t or not with_s:
                    continue
                found = correlations(
                    self.sketch_t, self.sketch_s,
                    np.array([rows_t[i][k] for i in with_t]), np.array([rows_s[j][k] for j in with_s]),
                )  # fmt: skip
                known = ~np.isnan(found)
                place = np.ix_(with_t, with_s)
                sums[place] += np.where(known, found, 0.0)
                counts[place] += known
        if not counts.any():
            return None
        result: Array = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        return result

    @staticmethod
    def _rows(tree: Tree, own: list[list[int]], block: int, offset: int) -> list[int]:
        node = block + offset
        if offset >= tree.size[block] or tree.children[node]:
            return []
        return own[tree.module[node]]

    def _rest(
        self, unit_t: Unit, unit_s: Unit, chosen: list[tuple[int, int]], main_t: set[int], main_s: set[int]
    ) -> list[tuple[int, int]]:
        """Elements between the blocks, paired within the gaps that the blocks' pairs leave."""
        rest_t = [k for k in range(len(unit_t.elements)) if k not in main_t]
        rest_s = [k for k in range(len(unit_s.elements)) if k not in main_s]
        if not rest_t or not rest_s:
            return []
        found: list[tuple[int, int]] = []
        barriers = [*sorted(chosen), (len(unit_t.elements), len(unit_s.elements))]
        last_t = last_s = -1
        for end_t, end_s in barriers:
            gap_t = [k for k in rest_t if last_t < k < end_t]
            gap_s = [k for k in rest_s if last_s < k < end_s]
            if gap_t and gap_s:
                alike = np.array(
                    [
                        [
                            cosine(self.sign_t.bag[unit_t.elements[a]], self.sign_s.bag[unit_s.elements[b]])
                            for b in gap_s
                        ]
                        for a in gap_t
                    ]
                )
                found += [(gap_t[a], gap_s[b]) for a, b in monotone_pairs(np.where(alike >= ALIKE, alike, 0.0))]
            last_t, last_s = end_t, end_s
        return found


def _rival(matrix: Array, i: int, j: int) -> float:
    """The best score that either side of a pair would have had elsewhere."""
    row, column = matrix[i].copy(), matrix[:, j].copy()
    row[j] = column[i] = 0.0
    return float(max(row.max(initial=0.0), column.max(initial=0.0)))
