"""Plain text tables: columns as wide as their widest cell, nothing cut, equal input gives equal text."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any


def text_table(head: Sequence[str], rows: Iterable[Sequence[Any]], right: frozenset[int] = frozenset()) -> str:
    """Columns two spaces apart, a rule under the head; `right` are the columns aligned to the right."""
    cells = [[str(value) for value in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(head, *cells, strict=True)]
    lines = [_line(head, widths, right), "  ".join("-" * width for width in widths)]
    lines += [_line(row, widths, right) for row in cells]
    return "\n".join(line.rstrip() for line in lines)


def _line(row: Sequence[str], widths: Sequence[int], right: frozenset[int]) -> str:
    padded = []
    for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
        space = " " * (width - _width(cell))
        padded.append(space + cell if column in right else cell + space)
    return "  ".join(padded)


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
