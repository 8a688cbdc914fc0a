"""From evidence to a probability that a pair is right.

The constants were fitted on published teacher and student pairs and on edits made for the purpose, with and without
weights, and rounded; the curve is kept below what was measured there (nearly every pair was right), because models that
nobody looked at beforehand are harder. ``docs/alignment.md`` has the reliability table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tb_plugin_structure.analysis.alignment.links import Link, StackMatch
from tb_plugin_structure.records.table import Array

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

END_BLOCK: Final = 0.86
"""First and last block of a stack whose length changes: policies agree on them more often than not. Of students cut by
published tables and at random 0.82 were right (1,579 pairs), of published pairs nearly all."""

INNER_BLOCK: Final = 0.72
"""Any other block of such a stack: structure cannot tell it from its neighbours. 0.70 were right (1,605 pairs cut as
above), of published pairs 0.75."""

UNPAIRED: Final = 0.9
"""That a module without counterpart has none."""


def own_confidences(links: Sequence[Link], stacks: Sequence[StackMatch]) -> Array:
    """Confidence of each pair, whatever it lies in: by what made it, and for leaves by how much speaks for it."""
    score = np.array([link.score for link in links])
    value = 0.6 + 0.385 / (1.0 + np.exp(-9.0 * (score - 0.35)))
    for place, link in enumerate(links):
        if link.how in _FIXED:
            value[place] = _FIXED[link.how]
        elif link.how == "moved":
            value[place] *= 0.85
        elif link.how == "policy" and link.stack >= 0 and stacks[link.stack].interchangeable:
            value[place] = END_BLOCK if _at_an_end(link, stacks[link.stack]) else INNER_BLOCK
    return value


def _at_an_end(link: Link, match: StackMatch) -> bool:
    ends = ((match.teacher.first, match.student.first), (match.teacher.last, match.student.last))
    return (link.teacher, link.student) in ends


def nested_confidences(
    own: Sequence[float], parents: Sequence[int], paired: Sequence[bool], certain: Sequence[bool]
) -> list[float]:
    """Confidence of each row: no pair is surer than the pair it lies in, unless it is certain (a pin).

    Args:
        own: Confidence of each row by itself.
        parents: What each row lies in, which comes before it; -1 for nothing.
        paired: Whether both sides have the row.
        certain: Whether a person said so.
    """
    found = list(own)
    for row, above in enumerate(parents):
        # What only one side has says nothing about a pair inside it; but what lies in a pair is no surer than that.
        if above >= 0 and not certain[row] and (paired[above] or not paired[row]):
            found[row] = min(found[row], found[above])
    return found
