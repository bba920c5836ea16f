"""A selection suite in the terminal: averages over the sets of each kind, table by table, and the first words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smelt.evaluation.row import CostRow, Row
    from smelt.reporting.tables.cells import Cell
    from smelt.reporting.tables.sheet import Sheet
    from smelt.suites.selection.report.analyses import Selection

__all__ = ["show_selection"]


def show_selection(rows: Sequence[Row | CostRow], selection: Selection) -> None:
    """Print what was measured here; the paper's own numbers are in the report."""
    from rich.console import Console
    from rich.text import Text

    from smelt.evaluation.row import Row
    from smelt.suites.selection.report.headline import selection_sentences
    from smelt.suites.selection.report.tables import selection_sheets

    console, scored = Console(), [row for row in rows if isinstance(row, Row)]
    for sheet in selection_sheets(scored, selection):
        console.print(Text(sheet.title, style="bold"), soft_wrap=True)
        console.print(_table(sheet))
        console.print()
    for sentence in selection_sentences(scored, selection):
        console.print(Text(sentence), soft_wrap=True)


def _table(sheet: Sheet) -> object:
    from rich.table import Table
    from rich.text import Text

    blocks = [block for block in sheet.blocks if not block.key.startswith("paper")]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    for block in blocks:
        for head in [f"{block.title.lower()} %"] if block.grid.average else [f"{one} %" for one in block.grid.tasks]:
            table.add_column(head, justify="right", no_wrap=True)
    table.add_column("", style="dim")
    for lines in zip(*(block.grid.lines for block in blocks), strict=True):
        cells: list[Cell | None] = []
        for line, block in zip(lines, blocks, strict=True):
            cells += [line.average] if block.grid.average else line.cells
        numbers = ["" if cell is None else f"{100 * cell.accuracy:.1f}" for cell in cells]
        marks = ["bold" if cell and cell.rank == 1 else "" for cell in cells]
        shown = [Text(number, style=mark) for number, mark in zip(numbers, marks, strict=True)]
        table.add_row(Text(lines[0].label), *shown, Text(lines[0].note))
    return table
