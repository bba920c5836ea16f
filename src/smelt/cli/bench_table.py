"""A suite's table in the terminal, laid out as the report's: tasks across, methods down, the best in bold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smelt.evaluate.row import CostRow, Row
    from smelt.report.grid import Cell

__all__ = ["show"]


def show(rows: Sequence[Row | CostRow]) -> None:
    """Print the table; numbers are per cent."""
    from rich.console import Console
    from rich.table import Table

    from smelt.evaluate.row import Row
    from smelt.report.grid import build_grid

    grid = build_grid([row for row in rows if isinstance(row, Row)])
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("", no_wrap=True)
    for name in (*grid.tasks, "average", "of experts"):
        table.add_column(name, justify="right")
    for title, lines in grid.groups():
        table.add_row(f"[dim]{title}[/dim]")
        for line in lines:
            share = f"{100 * line.normalised:.1f}" if line.normalised is not None else ""
            share = f"[bold]{share}[/bold]" if line.normalised_rank == 1 else share
            table.add_row(line.name, *(_shown(cell) for cell in line.cells), _shown(line.average), share)
    Console(width=None).print(table)


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return ""
    number = f"{100 * cell.accuracy:.1f}"
    return f"[bold]{number}[/bold]" if cell.rank == 1 else number
