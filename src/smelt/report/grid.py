"""The table as data: one line per model, one cell per task, averages, and who is best in a column.

The average of T tasks is their plain mean. Its interval combines the tasks' own (they are independent samples):
    low = mean - sqrt(sum_t (acc_t - low_t)^2) / T        and so upwards      (Zou & Donner 2008)
Of two averages the higher one is surely so where their difference exceeds its own interval, combined in the same way
(models see the same pictures, so that this errs on the side of caution).
The normalised average is the mean over tasks of accuracy / accuracy of the task's own expert.
A line that lacks a task has no average: a mean over fewer tasks would not be comparable.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from smelt.evaluate.row import Row

__all__ = ["EXPERT", "GROUPS", "Cell", "Grid", "Line", "build_grid", "mean_cell", "surely_above"]

EXPERT = "expert-"
"""An expert's entry is this word and its own task: `expert-photos`."""

Group = Literal["reference", "data-free", "data-driven", "single"]
GROUPS: dict[Group, str] = {
    "reference": "Reference",
    "data-free": "Model merging (data-free)",
    "data-driven": "Model merging (with data)",
    "single": "Single models",
}
_SHOWN = ("reference", "published", "tuned", "single")


@dataclass(frozen=True)
class Cell:
    """One number with its interval. `rank` is 1 for the best merge of the column, 2 for the second."""

    accuracy: float
    low: float
    high: float
    n: int
    correct: int | None = None
    loss: float | None = None
    rank: int = 0


@dataclass(frozen=True)
class Line:
    """One model, or the experts taken together, on every task."""

    entry: str
    variant: str
    label: str
    setting: dict[str, Any]
    group: Group
    cells: tuple[Cell | None, ...]
    rows: tuple[Row, ...]
    average: Cell | None = None
    normalised: float | None = None
    normalised_rank: int = 0
    note: str = ""

    @property
    def merged(self) -> bool:
        return self.group in ("data-free", "data-driven")

    @property
    def name(self) -> str:
        """The label with what tells it from its published twin."""
        return f"{self.label} (tuned)" if self.variant == "tuned" else self.label


@dataclass(frozen=True)
class Grid:
    """Tasks in the order of the suite, lines in the order of the table."""

    tasks: tuple[str, ...]
    split: str
    lines: tuple[Line, ...]

    def groups(self) -> list[tuple[str, list[Line]]]:
        """The headings of the table, each with its lines."""
        found = [(title, [line for line in self.lines if line.group == group]) for group, title in GROUPS.items()]
        return [(title, lines) for title, lines in found if lines]

    @property
    def merges(self) -> list[Line]:
        return [line for line in self.lines if line.merged]

    @property
    def ranked(self) -> list[Line]:
        """The merges that have an average, best first."""
        return sorted((m for m in self.merges if m.average), key=lambda m: -_accuracy(m.average))

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
        splits = sorted({row.data_budget.split for row in tuned if row.data_budget.split})
        if not tuned:
            return ""
        where = f" on {' and '.join(splits)} pictures" if splits else ""
        return f"scale chosen{where}" + (" - THE VERY SPLIT OF THIS TABLE" if self.split in splits else "")


def build_grid(rows: Iterable[Row]) -> Grid:
    """The table of a suite: rows along curves and paths are left to their figures, one split is chosen (test first)."""
    shown = [row for row in rows if row.variant in _SHOWN]
    splits = [row.split for row in shown]
    split = "test" if "test" in splits else max(splits, key=splits.count, default="")
    shown = [row for row in shown if row.split == split]
    tasks = tuple(dict.fromkeys(row.task for row in shown))
    experts = [row for row in shown if _is_expert(row)]
    lines = [_line(rows, tasks) for rows in _by_model(row for row in shown if not _is_expert(row))]
    if experts:
        lines.append(_experts_line(experts, tasks))
    return Grid(tasks, split, tuple(_rank(_normalise(_in_order(lines)))))


def mean_cell(cells: Sequence[Cell | None]) -> Cell | None:
    """The average of a line, None where a task is missing."""
    known = [cell for cell in cells if cell is not None]
    if not known or len(known) < len(cells):
        return None
    mean = sum(cell.accuracy for cell in known) / len(known)
    below = math.sqrt(sum((cell.accuracy - cell.low) ** 2 for cell in known)) / len(known)
    above = math.sqrt(sum((cell.high - cell.accuracy) ** 2 for cell in known)) / len(known)
    return Cell(mean, mean - below, mean + above, sum(cell.n for cell in known))


def surely_above(one: Cell, other: Cell) -> bool:
    """Whether one average is above another by more than the 95 % interval of their difference."""
    return one.accuracy - other.accuracy > math.hypot(one.accuracy - one.low, other.high - other.accuracy)


def _is_expert(row: Row) -> bool:
    return row.variant == "reference" and row.entry.startswith(EXPERT)


def _by_model(rows: Iterable[Row]) -> list[list[Row]]:
    """Rows of one model together. Of an entry that was tuned twice, to different settings, the last one counts."""
    rows = list(rows)
    tuned = {row.entry: row.recipe_hash for row in rows if row.variant == "tuned"}
    models: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row.variant == "tuned" and row.recipe_hash != tuned[row.entry]:
            continue
        key = (row.entry, row.variant, json.dumps(row.setting, sort_keys=True, default=str), str(row.seed))
        models.setdefault(key, []).append(row)
    return list(models.values())


def _line(rows: Sequence[Row], tasks: Sequence[str]) -> Line:
    latest = {row.task: row for row in rows}  # a task that was measured twice counts as measured last
    first = rows[0]
    cells = tuple(_cell(latest.get(task)) for task in tasks)
    group: Group = "data-driven" if first.data_budget.images and first.variant == "published" else "data-free"
    if first.variant in ("reference", "single"):
        group = first.variant
    kept = tuple(latest.values())
    return Line(first.entry, first.variant, first.label, first.setting, group, cells, kept, mean_cell(cells))


def _experts_line(rows: Sequence[Row], tasks: Sequence[str]) -> Line:
    own = {row.task: row for row in rows if row.entry == EXPERT + row.task}
    cells = tuple(_cell(own.get(task)) for task in tasks)
    note = "each on its own task"
    return Line(
        "experts",
        "reference",
        "Fine-tuned experts",
        {},
        "reference",
        cells,
        tuple(own.values()),
        mean_cell(cells),
        note=note,
    )


def _cell(row: Row | None) -> Cell | None:
    return Cell(row.accuracy, row.low, row.high, row.n, row.correct, row.loss) if row else None


def _in_order(lines: Sequence[Line]) -> list[Line]:
    """By group, and a tuned line below the published one of the same entry, whose group it shares."""
    groups: dict[str, Group] = {line.entry: line.group for line in lines if line.variant == "published"}
    lines = [replace(m, group=groups[m.entry]) if m.variant == "tuned" and m.entry in groups else m for m in lines]
    heads = list(GROUPS)
    entries = list(dict.fromkeys(line.entry for line in lines))
    variants = list(_SHOWN)
    return sorted(lines, key=lambda m: (heads.index(m.group), entries.index(m.entry), variants.index(m.variant)))


def _normalise(lines: Sequence[Line]) -> list[Line]:
    experts = next((line for line in lines if line.entry == "experts" and line.average), None)
    return [replace(line, normalised=_ratio(line, experts)) for line in lines] if experts else list(lines)


def _ratio(line: Line, experts: Line) -> float | None:
    pairs = list(zip(line.cells, experts.cells, strict=True))
    ratios = [a.accuracy / b.accuracy for a, b in pairs if a and b and b.accuracy > 0]
    return sum(ratios) / len(ratios) if len(ratios) == len(pairs) else None


def _rank(lines: Sequence[Line]) -> list[Line]:
    merges = [line for line in lines if line.merged]
    tasks = len(lines[0].cells) if lines else 0
    columns = [_places([_accuracy(m.cells[t]) for m in merges]) for t in range(tasks)]
    averages = _places([_accuracy(m.average) for m in merges])
    ratios = _places([-1.0 if m.normalised is None else m.normalised for m in merges])

    def ranked(line: Line) -> Line:
        if not line.merged:
            return line
        cells = tuple(
            c and replace(c, rank=column.get(c.accuracy, 0)) for c, column in zip(line.cells, columns, strict=True)
        )
        average = line.average and replace(line.average, rank=averages.get(line.average.accuracy, 0))
        ratio = 0 if line.normalised is None else ratios.get(line.normalised, 0)
        return replace(line, cells=cells, average=average, normalised_rank=ratio)

    return [ranked(line) for line in lines]


def _places(values: Sequence[float]) -> dict[float, int]:
    """The best value and the second best, where there is more than one model to compare."""
    best = sorted({value for value in values if value >= 0}, reverse=True)[:2]
    return {value: place for place, value in enumerate(best, 1)} if len(values) > 1 else {}


def _accuracy(cell: Cell | None) -> float:
    return -1.0 if cell is None else cell.accuracy
