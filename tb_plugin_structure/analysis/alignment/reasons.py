"""The reasons of a pair, as short phrases."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tb_plugin_structure.analysis.alignment.links import Link, StackMatch
from tb_plugin_structure.analysis.alignment.numbering import Interner
from tb_plugin_structure.analysis.alignment.pair_kinds import IDENTICAL
from tb_plugin_structure.analysis.alignment.roles import is_opaque, role_words
from tb_plugin_structure.analysis.alignment.tree import Tree
from tb_plugin_structure.analysis.alignment.weights import EQUAL_WEIGHTS, Sketches, paired_correlations

_BY_HOW = {
    "pin": "pinned",
    "root": "the models",
    "wrapper": "wrapper",
    "fused": "fused projections of one input",
    "stage": "ends the same stage (unlike blocks: stage level only)",
    "flow": "feeds the same module",
    "place": "same place, unlike inside",
    "moved": "out of order",
}

Phrases = tuple[str, ...]


def reasons(
    links: Sequence[Link],
    kinds: Sequence[int],
    stacks: Sequence[StackMatch],
    teacher: Tree,
    student: Tree,
    sketches: tuple[Sketches, Sketches] | None,
) -> list[Phrases]:
    """What speaks for each pair, strongest first.

    Args:
        links: The pairs.
        kinds: What each pair is.
        stacks: Pairs of stacks, to which links refer.
        teacher: The teacher.
        student: The student.
        sketches: Samples of the teacher's and the student's weights, when both records have some.
    """
    of_stacks = [_stack_phrase(match) for match in stacks]
    weights = _weight_phrases(links, teacher, student, sketches)
    intern = Interner()
    extents_t = intern.each("extent", teacher.extents)[teacher.extent_row].tolist()
    extents_s = intern.each("extent", student.extents)[student.extent_row].tolist()
    known: dict[tuple[object, ...], Phrases] = {}  # few sets of reasons occur, each many times
    found: list[Phrases] = []
    for place, (node_t, node_s, score, how, _, stack, _) in enumerate(links):
        holds_t = bool(teacher.children[node_t])
        share = round(100 * min(1.0, score)) if how == "nesting" and holds_t and student.children[node_s] else -1
        same_class = teacher.class_name[node_t] == student.class_name[node_s]
        kind = teacher.kind[node_t] if teacher.kind[node_t] == student.kind[node_s] else ""
        same_extent = extents_t[node_t] == extents_s[node_s]
        whole = holds_t and kinds[place] == IDENTICAL
        named = _name_phrase(teacher.segment[node_t], student.segment[node_s])
        key = (how, share, stack, weights.get(place, ""), named, same_class or kind, same_extent, whole)
        phrases = known.get(key)
        if phrases is None:
            listed = (
                _BY_HOW.get(how, ""),
                f"{share} % of what is inside is paired" if share >= 0 else "",
                of_stacks[stack] if stack >= 0 and how != "pin" else "",
                weights.get(place, ""),
                named,
                "same class"
                if same_class
                else f"same kind: {kind.replace('_', ' ')}"
                if kind not in ("", "block")
                else "",
                "equal output shape" if same_extent else "",
                "identical inside" if whole else "",
            )
            phrases = known[key] = tuple(filter(None, listed))
        found.append(phrases)
    return found


def _stack_phrase(match: StackMatch) -> str:
    if match.policy == "weights":
        return "blocks told apart by weights"
    if match.policy == "equal length":
        return "same place in a stack of equal length"
    return f"policy {match.policy}" + (", interchangeable" if match.interchangeable else "")


def _weight_phrases(
    links: Sequence[Link], teacher: Tree, student: Tree, sketches: tuple[Sketches, Sketches] | None
) -> dict[int, str]:
    """Position of a pair of leaves of equal weights -> how equal they are."""
    if sketches is None:
        return {}
    leaves = [k for k, link in enumerate(links) if teacher.is_leaf(link.teacher) and student.is_leaf(link.student)]
    values = paired_correlations(
        *sketches,
        [teacher.own_parameters[teacher.module[links[k].teacher]] for k in leaves],
        [student.own_parameters[student.module[links[k].student]] for k in leaves],
    )
    return {
        leaves[k]: "equal weights" if values[k] > 0.999 else f"similar weights ({values[k]:.2f})"
        for k in np.flatnonzero(values > EQUAL_WEIGHTS).tolist()
    }


@lru_cache(maxsize=65536)
def _name_phrase(name_t: str, name_s: str) -> str:
    if not name_t or is_opaque(name_t) or is_opaque(name_s):
        return ""
    shared = sorted(word for word in role_words(name_t) & role_words(name_s) if not word.startswith("#"))
    if name_t == name_s:
        return "same name"
    return "same role: " + ", ".join(shared) if shared else ""
