"""A table turned on its side, as data: its lines are columns, its tasks, average and share are rows.

A paper that compares few tasks and many methods prints it so. Blocks follow each other below, each under its title.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smelt.reporting.tables.columns import beside, has_ratio
from smelt.reporting.tables.grid import Cell, Grid, Line
from smelt.reporting.tables.sheet import Sheet
from smelt.reporting.words import percent

__all__ = ["Head", "Number", "TurnedRow", "turned_heads", "turned_rows"]


@dataclass(frozen=True)
class Head:
    """What stands above a column; `tip` is how the model was made."""

    text: str
    tip: str
    reference: bool


@dataclass(frozen=True)
class Number:
    """One number with its place, and its interval where it has one."""

    value: float
    rank: int = 0
    interval: tuple[float, float] | None = None
    n: int = 0
    correct: int | None = None

    @property
    def text(self) -> str:
        """`71.3 % (95 % interval 69.3 to 73.2), 1,426 of 2,000 right`."""
        said = f"{percent(self.value)} %"
        if self.interval is not None:
            said += f" (95 % interval {percent(self.interval[0])} to {percent(self.interval[1])})"
        if self.correct is not None:
            return f"{said}, {self.correct:,} of {self.n:,} right"
        return f"{said}, {self.n:,} examples" if self.n else said


@dataclass(frozen=True)
class TurnedRow:
    """One row: a task with its note, or a mean over all of them."""

    label: str
    note: str
    numbers: tuple[Number | None, ...]
    mean: bool = False


def turned_heads(sheet: Sheet) -> list[Head]:
    """The columns: the lines of the table."""
    return [Head(line.short or line.name, _tip(line), not line.merged) for line in sheet.lines]


def turned_rows(sheet: Sheet) -> list[tuple[str, list[TurnedRow]]]:
    """The title of every block with its rows."""
    return [(block.title, _rows(block.grid)) for block in sheet.blocks]


def _rows(grid: Grid) -> list[TurnedRow]:
    notes: Sequence[str] = grid.notes or [""] * len(grid.tasks)
    rows = [
        TurnedRow(task, note, tuple(_number(line.cells[at]) for line in grid.lines))
        for at, (task, note) in enumerate(zip(grid.tasks, notes, strict=True))
    ]
    if grid.average:
        rows.append(TurnedRow(grid.average, "", tuple(_number(line.average) for line in grid.lines), mean=True))
    if has_ratio(grid):
        rows.append(TurnedRow(grid.share, "", tuple(map(_share, grid.lines)), mean=True))
    return rows


def _number(cell: Cell | None) -> Number | None:
    if cell is None:
        return None
    return Number(cell.accuracy, cell.rank, (cell.low, cell.high) if cell.n else None, cell.n, cell.correct)


def _share(line: Line) -> Number | None:
    if line.normalised is None:
        return None
    return Number(line.normalised, line.normalised_rank, line.normalised_interval)


def _tip(line: Line) -> str:
    return "; ".join(filter(None, [line.label, beside(line)]))
