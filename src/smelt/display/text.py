"""Blocks as text: whole for `str`; for a terminal no wider than that where it can be helped, and with its colours.

Numbers are never cut. On a narrow terminal headings and words are folded.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

from smelt.display.blocks import Block, Cell, Code, Facts, Lines, Table

__all__ = ["as_text", "print_blocks", "room"]

_WHOLE = 10_000
"""Columns where nothing limits a line."""
_LISTING = 120
"""The same for a table whose lines may be cut."""
_LEAST = 16
"""Columns that are left to words, where there are more of them than room."""
_GAP = 2
_UNSEEN = 0.05
"""Shades below this are none."""


def as_text(blocks: Iterable[Block], width: int | None = None, *, colours: bool = False) -> str:
    """All of it, however wide, unless there is a width to keep to."""
    drawn: list[str] = []
    before: Block | None = None
    for block in blocks:
        if isinstance(block, Table):
            lines = _drawn(block, width or (_LISTING if block.cut else _WHOLE), colours)
        else:
            lines = _lines(block)
        apart = isinstance(block, Table | Code) or isinstance(before, Table | Code)
        drawn += ["", *lines] if drawn and lines and apart else lines
        before = block if lines else before
    return "\n".join(drawn)


def room() -> int | None:
    """The columns of the terminal, or those that `COLUMNS` gives; None where lines may be of any length."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() or os.environ.get("COLUMNS") else None


def print_blocks(blocks: Iterable[Block]) -> None:
    """Print to a terminal in its width and with colours, or to a file: whole, unless `COLUMNS` says how wide it is."""
    text = as_text(blocks, room(), colours=sys.stdout.isatty())
    if text:
        sys.stdout.write(text + "\n")


def _lines(block: Facts | Lines | Code) -> list[str]:
    if isinstance(block, Lines):
        return list(block.lines)
    if isinstance(block, Code):
        return block.text.rstrip("\n").split("\n")
    wide = max((len(word) for word, _ in block.pairs), default=0) + _GAP
    return [f"{word:{wide}}{text}" for word, text in block.pairs]


def _drawn(block: Table, width: int, colours: bool) -> list[str]:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    rows = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in block.rows]
    widths = _widths(block, rows, width)
    drawn = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0))
    for column, (heading, wide) in enumerate(zip(block.headings, widths, strict=True)):
        side: Any = "left" if column in block.left else "right"
        drawn.add_column(Text(heading), justify=side, width=wide, overflow="fold")
    for number, row in enumerate(rows):
        if number in block.rules:
            drawn.add_section()
        *cells, last = row
        end = Cell(_cut(last.text, widths[-1])) if block.cut else last
        drawn.add_row(*(Text(cell.text, style=_style(cell)) for cell in (*cells, end)))
    paper = StringIO()
    whole = sum(widths) + _GAP * len(widths)
    # In a notebook rich would show the table by itself, instead of writing it.
    how: Any = {"force_terminal": colours, "color_system": "auto" if colours else None, "force_jupyter": False}
    Console(file=paper, width=whole, **how).print(drawn)
    return [*([block.title] if block.title else []), *(line.rstrip() for line in paper.getvalue().splitlines())]


def _widths(block: Table, rows: Sequence[Sequence[Cell]], limit: int) -> list[int]:
    """Of the columns: as wide as they are, or in little room the widest made narrower, none below its numbers."""
    from rich.cells import cell_len

    texts = [max([cell_len(row[column].text) for row in rows], default=0) for column in range(len(block.headings))]
    whole = [max(text, cell_len(head)) for text, head in zip(texts, block.headings, strict=True)]
    least = [min(text, _LEAST) if column in block.left else text for column, text in enumerate(texts)]
    least = [*whole[:-1], min(texts[-1], _LEAST)] if block.cut else least
    for widest in range(max(whole), 0, -1):
        widths = [max(low, min(full, widest)) for low, full in zip(least, whole, strict=True)]
        if sum(widths) + _GAP * (len(widths) - 1) <= limit:
            break
    return [max(1, width) for width in widths]


def _cut(text: str, most: int) -> str:
    """In one line, and no longer than so many cells."""
    from rich.cells import cell_len, set_cell_size

    line = " ".join(text.split())
    return line if cell_len(line) <= most else set_cell_size(line, most - 1).rstrip() + "…"


def _style(cell: Cell) -> str:
    share = min(1.0, abs(cell.shade))
    if share < _UNSEEN:
        return "bold" if cell.best else ""
    strong, weak = round(235 - 185 * share), round(245 - 45 * share)
    colour = f"rgb({strong},{strong},{weak})" if cell.shade > 0 else f"rgb({weak},{strong},{strong})"
    return f"{'white' if share > 0.5 else 'black'} on {colour}"
