"""Layers of equal names in another order: a norm before the attention in one model, after it in the other.

Order says where a layer stands, and its name what its author takes it for. Where nearly everything in two scopes has a
name of its own that the other scope has too, the names decide about what changed places.
"""

from __future__ import annotations

from tb_plugin_structure.analysis.alignment.evidence import KIND_TABLE, Side
from tb_plugin_structure.analysis.alignment.roles import is_opaque, says_little
from tb_plugin_structure.analysis.alignment.sequence import longest_rising

_NEARLY_ALL = 0.9
"""Share of the substance of either scope that must lie in leaves of equal names."""


def crossing_names(teacher: Side, student: Side) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Leaves of equal names, where their order differs.

    Returns:
        Positions of units that kept their order, both rising; and of those that did not. Nothing where the order is the
        same, or where names do not decide.
    """
    places_t, places_s = _named_leaves(teacher), _named_leaves(student)
    pairs = sorted(
        (i, places_s[name])
        for name, i in places_t.items()
        if name in places_s and KIND_TABLE[teacher.kind[i], student.kind[places_s[name]]] == 1.0
    )
    kept = longest_rising([j for _, j in pairs])
    if len(kept) == len(pairs):
        return [], []
    for side, places in ((teacher, [i for i, _ in pairs]), (student, [j for _, j in pairs])):
        if side.substance[places].sum() < _NEARLY_ALL * side.substance.sum():
            return [], []
    stayed = [pairs[place] for place in kept]
    return stayed, sorted(set(pairs) - set(stayed))


def _named_leaves(side: Side) -> dict[tuple[str, frozenset[str]], int]:
    """What is called so once in its scope, by its name and what it lies in."""
    found: dict[tuple[str, frozenset[str]], int] = {}
    repeated = set()
    for place, unit in enumerate(side.units):
        name = side.names[place]
        if unit.is_stack or is_opaque(name) or says_little(name):
            continue
        key = name, side.around[place]
        if key in found:
            repeated.add(key)
        found[key] = place
    return {key: place for key, place in found.items() if key not in repeated}
