"""A selection suite in the terminal: averages over the sets of each kind, table by table, and the first words."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.evaluation.row import Row
from smelt.reporting.tables.cells import Cell
from smelt.reporting.tables.sheet import Sheet
from smelt.reporting.tables.terminal import shown_cell
from smelt.suites.selection.report.analyses import SelectionAnalysis
from smelt.suites.selection.report.headline import selection_sentences
from smelt.suites.selection.report.tables import selection_sheets

__all__ = ["show_selection"]


def show_selection(rows: Sequence[Row], selection: SelectionAnalysis) -> None:
    """Print what was measured here; the paper's own numbers are in the report."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for sheet in selection_sheets(rows, selection):
        console.print(Text(sheet.title, style="bold"), soft_wrap=True)
        console.print(_table(sheet))
        console.print()
    for sentence in selection_sentences(rows, selection):
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
        shown = [Text(number, style="bold" if best else "") for number, best in map(shown_cell, cells)]
        table.add_row(Text(lines[0].label), *shown, Text(lines[0].note))
    return table
