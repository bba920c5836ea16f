"""A suite's tables in the terminal, laid out as the report's: tasks across, methods down, the best in bold.

Numbers are never cut. On a narrow terminal the tasks' names are, then the methods'; in a log nothing is. Corruptions
are shown in short, kinds across, and so is merging beside ensembling: averages only. What data made which lines stands
below.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from smelt.evaluation.row import CostRow, Row
    from smelt.reporting.tables.grid import Cell, Line
    from smelt.reporting.tables.sheet import Sheet

__all__ = ["layout", "show"]

_SHORT = {"average": "mean", "of experts": "norm", "corrupted": "mean", "seen avg": "seen", "unseen avg": "unseen"}
_TUNED = " (tuned)"
_SHARE = "of experts"
_LABEL, _LEAST = 28, 16
"""Characters that methods' names get before tasks' names grow, and what they keep on any terminal."""


def show(rows: Sequence[Row | CostRow]) -> None:
    """Print the tables; numbers are per cent."""
    from rich.console import Console

    from smelt.evaluation.row import CostRow, Row
    from smelt.suites.sheets import build_sheets

    console = Console()
    costs = [row for row in rows if isinstance(row, CostRow)]
    for number, sheet in enumerate(build_sheets((row for row in rows if isinstance(row, Row)), costs)):
        if number:
            console.print()
        short = sheet.summary or sheet
        _print(replace(short, blocks=short.blocks[-1:]) if short.levels else short, console)


def _print(sheet: Sheet, console: Console) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    lines, heads = _lines(sheet), _heads(sheet)
    labels = [label for label, _ in lines]
    numbers = [max((len(cells[i][0]) for _, cells in lines if cells), default=0) for i in range(len(heads))]
    room = console.width if console.is_terminal or os.environ.get("COLUMNS") else None
    gap, widths = layout(max(map(len, labels), default=0), heads, numbers, room)
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    table.add_column("", no_wrap=True, width=widths[0])
    for head, width in zip(heads, widths[1:], strict=True):
        table.add_column(Text(_head(head, width)), justify="right", no_wrap=True, width=width)
    for label, cells in lines:
        name = Text(_label(label, widths[0]), style="" if cells else "dim")
        table.add_row(name, *(Text(number, style="bold" if best else "") for number, best in cells))
    for text in filter(None, [sheet.title, sheet.about]):
        console.print(Text(text), soft_wrap=True)
    Console(width=max(console.width, sum(widths) + gap * len(heads))).print(table)
    for text in _below(sheet):
        console.print(Text(text, style="dim"), soft_wrap=True)


def layout(label: int, heads: Sequence[str], numbers: Sequence[int], room: int | None) -> tuple[int, list[int]]:
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


def _heads(sheet: Sheet) -> list[str]:
    """Tasks and averages of all blocks; only a plain table is compared with the experts."""
    from smelt.reporting.tables.columns import heads

    if sheet.levels or sheet.axis:
        return [head.lower() for head in heads(sheet.blocks[0].grid)]
    found = []
    for block in sheet.blocks:
        found += [*block.grid.tasks, f"{block.key} avg" if block.title else block.grid.average.lower()]
    return [*found, _SHARE] if found[-1] == "average" else found


def _lines(sheet: Sheet) -> list[tuple[str, list[tuple[str, bool]]]]:
    """Every line's name and its numbers, the best marked; a heading has no numbers."""
    from smelt.reporting.tables.columns import columns

    found: list[tuple[str, list[tuple[str, bool]]]] = []
    apart, shares = sheet.levels or sheet.axis, _SHARE in _heads(sheet)
    for title, members in sheet.groups(sheet.blocks):
        found += [(title, [])] if title else []
        for lines in members:
            if apart:
                numbers = columns(lines[0], sheet.blocks[0].grid)
                name = f"{lines[0].name}, {lines[0].note}" if sheet.axis else lines[0].name
                found.append((name, [("" if v is None else f"{100 * v:.1f}", rank == 1) for v, rank in numbers]))
                continue
            cells = [_shown(cell) for line in lines for cell in (*line.cells, line.average)]
            found.append((lines[0].name, [*cells, *([_share(lines[0])] if shares else [])]))
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


def _share(line: Line) -> tuple[str, bool]:
    return ("", False) if line.normalised is None else (f"{100 * line.normalised:.1f}", line.normalised_rank == 1)


def _shown(cell: Cell | None) -> tuple[str, bool]:
    return ("", False) if cell is None else (f"{100 * cell.accuracy:.1f}", cell.rank == 1)


def _head(head: str, width: int) -> str:
    return head if len(head) <= width else _SHORT.get(head, head)[:width]


def _label(label: str, width: int) -> str:
    """The name cut to a width; that it is tuned stays readable."""
    if len(label) <= width:
        return label
    end = _TUNED if label.endswith(_TUNED) else ""
    return label[: width - len(end) - 1].rstrip() + "…" + end
