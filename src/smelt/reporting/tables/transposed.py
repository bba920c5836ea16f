"""A table turned on its side, as data: its lines are columns, its tasks, average and share are rows.

A paper that compares few tasks and many methods prints it so. Blocks follow each other below, each under its title.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smelt.reporting.tables.cells import Cell
from smelt.reporting.tables.grid import Grid
from smelt.reporting.tables.lines import Line
from smelt.reporting.tables.sheet import Sheet
from smelt.reporting.words import percent

__all__ = ["ColumnHead", "Number", "TransposedRow", "transposed_heads", "transposed_rows"]


@dataclass(frozen=True)
class ColumnHead:
    """What stands above a column; `tip` is how the model was made."""

    text: str
    tip: str
    reference: bool


@dataclass(frozen=True)
class Number:
    """One number with its place, and its interval where it has one. `of`: examples, and how many of them are right."""

    value: float
    rank: int = 0
    interval: tuple[float, float] | None = None
    of: str = ""

    @property
    def text(self) -> str:
        """`71.3 % (95 % interval 69.3 to 73.2), 1,426 of 2,000 right`."""
        said = f"{percent(self.value)} %"
        if self.interval is not None:
            said += f" (95 % interval {percent(self.interval[0])} to {percent(self.interval[1])})"
        return f"{said}, {self.of}" if self.of else said


@dataclass(frozen=True)
class TransposedRow:
    """One row: a task with its note, or a mean over all of them."""

    label: str
    note: str
    numbers: tuple[Number | None, ...]
    mean: bool = False


def transposed_heads(sheet: Sheet) -> list[ColumnHead]:
    """The columns: the lines of the table."""
    return [ColumnHead(line.short or line.name, _tip(line), not line.merged) for line in sheet.lines]


def transposed_rows(sheet: Sheet) -> list[tuple[str, list[TransposedRow]]]:
    """The title of every block with its rows."""
    return [(block.title, _rows(block.grid)) for block in sheet.blocks]


def _rows(grid: Grid) -> list[TransposedRow]:
    notes: Sequence[str] = grid.notes or [""] * len(grid.tasks)
    rows = [
        TransposedRow(task, note, tuple(_number(line.cells[at], grid.unit) for line in grid.lines))
        for at, (task, note) in enumerate(zip(grid.tasks, notes, strict=True))
    ]
    if grid.average:
        averages = tuple(_number(line.average, grid.unit) for line in grid.lines)
        rows.append(TransposedRow(grid.average, "", averages, mean=True))
    if grid.has_share:
        rows.append(TransposedRow(grid.share, "", tuple(map(_share, grid.lines)), mean=True))
    return rows


def _number(cell: Cell | None, unit: str) -> Number | None:
    if cell is None:
        return None
    said = f"{cell.n:,} {unit}s" if cell.correct is None else f"{cell.correct:,} of {cell.n:,} right"
    ends = (cell.low, cell.high) if cell.n else None
    return Number(cell.accuracy, cell.rank, ends, said if cell.n or cell.correct is not None else "")


def _share(line: Line) -> Number | None:
    if line.normalised is None:
        return None
    return Number(line.normalised, line.normalised_rank, line.normalised_interval)


def _tip(line: Line) -> str:
    return "; ".join(filter(None, [line.label, line.details]))
