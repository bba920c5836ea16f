"""The table as data: one line per model, one cell per task, averages, and who is best in a column.

Cells and averages: `cells`. Lines and their groups: `lines`. Places: `ranks`.
A line that lacks a task has no average: a mean over fewer tasks would not be comparable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from smelt.evaluation.row import Row
from smelt.reporting.budget import split_words
from smelt.reporting.tables.lines import EXPERTS, GROUPS, SHOWN, CellOf, LineReader, TableLine
from smelt.reporting.tables.ranks import normalised, with_ranks

__all__ = ["NORMALISED", "Grid", "best_first", "build_grid", "grid_of", "table_rows", "tasks_of"]

NORMALISED = "Normalised"


@dataclass(frozen=True)
class Grid:
    """Tasks in the order of the suite, lines in the order of the table."""

    tasks: tuple[str, ...]
    split: str
    lines: tuple[TableLine, ...]
    average: str = "Average"
    """The heading of the column after the tasks; empty where a table has none."""
    share: str = NORMALISED
    """The heading of the column that compares with the experts, or with another reference."""
    notes: tuple[str, ...] = ()
    """What is said of each task, where something is: its metric, its number of examples."""
    headings: Mapping[str, str] = field(default_factory=lambda: GROUPS)
    """The groups of lines in the order of the table, with their headings."""
    unit: str = "picture"
    """What data is counted in."""
    share_of: str = "the experts' accuracy, averaged over tasks"
    gap_of: str = ""
    """What the column `Gap` compares."""

    def groups(self) -> list[tuple[str, list[TableLine]]]:
        """The headings of the table, each with its lines."""
        found = {group: [line for line in self.lines if line.group == group] for group in self.headings}
        return [(self.headings[group], lines) for group, lines in found.items() if lines]

    @property
    def has_share(self) -> bool:
        """Whether any line can be compared with the experts."""
        return any(line.normalised is not None for line in self.lines)

    @property
    def has_gap(self) -> bool:
        """Whether two columns are compared on any line."""
        return any(line.gap is not None for line in self.lines)

    @property
    def heads(self) -> list[str]:
        """The headings after the name: tasks, average, gap, share."""
        found = [*self.tasks, *([self.average] if self.average else []), *(["Gap"] if self.has_gap else [])]
        return [*found, self.share] if self.has_share else found

    def numbers(self, line: TableLine) -> list[tuple[float | None, int]]:
        """(value, rank) of a line for every column after the name."""
        cells = (*line.cells, line.average) if self.average else line.cells
        found: list[tuple[float | None, int]] = [(cell.accuracy, cell.rank) if cell else (None, 0) for cell in cells]
        found += [(line.gap, line.gap_rank)] if self.has_gap else []
        return [*found, (line.normalised, line.normalised_rank)] if self.has_share else found

    @property
    def merges(self) -> list[TableLine]:
        return [line for line in self.lines if line.merged]

    @property
    def larger(self) -> list[TableLine]:
        """Mixtures and ensembles: more than one model of the experts' size, so that they take no place."""
        return [line for line in self.lines if line.group in ("mix", "ensemble")]

    @property
    def ranked(self) -> list[TableLine]:
        """The merges that have an average, best first."""
        return best_first(self.merges)

    @property
    def best(self) -> TableLine | None:
        """The merge with the highest average."""
        return next(iter(self.ranked), None)

    @property
    def experts(self) -> TableLine | None:
        return next((line for line in self.lines if line.entry == EXPERTS), None)

    @property
    def base(self) -> TableLine | None:
        """The model that everything started from: the first reference that is no expert."""
        return next((line for line in self.lines if line.group == "reference" and line.entry != EXPERTS), None)

    @property
    def examples(self) -> int:
        """How many pictures a model saw, of all tasks together."""
        columns = zip(*(line.cells for line in self.lines), strict=True)
        return sum(max((cell.n for cell in column if cell), default=0) for column in columns)

    @property
    def tuned_on(self) -> str:
        """How the tuned lines came to their scale, as their rows say; empty where nothing was tuned."""
        tuned = [row for line in self.lines if line.variant == "tuned" for row in line.rows]
        splits = sorted({word for row in tuned for word in split_words(row.data_budget)})
        if not tuned:
            return ""
        where = f" on {' and '.join(splits)} {self.unit}s" if splits else ""
        return f"scale chosen{where}" + (" - THE VERY SPLIT OF THIS TABLE" if self.split in splits else "")


def build_grid(rows: Iterable[Row], reader: LineReader | None = None) -> Grid:
    """The table of a suite; one split is chosen (test first)."""
    shown, split = table_rows(rows)
    return grid_of(shown, tasks_of(shown), split, reader or LineReader())


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
    reader: LineReader,
    *,
    cell: CellOf | None = None,
    average: str = "Average",
    share: bool = True,
) -> Grid:
    """A table over some tasks; every model of the rows has its line. `share`: compare with the experts."""
    lines = reader.lines(rows, tasks, split, cell)
    ranked = tuple(with_ranks(normalised(lines) if share else lines))
    return Grid(tuple(tasks), split, ranked, average, headings=reader.groups, unit=reader.unit)


def best_first(lines: Iterable[TableLine]) -> list[TableLine]:
    """Those that have an average like the others', the highest first."""
    known = [(line.average.accuracy, line) for line in lines if line.average and line.average.whole]
    return [line for _, line in sorted(known, key=lambda pair: -pair[0])]
