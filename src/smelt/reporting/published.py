"""Numbers that others printed, beside ours: a table of a paper as data, and what our rows say of each of its cells.

The file of a suite's folder is `analyses/published.json`; a suite's YAML names the tables (`smelt.suites.published`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError, model_validator

from smelt.errors import CorruptFile
from smelt.evaluation.row import Row
from smelt.files.schema import Strict, first_fault
from smelt.reporting.tables.lines import EXPERT, EXPERTS

__all__ = [
    "ComparedCell",
    "ComparedLine",
    "ComparedTable",
    "PublishedLine",
    "PublishedTable",
    "cell_rows",
    "comparable",
    "compared",
    "read_published",
]

_FIRST = ("reference", "published", "tuned", "single")
"""Which of our rows stands beside a printed number, where there are several; `PublishedLine.variant` says another."""


GAP = "gap"
"""The level of a table whose numbers are how far the two levels of a method are apart."""
_LEVELS = ("merged", "ensembled")


class PublishedLine(Strict):
    """One printed line. What it does not say is as its table says."""

    label: str
    values: list[float | None]
    """As printed, one for each column; the average is the last where the table has one."""
    entry: str | None = None
    """Our own name of the method, where it is not the line's key."""
    variant: str | None = None
    """Whether it is beside our `published` or our `tuned` setting."""
    part: str | None = None
    level: str | None = None
    note: str = ""


class PublishedTable(Strict):
    """One printed table: methods down, tasks across."""

    source: str
    table: str
    title: str = ""
    columns: list[str] = Field(min_length=1)
    """Our names of the tasks, in the order printed."""
    means: dict[str, list[str]] = {}
    """By column, the tasks of ours whose mean stands there; a column that is not named is one task."""
    heads: list[str] = []
    """What stands above the columns, where it is not our name."""
    average: bool = True
    """Whether every line ends with the mean over the columns, as printed."""
    unit: str = "percent"
    part: str | None = None
    level: str | None = None
    corruption: str | None = None
    """`motion_blur@3`, or `motion_blur` for the mean over its severities; nothing for clean pictures."""
    lines: dict[str, PublishedLine]
    notes: list[str] = []

    @model_validator(mode="after")
    def _has_a_number_for_each_column(self) -> PublishedTable:
        wanted = len(self.columns) + self.average
        for name, line in self.lines.items():
            if len(line.values) != wanted:
                raise ValueError(f"lines.{name}: {len(line.values)} values, {wanted} are wanted")
        if self.heads and len(self.heads) != len(self.columns):
            raise ValueError(f"heads: {len(self.heads)} for {len(self.columns)} columns")
        return self


@dataclass(frozen=True)
class ComparedCell:
    """Our number and the printed one, both in the unit of the table; None where there is none."""

    ours: float | None
    theirs: float | None

    @property
    def difference(self) -> float | None:
        return None if self.ours is None or self.theirs is None else self.ours - self.theirs


@dataclass(frozen=True)
class ComparedLine:
    """One method."""

    label: str
    note: str
    cells: tuple[ComparedCell, ...]


@dataclass(frozen=True)
class ComparedTable:
    """A printed table with ours in every cell that we measured."""

    table: PublishedTable
    heads: tuple[str, ...]
    lines: tuple[ComparedLine, ...]
    examples: int
    """How many examples the largest of our cells was measured on; 0 where nothing was."""


def read_published(path: Path) -> tuple[PublishedTable, ...]:
    """The tables of a folder; none where there is no file."""
    from smelt.reporting.analyses import read_figure

    content = read_figure(path)
    try:
        return tuple(PublishedTable.model_validate(one) for one in (content or {}).get("tables", ()))
    except (ValidationError, TypeError) as error:
        fault = first_fault(error) if isinstance(error, ValidationError) else str(error)
        raise CorruptFile(f"{path}: {fault}; run the suite again") from None


def compared(table: PublishedTable, rows: Iterable[Row]) -> ComparedTable:
    """What our rows say of each cell."""
    known = comparable(table, rows)
    lines, most = [], 0
    for name, line in table.lines.items():
        level = line.level or table.level
        if level == GAP:
            found = [_numbers(known, name, line, table, one) for one in _LEVELS]
            ours = [_apart(*pair) for pair in zip(*(numbers for numbers, _ in found), strict=True)]
            seen = max(count for _, count in found)
        else:
            ours, seen = _numbers(known, name, line, table, level)
        most = max(most, seen)
        cells = tuple(ComparedCell(mine, theirs) for mine, theirs in zip(ours, line.values, strict=True))
        lines.append(ComparedLine(line.label, line.note, cells))
    heads = (*(table.heads or table.columns), *(["Average"] if table.average else []))
    return ComparedTable(table, heads, tuple(lines), most)


def comparable(table: PublishedTable, rows: Iterable[Row]) -> list[Row]:
    """The rows that can stand beside a table: of whole models, on pictures that are damaged as its are."""
    return [row for row in rows if row.variant in _FIRST and _damaged(row, table.corruption)]


def _apart(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else abs(one - other)


def _numbers(
    rows: Sequence[Row], name: str, line: PublishedLine, table: PublishedTable, level: str | None
) -> tuple[list[float | None], int]:
    """Our numbers of a line at one level, in the unit of the table and with their average, and the most examples."""
    scale = 100.0 if table.unit == "percent" else 1.0
    own = [_tasks_rows(rows, line.entry or name, line, table, column, level) for column in table.columns]
    ours = [_mean_of(cell, scale) for cell in own]
    if table.average:
        whole = [value for value in ours if value is not None]
        ours.append(sum(whole) / len(whole) if len(whole) == len(ours) else None)
    return ours, max([0, *(row.n for cell in own for task in cell for row in task)])


def _tasks_rows(
    rows: Sequence[Row], entry: str, line: PublishedLine, table: PublishedTable, column: str, level: str | None
) -> list[list[Row]]:
    """Our rows of one cell, task by task."""
    name = f"{EXPERT}{column}" if entry == EXPERTS else entry
    return [cell_rows(rows, name, line, table, task, level) for task in table.means.get(column, [column])]


def _mean_of(cell: Sequence[Sequence[Row]], scale: float) -> float | None:
    """The mean over the tasks; None where one of them was not measured."""
    scores = [sum(row.accuracy for row in task) / len(task) for task in cell if task]
    return scale * sum(scores) / len(scores) if scores and len(scores) == len(cell) else None


def cell_rows(
    rows: Sequence[Row], name: str, line: PublishedLine, table: PublishedTable, task: str, level: str | None
) -> list[Row]:
    """Our rows of one task: one, or one for each strength of a corruption. A single model has no level."""
    part = line.part or table.part
    found = [row for row in rows if row.task == task and row.entry == name]
    found = [row for row in found if row.level == level or (row.level is None and row.variant == "reference")]
    found = [row for row in found if row.part == part or (row.part is None and row.variant == "reference")]
    variants = [line.variant] if line.variant else [one for one in _FIRST if any(row.variant == one for row in found)]
    chosen = [row for row in found if variants and row.variant == variants[0]]
    newest = {row.corruption: row for row in chosen}
    return list(newest.values())


def _damaged(row: Row, corruption: str | None) -> bool:
    if corruption is None or row.corruption is None:
        return row.corruption == corruption
    return row.corruption == corruption or row.corruption.partition("@")[0] == corruption
