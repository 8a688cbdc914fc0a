"""Which of the recorded steps goes with a structure, which is written again only when it changed."""

from __future__ import annotations

from collections.abc import Collection


def step_beside(recorded: Collection[int], begin: int, end: int | None = None, wanted: int | None = None) -> int:
    """The step of a series that goes with a structure.

    The structure was written at `begin` and holds until the next one of its tag, at `end` (None: it holds to this day).
    Of the series' steps in that time the last one counts, or the last one until `wanted`; where there is none, the
    nearest.

    >>> step_beside([0, 500, 1000], 0), step_beside([0, 500, 1000], 0, end=1000), step_beside([0, 500], 0, wanted=499)
    (1000, 500, 0)
    >>> step_beside([20, 30], 0, end=10)
    20
    """
    held = [step for step in recorded if step >= begin and (end is None or step < end)]
    until = [step for step in held if wanted is None or step <= wanted]
    if until:
        return max(until)
    near = begin if wanted is None else wanted
    return min(held or recorded, key=lambda step: (abs(step - near), step))
