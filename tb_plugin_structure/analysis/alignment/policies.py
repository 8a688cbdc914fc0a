"""Which blocks of the longer of two stacks of equal blocks are paired with the blocks of the shorter one.

Structure cannot tell equal blocks apart, so this is a choice, with a name. A policy is defined on (longer, shorter)
and therefore inverts: it does not ask which side is the teacher. N is the longer length, n the shorter one, and i
counts the shorter one's blocks from 0.

========== ================================================ ==========================================================
name       formula                                          source
========== ================================================ ==========================================================
copy       table where published, else                      DistilBERT (12 to 6) and the layer tables of the
           floor(i (N-1)/(n-1) + 1/2); n = 1: block 0       transformers seq2seq distillation scripts; distil-whisper
uniform    floor((i+1) N/n) - 1                             TinyBERT g(m) = m N/n, intermediate supervision
skip       i k + k - 1 with k = floor(N/n)                  Patient Knowledge Distillation, PKD-skip
last       N - n + i                                        PKD-last, fine-tuning of the top layers
first      i                                                truncated students
========== ================================================ ==========================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

POLICIES: Final = ("copy", "uniform", "skip", "last", "first")
"""Names of the policies that apply to every stack."""

# (longer, shorter) -> blocks, where the authors published a list that differs from the formula or fixed its rounding.
COPY_TABLES: Final[dict[tuple[int, int], tuple[int, ...]]] = {
    (12, 2): (0, 6),
    (12, 3): (0, 6, 11),
    (12, 4): (0, 4, 8, 11),
    (12, 6): (0, 2, 4, 7, 9, 11),
    (12, 9): (0, 1, 2, 4, 5, 7, 9, 10, 11),
    (6, 3): (0, 2, 5),
    (6, 4): (0, 1, 3, 5),
    (16, 8): (0, 2, 4, 6, 8, 10, 12, 15),
    (16, 9): (0, 1, 3, 5, 7, 9, 11, 13, 15),
    (16, 12): (0, 1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 15),
}

STAGE_FRACTIONS: Final = (2 / 12, 4 / 12, 10 / 12, 1.0)
"""Depths at which a stack without stages ends the four stages of a hierarchical network: the 2-2-6-2 plan that OFAKD
uses for ViT, DeiT and Mixer (blocks 1, 3, 9, 11 of 12)."""


class PolicyError(ValueError):
    """A policy is unknown or does not fit a stack. The message names the stack, the choices and the fix."""


def policy_indices(policy: str | Sequence[int], longer: int, shorter: int, stack: str = "the stack") -> list[int]:
    """For each block of the shorter side, the block of the longer side; -1 for none.

    Args:
        policy: A name of :data:`POLICIES`, or a list with one index (or -1) for each block of the shorter side.
        longer: Blocks on the longer side.
        shorter: Blocks on the shorter side.
        stack: Path to name in errors.

    Raises:
        PolicyError: When the name is unknown, or a list has another length, an index outside, or an order that falls.
    """
    if not 0 < shorter <= longer:
        raise PolicyError(f"{stack}: expected 0 < shorter <= longer, got {shorter} and {longer} blocks")
    if not isinstance(policy, str):
        return _checked(list(policy), longer, shorter, stack)
    if policy not in POLICIES:
        raise PolicyError(f"{stack}: no policy {policy!r}; use {', '.join(POLICIES)}, or a list of {shorter} indices")
    if longer == shorter:
        return list(range(shorter))
    if policy == "copy":
        table = COPY_TABLES.get((longer, shorter))
        if table is not None:
            return list(table)
        if shorter == 1:
            return [0]
        return [(2 * i * (longer - 1) + shorter - 1) // (2 * (shorter - 1)) for i in range(shorter)]
    if policy == "uniform":
        return [(i + 1) * longer // shorter - 1 for i in range(shorter)]
    if policy == "skip":
        step = longer // shorter
        return [i * step + step - 1 for i in range(shorter)]
    if policy == "last":
        return [longer - shorter + i for i in range(shorter)]
    return list(range(shorter))


def _checked(indices: list[int], longer: int, shorter: int, stack: str) -> list[int]:
    if len(indices) != shorter:
        raise PolicyError(f"{stack}: the list has {len(indices)} indices; give one for each of the {shorter} blocks")
    used = [index for index in indices if index != -1]
    for index in used:
        if not 0 <= index < longer:
            raise PolicyError(f"{stack}: index {index} is outside 0 to {longer - 1}; use -1 for no counterpart")
    if any(later < earlier for earlier, later in pairwise(used)):
        raise PolicyError(f"{stack}: the indices {indices} fall; blocks are paired in order")
    return indices


def stage_indices(blocks: int, stages: int) -> list[int]:
    """The last block of each stage when a stack without stages is set against one with `stages` stages.

    >>> stage_indices(12, 4)
    [1, 3, 9, 11]
    """
    if stages == 4:
        return [max(k, int(fraction * blocks + 0.5) - 1) for k, fraction in enumerate(STAGE_FRACTIONS)]
    return [(k + 1) * blocks // stages - 1 for k in range(stages)]
