"""The table as data: one line per model, one cell per task, averages, and who is best in a column.

Cells and averages: `cells`. Lines and their groups: `lines`. Places: `ranks`.
A line that lacks a task has no average: a mean over fewer tasks would not be comparable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from smelt.evaluation.row import Row
from smelt.reporting.budget import split_words
from smelt.reporting.tables.cells import Cell, mean_cell, surely_above
from smelt.reporting.tables.lines import EXPERT, GROUPS, SHOWN, CellOf, Line, last_cell, lines_of
from smelt.reporting.tables.ranks import normalised, with_ranks

__all__ = [
    "EXPERT",
    "GROUPS",
    "Cell",
    "Grid",
    "Line",
    "best_first",
    "build_grid",
    "grid_of",
    "mean_cell",
    "surely_above",
    "table_rows",
    "tasks_of",
]


@dataclass(frozen=True)
class Grid:
    """Tasks in the order of the suite, lines in the order of the table."""

    tasks: tuple[str, ...]
    split: str
    lines: tuple[Line, ...]
    average: str = "Average"
    """The heading of the column after the tasks; empty where a table has none."""
    share: str = "Normalised"
    """The heading of the column that compares with the experts."""
    notes: tuple[str, ...] = ()
    """What is said of each task, where something is: its metric, its number of examples."""

    def groups(self) -> list[tuple[str, list[Line]]]:
        """The headings of the table, each with its lines."""
        found = [(title, [line for line in self.lines if line.group == group]) for group, title in GROUPS.items()]
        return [(title, lines) for title, lines in found if lines]

    @property
    def merges(self) -> list[Line]:
        return [line for line in self.lines if line.merged]

    @property
    def larger(self) -> list[Line]:
        """Mixtures and ensembles: more than one model of the experts' size, so that they take no place."""
        return [line for line in self.lines if line.group in ("mix", "ensemble")]

    @property
    def ranked(self) -> list[Line]:
        """The merges that have an average, best first."""
        return best_first(self.merges)

    @property
    def experts(self) -> Line | None:
        return next((line for line in self.lines if line.entry == "experts"), None)

    @property
    def base(self) -> Line | None:
        """The model that everything started from: the first reference that is no expert."""
        return next((line for line in self.lines if line.group == "reference" and line.entry != "experts"), None)

    @property
    def tuned_on(self) -> str:
        """How the tuned lines came to their scale, as their rows say; empty where nothing was tuned."""
        tuned = [row for line in self.lines if line.variant == "tuned" for row in line.rows]
        splits = sorted({word for row in tuned for word in split_words(row.data_budget)})
        if not tuned:
            return ""
        where = f" on {' and '.join(splits)} pictures" if splits else ""
        return f"scale chosen{where}" + (" - THE VERY SPLIT OF THIS TABLE" if self.split in splits else "")


def build_grid(rows: Iterable[Row]) -> Grid:
    """The table of a suite on clean pictures; one split is chosen (test first)."""
    shown, split = table_rows(row for row in rows if row.corruption is None)
    return grid_of(shown, tasks_of(shown), split)


def table_rows(rows: Iterable[Row]) -> tuple[list[Row], str]:
    """The rows that tables are made of, all of one split, and the split."""
    shown = [row for row in rows if row.variant in SHOWN]
    splits = [row.split for row in shown]
    split = "test" if "test" in splits else max(splits, key=splits.count, default="")
    return [row for row in shown if row.split == split], split


def tasks_of(rows: Iterable[Row]) -> tuple[str, ...]:
    """The tasks in the order of the suite."""
    return tuple(dict.fromkeys(row.task for row in rows))


def grid_of(
    rows: Sequence[Row],
    tasks: Sequence[str],
    split: str,
    *,
    cell: CellOf = last_cell,
    average: str = "Average",
    share: bool = True,
) -> Grid:
    """A table over some tasks; every model of the rows has its line. `share`: compare with the experts."""
    lines = lines_of(rows, tasks, split, cell)
    return Grid(tuple(tasks), split, tuple(with_ranks(normalised(lines) if share else lines)), average)


def best_first(lines: Iterable[Line]) -> list[Line]:
    """Those that have an average like the others', the highest first."""
    known = [(line.average.accuracy, line) for line in lines if line.average and line.average.whole]
    return [line for _, line in sorted(known, key=lambda pair: -pair[0])]
