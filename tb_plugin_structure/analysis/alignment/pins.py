"""What the user says corresponds: checked, and turned from module paths into pairs of calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from tb_plugin_structure.analysis.alignment.links import Link
from tb_plugin_structure.analysis.alignment.tree import Tree

Pins = Mapping[str, "str | Sequence[str] | None"]
"""Student path -> teacher path, several teacher paths, or None for no counterpart."""


class PinError(ValueError):
    """A pin names a module that does not exist or never ran, or contradicts another pin; the message says what fits."""


def check_pins(pins: Pins, teacher: Tree, student: Tree) -> dict[str, tuple[str, ...] | None]:
    """Canonical pins: aliases resolved, one entry a student module.

    Raises:
        PinError: When a path is unknown (the nearest names are listed) or never called, or two pins contradict.
    """
    found: dict[str, tuple[str, ...] | None] = {}
    for path, target in sorted(pins.items()):
        student_path = _known(path, student, "student")
        targets: tuple[str, ...] | None = None
        if target is not None:
            listed = [target] if isinstance(target, str) else list(target)
            if not listed:
                raise PinError(f"the pin of {path!r} has an empty list; give teacher paths, or None for no counterpart")
            targets = tuple(dict.fromkeys(_known(item, teacher, "teacher") for item in listed))
        if student_path in found and found[student_path] != targets:
            raise PinError(f"{student_path!r} is pinned twice, to {_shown(found[student_path])} and {_shown(targets)}")
        found[student_path] = targets
    for outer, outer_targets in found.items():
        for inner, inner_targets in found.items():
            if inner == outer or not _below(inner, outer) or inner_targets is None:
                continue
            if outer_targets is None:
                raise PinError(
                    f"{outer!r} is pinned to no counterpart, but {inner!r} inside it is pinned to "
                    f"{_shown(inner_targets)}; remove one of the two"
                )
            for path in inner_targets:
                if not any(_below(path, target) or path == target for target in outer_targets):
                    raise PinError(
                        f"{outer!r} is pinned to {_shown(outer_targets)}, but {inner!r} inside it is pinned to "
                        f"{path!r}, which lies outside; remove one of the two"
                    )
    return found


def _below(path: str, outer: str) -> bool:
    return path != outer and (outer == "" or path.startswith(outer + "."))


def _shown(targets: tuple[str, ...] | None) -> str:
    return "no counterpart" if targets is None else " and ".join(repr(target) for target in targets)


def _known(path: str, tree: Tree, side: str) -> str:
    """The canonical path of a module that ran, or a container of modules that ran."""
    structure = tree.structure
    row = structure.module_row.get(path)
    ran = set(tree.path)
    if row is None:
        near = get_close_matches(path, sorted(ran), n=4, cutoff=0.4)
        hint = f"; did you mean {', '.join(repr(name) for name in near)}?" if near else ""
        raise PinError(f"the {side} has no module {path!r}{hint}")
    canonical = structure.module_paths[row]
    if canonical not in ran:
        inside = [name for name in sorted(ran) if name.startswith(canonical + ".")]
        near = inside[:4] or get_close_matches(path, sorted(ran), n=4, cutoff=0.4)
        raise PinError(
            f"the {side}'s module {path!r} was never called in the recorded pass, so it has no output to compare; "
            f"modules that ran: {', '.join(repr(name) for name in near)}"
        )
    return canonical


def pinned_nodes(
    pins: Mapping[str, tuple[str, ...] | None], teacher: Tree, student: Tree
) -> tuple[list[tuple[int, int]], set[int]]:
    """(teacher node, student node) pairs, calls paired in order; and student nodes without counterpart."""
    if not pins:
        return [], set()
    nodes_t, nodes_s = _by_path(teacher), _by_path(student)
    pairs: list[tuple[int, int]] = []
    alone: set[int] = set()
    for path, targets in pins.items():
        calls_s = nodes_s[path]
        if targets is None:
            alone.update(calls_s)
            continue
        for target in targets:
            calls_t = nodes_t[target]
            longer = max(len(calls_t), len(calls_s))
            for k in range(longer):
                pair = (calls_t[k * len(calls_t) // longer], calls_s[k * len(calls_s) // longer])
                if pair not in pairs:
                    pairs.append(pair)
    return pairs, alone


def _by_path(tree: Tree) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for node, path in enumerate(tree.path):
        found.setdefault(path, []).append(node)
    return found


def respect_pins(
    links: list[Link], pairs: list[tuple[int, int]], alone: set[int], teacher: Tree, student: Tree
) -> list[Link]:
    """Drop links that contradict a pin, and make sure that every pin is a link."""
    if not pairs and not alone:
        return links
    targets: defaultdict[int, set[int]] = defaultdict(set)
    sources: defaultdict[int, set[int]] = defaultdict(set)
    for node_t, node_s in pairs:
        targets[node_s].add(node_t)
        sources[node_t].add(node_s)
    kept = []
    for link in links:
        inside_t = [node for node in sources if teacher.contains(node, link.teacher)]
        inside_s = [node for node in targets if student.contains(node, link.student)]
        if (
            any(student.contains(node, link.student) for node in alone)
            or (link.student in targets and link.teacher not in targets[link.student])
            or (link.teacher in sources and link.student not in sources[link.teacher])
            or not all(any(student.contains(s, link.student) for s in sources[t]) for t in inside_t)
            or not all(any(teacher.contains(t, link.teacher) for t in targets[s]) for s in inside_s)
        ):
            continue
        kept.append(link)
    wanted = set(pairs)
    present = {(link.teacher, link.student) for link in kept}
    return [
        *(link._replace(how="pin", score=1.0) if (link.teacher, link.student) in wanted else link for link in kept),
        *(Link(node_t, node_s, 1.0, "pin") for node_t, node_s in pairs if (node_t, node_s) not in present),
    ]
