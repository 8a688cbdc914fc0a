"""From evidence to a probability that a pair is right.

The constants were fitted on published teacher and student pairs and on edits made for the purpose, with and without
weights, and rounded; the curve is kept below what was measured there (nearly every pair was right), because models that
nobody looked at beforehand are harder. ``docs/alignment.md`` has the reliability table.
"""

from __future__ import annotations

from math import exp
from typing import Final

from tb_plugin_structure.analysis.alignment.links import Link, StackMatch

_FIXED: Final = {
    "pin": 1.0,
    "root": 1.0,
    "wrapper": 0.98,
    "weights": 0.98,
    "fused": 0.95,
    "stage": 0.9,
    "flow": 0.8,
    "place": 0.8,
}

END_BLOCK: Final = 0.92
"""First and last block of a stack whose length changes: policies agree on them more often than not."""

INNER_BLOCK: Final = 0.74
"""Any other block of such a stack: structure cannot tell it from its neighbours."""

UNPAIRED: Final = 0.9
"""That a module without counterpart has none."""


def confidence(link: Link, parent: float, match: StackMatch | None) -> float:
    """Confidence in [0, 1] of one pair.

    Args:
        link: The pair, with its score and the best score either side had elsewhere.
        parent: Confidence of the pair it lies in; a pair is no surer than what it lies in.
        match: The stacks of which it is a block; None otherwise.
    """
    if link.how == "pin":
        return 1.0
    return min(parent, _own(link, match))


def _own(link: Link, match: StackMatch | None) -> float:
    if link.how in _FIXED:
        return _FIXED[link.how]
    if link.how == "policy" and match is not None and match.interchangeable:
        return END_BLOCK if _at_an_end(link, match) else INNER_BLOCK
    value = 0.6 + 0.385 / (1.0 + exp(-9.0 * (link.score - 0.35)))
    return 0.85 * value if link.how == "moved" else value


def _at_an_end(link: Link, match: StackMatch) -> bool:
    ends = ((match.teacher.first, match.student.first), (match.teacher.last, match.student.last))
    return (link.teacher, link.student) in ends
