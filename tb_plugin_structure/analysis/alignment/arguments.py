"""Arguments of functions: a softmax over another dimension, a dropout of another probability."""

from __future__ import annotations

from collections import Counter

from tb_plugin_structure.analysis.alignment.pair_kinds import is_size
from tb_plugin_structure.records.structure import Structure

_Call = tuple[str, tuple[tuple[str, str], ...]]
"""An operator's name, and the names and values of its arguments."""

_SIZES = frozenset(("other", "repeats", "split_size_or_sections", "start", "end", "step", "index", "sizes", "dims"))
"""Arguments that often are sizes of the input, or are computed from them."""


def changed_arguments(teacher: Structure, student: Structure) -> list[str]:
    """What two models that run the same operators give them otherwise, sizes left out: "softmax dim -1 → 1"."""
    only_t, only_s = _calls(teacher), _calls(student)
    only_t, only_s = only_t - only_s, only_s - only_t
    told: Counter[str] = Counter()
    for call_t, call_s in zip(sorted(only_t.elements()), sorted(only_s.elements()), strict=False):
        (name, stated_t), (name_s, stated_s) = call_t, call_s
        if name != name_s:
            continue
        before, after = dict(stated_t), dict(stated_s)
        for argument in dict.fromkeys([*before, *after]):
            if before.get(argument) != after.get(argument):
                # What is not stated is as the function has it by default.
                told[f"{name} {argument} {before.get(argument, 'default')} → {after.get(argument, 'default')}"] += 1
    return [text + (f" (×{count})" if count > 1 else "") for text, count in told.items()]


def _calls(structure: Structure) -> Counter[_Call]:
    """How often each operator ran with the same arguments."""
    operators = structure.operators
    named, stated = operators.lists("attribute_names"), operators.lists("attribute_values")
    keys = list(zip(operators["name"].tolist(), map(tuple, named), map(tuple, stated), strict=True))
    first = {key: row for row, key in reversed(list(enumerate(keys)))}
    found: Counter[_Call] = Counter()
    for key, count in Counter(keys).items():
        row = first[key]
        pairs = zip(operators.texts("attribute_names", row), operators.texts("attribute_values", row), strict=True)
        kept = (pair for pair in pairs if pair[0] != "inplace" and pair[0] not in _SIZES and not _counts(pair[0]))
        found[operators.text("name", row).rstrip("_"), tuple(sorted(kept))] += count
    return found


def _counts(argument: str) -> bool:
    """Whether an argument says how large something is; a dimension says which."""
    return argument != "dim" and is_size(argument)
