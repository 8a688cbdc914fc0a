"""What a row of an overview plane shows when it shows no probabilities: one byte a row of each head.

The part ``row_states`` of an attention record holds them for all heads, in the order of the statistics table; it is
there when a row of some head has no probabilities to show.
"""

from __future__ import annotations

from typing import Final

PROBABILITIES: Final = 0
NOT_RECORDED: Final = 1
"""None of the cell's query rows was looked at (``AttentionOptions.query_rows``)."""

MASKED: Final = 2
"""In each of the cell's rows every key is masked."""

NOT_FINITE: Final = 3
"""A row of the cell holds NaN or infinity."""
