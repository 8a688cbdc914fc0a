"""The units of one scope of both models, and how they were paired."""

from __future__ import annotations

from dataclasses import dataclass, field

from tb_plugin_structure.analysis.alignment.evidence import Side
from tb_plugin_structure.analysis.alignment.holding import Held
from tb_plugin_structure.analysis.alignment.stages import StagePairs

LEAST_SUBSTANCE = 0.05
"""What a leaf counts at least when a score is divided by its substance."""


@dataclass
class Search:
    """The units of one scope and how they were paired.

    pairs: positions of units, both rising.
    moved: further pairs, across the order.
    fits: for each pair its score per substance, and the best such score that either unit had elsewhere.
    stage_only: what is paired as stages and not inside.
    total: summed scores.
    """

    side_t: Side
    side_s: Side
    members_t: dict[int, list[int]]
    members_s: dict[int, list[int]]
    held: Held = field(default_factory=Held)
    pairs: list[tuple[int, int]] = field(default_factory=list)
    moved: list[tuple[int, int]] = field(default_factory=list)
    fits: dict[tuple[int, int], tuple[float, float]] = field(default_factory=dict)
    stage_only: StagePairs = field(default_factory=list)
    total: float = 0.0
    equal: bool = False
    """Whether the scopes are the same subtree, so that everything in them is paired with itself."""

    def lone(self, most: int = 1) -> tuple[set[int], set[int]]:
        """First blocks of stacks of at most `most` blocks that were kept together though nothing on the other side is
        like them."""
        used_t = {i for i, _ in self.pairs} | {i for i, _, _ in self.stage_only}
        used_s = {j for _, j in self.pairs} | {j for _, j, _ in self.stage_only}
        return (
            {u.first for i, u in enumerate(self.side_t.units) if 1 <= len(u.elements) <= most and i not in used_t},
            {u.first for j, u in enumerate(self.side_s.units) if 1 <= len(u.elements) <= most and j not in used_s},
        )
