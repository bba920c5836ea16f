"""A table as it is printed, before the marks of a format: headings, tiers of blocks, groups of lines, numbers.

One may be turned on its side: its lines are columns, its tasks, average and share are rows. A paper that compares few
tasks and many methods prints it so. Blocks follow each other below, each under its title.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smelt.reporting.tables.cells import Cell
from smelt.reporting.tables.grid import Grid
from smelt.reporting.tables.lines import TableLine
from smelt.reporting.tables.sheet import ColumnBlock, Sheet
from smelt.reporting.words import percent

__all__ = [
    "ColumnHead",
    "Number",
    "PrintedLine",
    "PrintedTier",
    "TransposedRow",
    "printed_heads",
    "printed_tiers",
    "transposed_heads",
    "transposed_rows",
]


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


def _share(line: TableLine) -> Number | None:
    if line.normalised is None:
        return None
    return Number(line.normalised, line.normalised_rank, line.normalised_interval)


def _tip(line: TableLine) -> str:
    return "; ".join(filter(None, [line.label, line.details]))


@dataclass(frozen=True)
class PrintedLine:
    """A label with what stands beside it, and (value, rank) for every column. `mean`: over the lines above it."""

    label: str
    note: str
    numbers: list[tuple[float | None, int]]
    mean: bool = False


@dataclass(frozen=True)
class PrintedTier:
    """Blocks side by side: their titles with their widths, none where no block has one; then groups of lines."""

    titles: list[tuple[str, int]]
    groups: list[tuple[str, list[PrintedLine]]]


def printed_heads(sheet: Sheet) -> list[str]:
    """The headings after the first."""
    if sheet.transposed:
        return [head.text for head in transposed_heads(sheet)]
    return [name for block in sheet.tiers()[0] for name in block.grid.heads]


def printed_tiers(sheet: Sheet) -> list[PrintedTier]:
    """Everything below the headings."""
    if not sheet.transposed:
        return [_tier(sheet, tier) for tier in sheet.tiers()]
    groups = [
        (title, [PrintedLine(one.label, one.note, [_pair(n) for n in one.numbers], one.mean) for one in rows])
        for title, rows in transposed_rows(sheet)
    ]
    return [PrintedTier([], groups)]


def _tier(sheet: Sheet, tier: Sequence[ColumnBlock]) -> PrintedTier:
    titles = [(block.title, len(block.grid.heads)) for block in tier]
    groups = []
    for title, members in sheet.groups(tier):
        lines = []
        for same in members:
            numbers = [one for line, block in zip(same, tier, strict=True) for one in block.grid.numbers(line)]
            lines.append(PrintedLine(same[0].label, sheet.note_of(same[0]), numbers))
        groups.append((title, lines))
    return PrintedTier(titles if any(title for title, _ in titles) else [], groups)


def _pair(number: Number | None) -> tuple[float | None, int]:
    return (None, 0) if number is None else (number.value, number.rank)
