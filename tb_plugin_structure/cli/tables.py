"""What a command says: sentences and tables, as plain text for files and pipes, with colours in a terminal.

Plain text has columns as wide as their widest cell and cuts nothing, so that equal records give equal text. In a
terminal the tables are drawn by rich, when it is installed (the extra ``[cli]``), and wrap instead.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class TextTable(NamedTuple):
    """A table; `right` are the columns aligned to the right."""

    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    right: frozenset[int] = frozenset()


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
        table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, expand=False)
        for column, name in enumerate(part.head):
            table.add_column(
                Text(name), justify="right" if column in part.right else "left", overflow="fold", min_width=4
            )
        for row in part.rows:
            # Text, not markup: brackets in shapes and paths are no styles.
            table.add_row(*(Text(str(cell), style=_style(str(cell))) for cell in row))
        console.print(table)


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
