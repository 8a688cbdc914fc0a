"""What a command says: sentences and tables, as plain text for files and pipes, with colours in a terminal.

Plain text has columns as wide as their widest cell and cuts nothing, so that equal records give equal text. In a
terminal the tables are drawn by rich, when it is installed (the extra ``[cli]``), and wrap instead.
"""

from __future__ import annotations

import math
import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple


class TextTable(NamedTuple):
    """A table; `right` are the columns aligned to the right."""

    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    right: frozenset[int] = frozenset()


class Exact(str):
    """A cell that people read rounded ("1.23 M") and programs exactly: its `value` for JSON and CSV, None for unknown.
    Columns of such cells have names with their unit there (:data:`EXACT_NAMES`)."""

    value: Any

    def __new__(cls, text: str, value: Any) -> Exact:
        cell = super().__new__(cls, text)
        is_unknown = isinstance(value, float) and math.isnan(value)
        is_whole = isinstance(value, float) and value.is_integer()
        cell.value = None if is_unknown else int(value) if is_whole else value
        return cell


EXACT_NAMES = {
    "#": "row",
    "MACs": "macs",
    "activation bytes": "activation_bytes",
    "peak bytes": "peak_bytes",
    "saved bytes": "saved_bytes",
    "time": "duration_ns",
}
"""Heads of columns for people -> names for programs."""

Part = str | TextTable
"""A paragraph or a table; a document is a sequence of them."""

_STYLES = {
    "match": "dim",
    "identical": "dim",
    "adapt": "blue",
    "incompatible": "magenta",
    "unmatched": "yellow",
    "info": "dim",
    "warning": "yellow",
    "error": "bold red",
}
"""Style of a cell that begins with the word; the word itself stays, so colour is never alone."""


def plain_text(parts: Iterable[Part]) -> str:
    """Paragraphs and tables, an empty line between them."""
    return "\n\n".join(part if isinstance(part, str) else text_table(*part) for part in parts) + "\n"


def print_parts(parts: Sequence[Part]) -> None:
    """To standard output: drawn when it is a terminal and rich is installed, plain otherwise."""
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        try:
            import rich.console
        except ModuleNotFoundError:
            pass
        else:
            draw(parts, rich.console.Console(soft_wrap=False))
            return
    sys.stdout.write(plain_text(parts))


def draw(parts: Sequence[Part], console: Any) -> None:
    """Draw on a ``rich.console.Console``."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    for number, part in enumerate(parts):
        if number:
            console.print()
        if isinstance(part, str):
            console.print(Text(part))
            continue
        needed = _needed(part)
        for columns in columns_that_fit(part, console.width):
            table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, expand=False)
            for column in columns:
                side: Literal["left", "right"] = "right" if column in part.right else "left"
                table.add_column(Text(part.head[column]), justify=side, overflow="fold", min_width=needed[column])
            for row in part.rows:
                # Text, not markup: brackets in shapes and paths are no styles.
                cells = (str(row[column]) for column in columns)
                table.add_row(*(Text(cell, style=_style(cell)) for cell in cells))
            console.print(table)


def _needed(table: TextTable) -> list[int]:
    """The least width of each column: its longest word; numbers keep their units beside them."""
    found = []
    for column, (head, *cells) in enumerate(zip(table.head, *table.rows, strict=True)):
        texts = map(str, cells)
        words = [*str(head).split(), *(texts if column in table.right else (w for text in texts for w in text.split()))]
        found.append(min(_WORD, max(map(_width, words), default=1)))
    return found


_BETWEEN = 3
"""Characters between two columns that rich draws."""
_WORD = 24
"""Longer words may be broken."""


def columns_that_fit(table: TextTable, width: int) -> list[list[int]]:
    """The columns of a table, in several tables where not every word of them has room beside the others; the first
    column says in each of them which row it is.

    >>> columns_that_fit(TextTable(("stage", "teacher", "student"), [("body", "1,226", "314")]), 20)
    [[0, 1], [0, 2]]
    """
    needed = _needed(table)
    found = [[0]]
    for column in range(1, len(needed)):
        taken = [needed[other] + _BETWEEN for other in (*found[-1], column)]
        if sum(taken) > width and len(found[-1]) > 1:
            found.append([0])
        found[-1].append(column)
    return found


def _style(cell: str) -> str:
    return _STYLES.get(cell.partition(" ")[0], "")


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
