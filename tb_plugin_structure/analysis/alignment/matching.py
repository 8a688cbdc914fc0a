"""Top-down matching of two trees: scopes, stacks inside them, blocks inside those."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tb_plugin_structure.analysis.alignment.blocks import BlockPairing, Side
from tb_plugin_structure.analysis.alignment.dataflow import DataFlow
from tb_plugin_structure.analysis.alignment.evidence import UNLIKE
from tb_plugin_structure.analysis.alignment.features import Features
from tb_plugin_structure.analysis.alignment.holding import PinnedNodes
from tb_plugin_structure.analysis.alignment.kinds import WEIGHTED
from tb_plugin_structure.analysis.alignment.links import Link, Outcome, StackMatch
from tb_plugin_structure.analysis.alignment.named_parts import named_parts
from tb_plugin_structure.analysis.alignment.numbering import Interner
from tb_plugin_structure.analysis.alignment.paired_units import Search
from tb_plugin_structure.analysis.alignment.search import search
from tb_plugin_structure.analysis.alignment.signatures import cosine, sign
from tb_plugin_structure.analysis.alignment.stack_runs import ALIKE
from tb_plugin_structure.analysis.alignment.stacks import Folding, Unit
from tb_plugin_structure.analysis.alignment.tree import Tree
from tb_plugin_structure.analysis.alignment.weights import Sketches

_FEW = 4
"""Parts of a list inside a block up to which it may be no stack."""


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
        intern = Interner()
        self.teacher, self.student = _side(teacher, intern), _side(student, intern)
        self.teacher.folding.learn_from(self.student.folding)
        self.student.folding.learn_from(self.teacher.folding)
        self.policy = policy
        self.pins = PinnedNodes(teacher, student, pins, alone)
        self._memo: dict[tuple[int, int, bool], Outcome] = {}

    @property
    def blocks(self) -> BlockPairing:
        """Made anew each time: kept, it and this would hold each other, and hundreds of MiB until a collection."""
        return BlockPairing(self.teacher, self.student, self.scope)

    def run(self) -> Outcome:
        """Match the two models from their cores (wrappers stripped) down."""
        if not len(self.teacher.tree) or not len(self.student.tree):
            return Outcome()  # a pass that failed before anything was called
        chain_t, chain_s = self.teacher.tree.chain(0), self.student.tree.chain(0)
        root_t, root_s = chain_t[-1], chain_s[-1]
        outcome = Outcome([Link(root_t, root_s, 1.0, "root")])
        around_t, around_s = chain_t[-2::-1] or [root_t], chain_s[-2::-1] or [root_s]
        if len(chain_t) > 1 or len(chain_s) > 1:
            for place in range(max(len(around_t), len(around_s))):
                node_t, node_s = around_t[min(place, len(around_t) - 1)], around_s[min(place, len(around_s) - 1)]
                outcome.links.append(Link(node_t, node_s, 1.0, "wrapper"))
        outcome.add(self.scope(root_t, root_s, top=True), root_t, root_s)
        self._lone_layer(outcome, root_t, root_s)
        return outcome

    def _lone_layer(self, outcome: Outcome, root_t: int, root_s: int) -> None:
        """Where one model is a single layer: the other's last layer of that kind."""
        tree_t, tree_s = self.teacher.tree, self.student.tree
        if tree_t.is_leaf(root_t) and not tree_s.is_leaf(root_s):
            alike = [leaf for leaf in tree_s.leaves(root_s) if tree_s.kind[leaf] == tree_t.kind[root_t]]
            outcome.links += [Link(root_t, leaf, 0.5, "sequence") for leaf in alike[-1:]]
        elif tree_s.is_leaf(root_s) and not tree_t.is_leaf(root_t):
            alike = [leaf for leaf in tree_t.leaves(root_t) if tree_t.kind[leaf] == tree_s.kind[root_s]]
            outcome.links += [Link(leaf, root_s, 0.5, "sequence") for leaf in alike[-1:]]

    def scope(self, node_t: int, node_s: int, top: bool = False) -> Outcome:
        """Match what lies below two nodes; the result holds offsets and is reused for equal pairs of subtrees."""
        pinned = self.pins.touch(node_t, node_s)
        key = (self.teacher.signatures.named[node_t], self.student.signatures.named[node_s], top)
        known = None if pinned else self._memo.get(key)
        if known is not None:
            return known
        pins = self.pins if pinned else None
        equal = self.teacher.signatures.named[node_t] == self.student.signatures.named[node_s]
        parts = named_parts(self.teacher, self.student, node_t, node_s) if top and not pinned and not equal else []
        found = search(self.teacher, self.student, node_t, node_s, top, pins, parts=parts)
        lone_t, lone_s = self._lone(found, top)
        if not pinned and (lone_t or lone_s):
            again = search(self.teacher, self.student, node_t, node_s, top, pins, lone_t, lone_s, parts)
            found = again if again.total > found.total else found
        outcome = self._outcome(node_t, node_s, found)
        for part_t, part_s in parts:
            outcome.links.append(Link(part_t - node_t, part_s - node_s, 1.0, "sequence"))
            outcome.add(self.scope(part_t, part_s, top=True), part_t - node_t, part_s - node_s)
        if found.equal:
            self._pair_all(outcome, node_t, node_s)
        if not pinned:
            self._memo[key] = outcome
        return outcome

    def _lone(self, found: Search, top: bool) -> tuple[set[int], set[int]]:
        """First blocks of stacks without counterpart that the other model may have in another form.

        Inside a block these are lists of a few alike parts, which the other model may have as attributes with names; at
        the top, single blocks and lists of one-layer blocks, which the other model may have flat.
        """
        if not top:
            return found.lone(_FEW)
        lone_t, lone_s = found.lone()
        many_t, many_s = found.lone(len(self.teacher.tree) + len(self.student.tree))
        return (
            lone_t | {node for node in many_t if node in self.teacher.folding.light_blocks},
            lone_s | {node for node in many_s if node in self.student.folding.light_blocks},
        )

    def _outcome(self, node_t: int, node_s: int, found: Search) -> Outcome:
        """Links of the pairs of units and of everything inside them."""
        outcome = Outcome()
        for i, j in found.pairs:
            self._link_units(outcome, node_t, node_s, found, i, j)
        for pin_t, pin_s in found.held.direct:
            outcome.links.append(Link(pin_t - node_t, pin_s - node_s, 1.0, "pin"))
            self._inside(outcome, node_t, node_s, pin_t, pin_s)
        for _, _, stage_pairs in found.stage_only:
            for element_t, element_s in stage_pairs:
                outcome.links.append(Link(element_t - node_t, element_s - node_s, 0.5, "stage"))
        for i, j in found.moved:
            before = len(outcome.links)
            self._link_units(outcome, node_t, node_s, found, i, j)
            outcome.links[before:] = [
                link._replace(how="moved") if link.how == "sequence" else link for link in outcome.links[before:]
            ]
        return outcome

    def _pair_all(self, outcome: Outcome, node_t: int, node_s: int) -> None:
        """Pair the rest of two equal subtrees, place by place; blocks of stacks stay as their stack paired them."""
        taken_t = {link.teacher for link in outcome.links}
        taken_s = {link.student for link in outcome.links}
        offset = 1
        elements = {element for match in outcome.stacks for element in match.teacher.elements}
        while offset < self.teacher.tree.size[node_t]:
            if offset not in taken_t and offset not in taken_s:
                outcome.links.append(Link(offset, offset, 1.0, "nesting"))
            offset += self.teacher.tree.size[node_t + offset] if offset in elements else 1

    def _inside(self, outcome: Outcome, node_t: int, node_s: int, inner_t: int, inner_s: int) -> None:
        """Match inside a pair of composites and add it, when they are alike enough for that."""
        if not (self.teacher.tree.children[inner_t] and self.student.tree.children[inner_s]):
            return
        equal = self.teacher.signatures.named[inner_t] == self.student.signatures.named[inner_s]
        if equal or self._are_alike(inner_t, inner_s):
            outcome.add(self.scope(inner_t, inner_s), inner_t - node_t, inner_s - node_s)

    def _are_alike(self, node_t: int, node_s: int) -> bool:
        """Whether two composites hold enough of the same kinds that what is in them is compared."""
        if cosine(self.teacher.bag(node_t), self.student.bag(node_s)) >= UNLIKE:
            return True
        dense_t, dense_s = (
            side.signatures.dense_bags([node])[0] for side, node in ((self.teacher, node_t), (self.student, node_s))
        )
        return cosine(dense_t, dense_s) >= ALIKE

    def _link_units(self, outcome: Outcome, node_t: int, node_s: int, found: Search, i: int, j: int) -> None:
        unit_t, unit_s = found.side_t.units[i], found.side_s.units[j]
        if unit_t.is_stack and unit_s.is_stack:
            self._stack(outcome, node_t, node_s, found, i, j)
            return
        if (unit_t.node, unit_s.node) in self.pins.wanted:
            outcome.links.append(Link(unit_t.node - node_t, unit_s.node - node_s, 1.0, "pin"))
            self._inside(outcome, node_t, node_s, unit_t.node, unit_s.node)
            return
        score, rival = found.fits[i, j]
        group_t = found.members_t.get(unit_t.node, [unit_t.node])
        group_s = found.members_s.get(unit_s.node, [unit_s.node])
        group = -1
        if len(group_t) > 1 or len(group_s) > 1:
            group = outcome.groups
            outcome.groups += 1
        how = "fused" if group >= 0 else "sequence"
        for leaf_t in group_t:
            for leaf_s in group_s:
                outcome.links.append(Link(leaf_t - node_t, leaf_s - node_s, score, how, group, -1, rival))

    # ---- stacks

    def _policy_of(self, unit_t: Unit, unit_s: Unit) -> str | Sequence[int]:
        if isinstance(self.policy, str):
            return self.policy
        for path in (self.student.tree.path[unit_s.node], self.teacher.tree.path[unit_t.node], "*", ""):
            if path in self.policy:
                return self.policy[path]
        return "copy"

    def _stack(self, outcome: Outcome, node_t: int, node_s: int, found: Search, i: int, j: int) -> None:
        """Pair the elements of two stacks and match inside each pair."""
        unit_t, unit_s, held = found.side_t.units[i], found.side_s.units[j], found.held
        pairs, decided, open_choice = self.blocks.pair(
            unit_t,
            unit_s,
            self._policy_of(unit_t, unit_s),
            held.elements.get((i, j), ()),
            held.without_t.get(i, ()),
            held.without_s.get(j, ()),
        )
        number = len(outcome.stacks)
        outcome.stacks.append(StackMatch(unit_t.shifted(-node_t), unit_s.shifted(-node_s), decided, pairs, open_choice))
        for a, b in pairs:
            block_t, block_s = unit_t.elements[a], unit_s.elements[b]
            alike = cosine(self.teacher.bag(block_t), self.student.bag(block_s))
            how = "weights" if decided == "weights" else "policy"
            how = "pin" if (block_t, block_s) in self.pins.wanted else how
            outcome.links.append(Link(block_t - node_t, block_s - node_s, alike, how, -1, number))
            inner_t, inner_s = self._through(outcome, node_t, node_s, block_t, block_s)
            self._inside(outcome, node_t, node_s, inner_t, inner_s)
        self._entry_of_stage(outcome, node_t, node_s, unit_t, unit_s, pairs)
        for holder_t, holder_s in zip(
            _holders(self.teacher.tree, unit_t, node_t), _holders(self.student.tree, unit_s, node_s), strict=False
        ):
            outcome.links.append(Link(holder_t - node_t, holder_s - node_s, 1.0, "nesting"))

    def _entry_of_stage(
        self, outcome: Outcome, node_t: int, node_s: int, unit_t: Unit, unit_s: Unit, pairs: list[tuple[int, int]]
    ) -> None:
        """Where one block stands for a whole stage and is paired with its last block: what it has beside that (the
        shortcut that changes the width) is paired with the stage's first block, which has it too."""
        if len(pairs) != 1 or not pairs[0][0] + pairs[0][1] or min(len(unit_t.elements), len(unit_s.elements)) > 1:
            return
        block_t, block_s = unit_t.elements[0], unit_s.elements[0]
        taken_t = {link.teacher for link in outcome.links}
        taken_s = {link.student for link in outcome.links}
        if not (self.teacher.tree.children[block_t] and self.student.tree.children[block_s]):
            return
        entry = Outcome()
        entry.add(self.scope(block_t, block_s), block_t - node_t, block_s - node_s)
        left = [link for link in entry.links if link.teacher not in taken_t and link.student not in taken_s]
        if any(self.teacher.tree.kind[link.teacher + node_t] in WEIGHTED for link in left):
            outcome.links += left

    def _through(self, outcome: Outcome, node_t: int, node_s: int, block_t: int, block_s: int) -> tuple[int, int]:
        """Go into modules that only call one other composite: the block once more, where it returns the same."""
        tree_t, tree_s = self.teacher.tree, self.student.tree
        chain_t, chain_s = tree_t.chain(block_t), tree_s.chain(block_s)
        for place in range(1, max(len(chain_t), len(chain_s))):
            inner_t, inner_s = chain_t[min(place, len(chain_t) - 1)], chain_s[min(place, len(chain_s) - 1)]
            deeper_t, deeper_s = place < len(chain_t), place < len(chain_s)
            same_t = not deeper_t or tree_t.returns_same(block_t, inner_t)
            same_s = not deeper_s or tree_s.returns_same(block_s, inner_s)
            if (same_t and same_s) or (deeper_t and deeper_s):
                outcome.links.append(Link(inner_t - node_t, inner_s - node_s, 1.0, "nesting"))
        return chain_t[-1], chain_s[-1]


def _side(tree: Tree, intern: Interner) -> Side:
    signatures = sign(tree, intern)
    flow = DataFlow(tree)
    features = Features(tree, signatures, intern)
    return Side(tree, signatures, Folding(flow, signatures), features, Sketches(tree), flow)


def _holders(tree: Tree, unit: Unit, scope: int) -> list[int]:
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
