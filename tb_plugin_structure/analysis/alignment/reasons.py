"""The reasons of a pair, as short phrases."""

from __future__ import annotations

from tb_plugin_structure.analysis.alignment.links import Link, StackMatch
from tb_plugin_structure.analysis.alignment.matching import Matcher
from tb_plugin_structure.analysis.alignment.pair_kinds import IDENTICAL
from tb_plugin_structure.analysis.alignment.roles import is_opaque, role_words
from tb_plugin_structure.analysis.alignment.tree import Tree
from tb_plugin_structure.analysis.alignment.weights import EQUAL_WEIGHTS, correlation


def reasons(
    link: Link, match: StackMatch | None, teacher: Tree, student: Tree, matcher: Matcher, kind: int
) -> list[str]:
    """What speaks for a pair, strongest first."""
    node_t, node_s = link.teacher, link.student
    found: list[str] = []
    if link.how == "pin":
        found.append("pinned")
    elif link.how == "root":
        found.append("the models")
    elif link.how == "wrapper":
        found.append("wrapper")
    elif link.how == "fused":
        found.append("fused projections of one input")
    elif link.how == "stage":
        found.append("ends the same stage (unlike blocks: stage level only)")
    elif link.how == "flow":
        found.append("feeds the same module")
    elif link.how == "place":
        found.append("same place, unlike inside")
    elif link.how == "moved":
        found.append("out of order")
    elif link.how == "nesting" and teacher.children[node_t] and student.children[node_s]:
        found.append(f"{round(100 * min(1.0, link.score))} % of what is inside is paired")
    if match is not None and link.how != "pin":
        if match.policy == "weights":
            found.append("blocks told apart by weights")
        elif match.policy == "equal length":
            found.append("same place in a stack of equal length")
        else:
            found.append(f"policy {match.policy}" + (", interchangeable" if match.interchangeable else ""))
    if matcher.blocks.has_weights and not teacher.children[node_t] and not student.children[node_s]:
        value = correlation(
            matcher.teacher.sketches, matcher.student.sketches,
            teacher.own_parameters[teacher.module[node_t]], student.own_parameters[student.module[node_s]],
        )  # fmt: skip
        if value > EQUAL_WEIGHTS:
            found.append("equal weights" if value > 0.999 else f"similar weights ({value:.2f})")
    name_t, name_s = teacher.segment[node_t], student.segment[node_s]
    if name_t and not is_opaque(name_t) and not is_opaque(name_s):
        shared = sorted(word for word in role_words(name_t) & role_words(name_s) if not word.startswith("#"))
        if name_t == name_s:
            found.append("same name")
        elif shared:
            found.append("same role: " + ", ".join(shared))
    if teacher.class_name[node_t] == student.class_name[node_s]:
        found.append("same class")
    elif teacher.kind[node_t] == student.kind[node_s] != "block":
        found.append("same kind: " + teacher.kind[node_t].replace("_", " "))
    if teacher.extent[node_t] == student.extent[node_s]:
        found.append("equal output shape")
    if kind == IDENTICAL and teacher.children[node_t]:
        found.append("identical inside")
    return found
