"""What to record of attention, and how much of it."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Rows = int | Sequence[int] | Literal["all"] | None
Heads = Sequence[int] | Mapping[str, Sequence[int]] | None


@dataclass(frozen=True)
class AttentionOptions:
    """Choices for one recorded region. The defaults record every head of the first example.

    Args:
        example: Position in the batch, a list of them, or "all".
        heads: Head numbers to record, or module pattern -> head numbers (``{"encoder.layer.0.*": [0, 3]}``; modules
            that match no pattern are recorded whole). None: every head.
        query_rows: Query rows to compute: a list of positions, a number (that many, evenly spaced), "all", or None:
            all rows as long as one attention has at most `maximum_cells` probabilities, else evenly spaced rows.
        detail_limit: The full matrix of every head is kept when neither queries nor keys exceed this.
        watch: Heads that are kept in full resolution beyond `detail_limit`: module pattern -> head numbers. None: head
            0 of every attention. With rows chosen in `query_rows`, those rows of these heads are kept.
        tokens: Labels of the positions: a list of strings; the encoding of a fast tokenizer; a tokenizer (an object
            with ``convert_ids_to_tokens``, or a function from numbers to strings), which names what the model looks
            up in its embedding; or module prefix -> one of these, for models with several sequences
            (``{"encoder": [...], "decoder": [...]}``). An axis takes the labels whose number fits.
        grid: Patch grid (height, width) of an image model. None: found from the sizes that convolutions give.
        special_tokens: Positions before the grid (class, registers). None: what is left of the sequence.
        thumbnail: Keep the input image, at most 96 pixels wide, for overlays.
        exclude: Module patterns that are left alone, e.g. ``("*.router",)``.
        accept: Module patterns whose softmax is taken for attention although its scores are no product of queries
            and keys (additive attention, learned queries).
        probe: Read probabilities of an unknown fused kernel off it, with one-hot values and in eval mode only.
        interface: Listen at transformers' attention interface for what no kernel shows (FlexAttention, packed heads).
        redact: Applied to every token label before it is kept.
        maximum_cells: See `query_rows`. 2^27 probabilities take about a second of one processor core.
        farthest: Heads that are watched besides the first of every attention while `watch` is None: module path -> head
            numbers. A writer fills it with those that were farthest from the other model's at the step before.
        keep_maps: Keep float32 probabilities in memory (`AttentionMap.probabilities`), for notebooks and checks.
    """

    example: int | Sequence[int] | Literal["all"] = 0
    heads: Heads = None
    query_rows: Rows = None
    detail_limit: int = 256
    watch: Mapping[str, Sequence[int]] | None = None
    tokens: Any = None
    grid: tuple[int, int] | None = None
    special_tokens: int | None = None
    thumbnail: bool = True
    exclude: Sequence[str] = ()
    accept: Sequence[str] = ()
    probe: bool = True
    interface: bool = True
    redact: Callable[[str], str] | None = None
    maximum_cells: int = 1 << 27
    keep_maps: bool = False
    farthest: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.example, str) and self.example != "all":
            raise ValueError(f"example is {self.example!r}, expected a position in the batch, a list of them or 'all'")
        if isinstance(self.query_rows, str) and self.query_rows != "all":
            raise ValueError(
                f"query_rows is {self.query_rows!r}, expected a number, a list of positions, 'all' or None"
            )
        if isinstance(self.query_rows, int) and self.query_rows < 1:
            raise ValueError(f"query_rows is {self.query_rows}, expected at least 1")
        if self.detail_limit < 0 or self.maximum_cells < 1:
            raise ValueError("detail_limit must not be negative and maximum_cells must be at least 1")
        if self.grid is not None and (len(self.grid) != 2 or min(self.grid) < 1):
            raise ValueError(f"grid is {self.grid!r}, expected (height, width)")
        if isinstance(self.tokens, str):
            raise ValueError("tokens is one string, expected a list of strings, one a position")

    def examples(self, batch: int) -> list[int]:
        """Positions in a batch of `batch`; those that the batch does not have are left out."""
        if self.example == "all":
            return list(range(batch))
        wanted: Any = [self.example] if isinstance(self.example, int) else self.example
        return [index % batch for index in wanted if -batch <= index < batch]

    def heads_of(self, module_path: str, heads: int) -> list[int]:
        """Head numbers to record of a module with `heads` heads."""
        wanted: Any = self.heads
        if isinstance(wanted, Mapping):
            wanted = next((chosen for pattern, chosen in wanted.items() if matches(module_path, [pattern])), None)
        if wanted is None:
            return list(range(heads))
        return sorted({head for head in wanted if 0 <= head < heads})

    def full_heads(self, heads: Sequence[int], queries: int, keys: int) -> list[int]:
        """Those of `heads` whose full matrix is kept whatever is watched: all of a short sequence, else none."""
        return list(heads) if max(queries, keys) <= self.detail_limit else []

    def watched_heads(self, module_path: str, heads: Sequence[int]) -> list[int]:
        """Those of `heads` that are kept in full resolution beyond `detail_limit`."""
        if self.watch is None:
            far = self.farthest.get(module_path, ())
            return [head for position, head in enumerate(heads) if position == 0 or head in far]
        watched = {head for pattern, chosen in self.watch.items() if matches(module_path, [pattern]) for head in chosen}
        return [head for head in heads if head in watched]

    @property
    def chooses_rows(self) -> bool:
        """Whether `query_rows` names some of the rows, so that nothing is asked of the others."""
        return self.query_rows is not None and self.query_rows != "all"

    def rows_of(self, heads: int, queries: int, keys: int) -> list[int] | None:
        """Query rows to compute; None for all."""
        if self.query_rows == "all" or queries == 0:
            return None
        wanted = self.query_rows
        if wanted is None:
            if heads * queries * keys <= self.maximum_cells:
                return None
            wanted = max(64, self.maximum_cells // max(1, heads * keys))
        if isinstance(wanted, int):
            if wanted >= queries:
                return None
            return [(2 * position + 1) * queries // (2 * wanted) for position in range(wanted)]
        assert not isinstance(wanted, str)
        return sorted({row % queries for row in wanted if -queries <= row < queries})


def matches(module_path: str, patterns: Sequence[str]) -> bool:
    """Whether a module path fits one of the patterns (shell wildcards, or the exact path)."""
    return any(fnmatch.fnmatchcase(module_path, pattern) for pattern in patterns)
