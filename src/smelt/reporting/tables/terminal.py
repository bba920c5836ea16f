"""Tables in the terminal, laid out as the report's: tasks across, methods down, the best in bold.

Numbers are never cut. On a narrow terminal the tasks' names are, then the methods'; in a log nothing is. What data made
which lines stands below.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from smelt.reporting.tables.cells import Cell
from smelt.reporting.tables.lines import TableLine
from smelt.reporting.tables.sheet import Sheet

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Shown", "column_widths", "print_lines", "print_sheets", "shown_cell", "shown_share"]

_SHARE = "of experts"
_SHORT = {"average": "mean", _SHARE: "norm"}
_TUNED = " (tuned)"
_LABEL, _LEAST = 28, 16
"""Characters that methods' names get before tasks' names grow, and what they keep on any terminal."""

Shown = tuple[str, bool]
"""A number as text, and whether it is the best."""


def print_sheets(sheets: Iterable[Sheet], short: Mapping[str, str]) -> None:
    """Print tables one below the other; numbers are per cent. `short`: headings where there is little room."""
    from rich.console import Console
    from rich.text import Text

    console = Console()

    def cut(head: str, width: int) -> str:
        return {**_SHORT, **short}.get(head, head.removesuffix(" avg"))[:width]

    for number, sheet in enumerate(sheets):
        if number:
            console.print()
        for text in filter(None, [sheet.title, sheet.about]):
            console.print(Text(text), soft_wrap=True)
        print_lines(console, _heads(sheet), _lines(sheet), cut, _label)
        for text in _below(sheet):
            console.print(Text(text, style="dim"), soft_wrap=True)


def print_lines(
    console: Console,
    heads: Sequence[str],
    lines: Sequence[tuple[str, Sequence[Shown]]],
    cut_head: Callable[[str, int], str],
    cut_label: Callable[[str, int], str],
) -> None:
    """Print lines of numbers below their heads; a line without numbers is a heading. Names are cut to their widths."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    numbers = [max((len(cells[i][0]) for _, cells in lines if cells), default=0) for i in range(len(heads))]
    room = console.width if console.is_terminal or os.environ.get("COLUMNS") else None
    gap, widths = column_widths(max((len(label) for label, _ in lines), default=0), heads, numbers, room)
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    table.add_column("", no_wrap=True, width=widths[0])
    for head, width in zip(heads, widths[1:], strict=True):
        text = head if len(head) <= width else cut_head(head, width)
        table.add_column(Text(text), justify="right", no_wrap=True, width=width)
    for label, cells in lines:
        text = label if len(label) <= widths[0] else cut_label(label, widths[0])
        name = Text(text, style="" if cells else "dim")
        table.add_row(name, *(Text(number, style="bold" if best else "") for number, best in cells))
    Console(width=max(console.width, sum(widths) + gap * len(heads))).print(table)


def column_widths(label: int, heads: Sequence[str], numbers: Sequence[int], room: int | None) -> tuple[int, list[int]]:
    """The gap between columns and their widths: names first, then one for each head, none below its numbers.

    `label` and `numbers` are the longest lengths of their columns; `room` is the terminal's width, None in a log.
    """
    full = [max(len(head), number) for head, number in zip(heads, numbers, strict=True)]
    if room is None or label + sum(full) + 2 * len(full) <= room:
        return 2, [label, *full]
    room -= len(full)
    first = min(label, _LABEL)
    for widest in range(max(full), 0, -1):
        cut = [max(number, min(whole, widest)) for number, whole in zip(numbers, full, strict=True)]
        if first + sum(cut) <= room:
            break
    return 1, [min(label, max(room - sum(cut), _LEAST)), *cut]


def shown_cell(cell: Cell | None) -> Shown:
    """A number in percent, nothing where there is none."""
    return ("", False) if cell is None else (f"{100 * cell.accuracy:.1f}", cell.rank == 1)


def shown_share(line: TableLine | None) -> Shown:
    """A line's share of what it is compared with, in percent."""
    if line is None or line.normalised is None:
        return ("", False)
    return f"{100 * line.normalised:.1f}", line.normalised_rank == 1


def _heads(sheet: Sheet) -> list[str]:
    """Tasks and averages of all blocks; only a plain table is compared with the experts."""
    if not sheet.blocks[0].grid.average:
        return [head.lower() for head in sheet.blocks[0].grid.heads]
    found = []
    for block in sheet.blocks:
        found += [*block.grid.tasks, f"{block.key} avg" if block.title else block.grid.average.lower()]
    return [*found, _SHARE] if found[-1] == "average" else found


def _lines(sheet: Sheet) -> list[tuple[str, list[Shown]]]:
    """Every line's name and its numbers, the best marked; a heading has no numbers."""
    found: list[tuple[str, list[Shown]]] = []
    grid, shares = sheet.blocks[0].grid, _SHARE in _heads(sheet)
    for title, members in sheet.groups(sheet.blocks):
        found += [(title, [])] if title else []
        for lines in members:
            if not grid.average:
                name = f"{lines[0].name}, {lines[0].note}" if sheet.axis else lines[0].name
                numbers = [("" if v is None else f"{100 * v:.1f}", rank == 1) for v, rank in grid.numbers(lines[0])]
                found.append((name, numbers))
                continue
            cells = [shown_cell(cell) for line in lines for cell in (*line.cells, line.average)]
            found.append((lines[0].name, [*cells, *([shown_share(lines[0])] if shares else [])]))
    return found


def _below(sheet: Sheet) -> list[str]:
    """Which lines were made with which data, those with the same budget together; and what takes no place."""
    found: dict[str, list[str]] = {}
    tuned = {line.data for line in sheet.lines if line.variant == "tuned"}
    for line in sheet.lines:
        if line.data:
            names = found.setdefault("; ".join(filter(None, [line.data, line.loud])), [])
            name = "the tuned ones" if line.variant == "tuned" and len(tuned) == 1 else line.name
            names += [name] * (name not in names)
    said = [f"made with {text}: {', '.join(names)}" for text, names in found.items()]
    larger = any(block.grid.larger for block in sheet.blocks)
    return [*said, *(["mixtures and ensembles are more than one model's size and are not ranked"] if larger else [])]


def _label(label: str, width: int) -> str:
    """The name cut to a width; that it is tuned stays readable."""
    end = _TUNED if label.endswith(_TUNED) else ""
    return label[: width - len(end) - 1].rstrip() + "…" + end
