"""The lines of a table: rows of one model brought together, in groups by how the model was made."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from smelt.evaluation.row import Row
from smelt.reporting.budget import data_text, loud_text
from smelt.reporting.tables.cells import Cell, cell_of, mean_cell
from smelt.reporting.words import setting_text

__all__ = ["EXPERT", "EXPERTS", "GROUPS", "SHOWN", "CellOf", "LineReader", "TableLine", "is_expert", "last_cell"]

EXPERT = "expert-"
"""An expert's entry is this word and its own task: `expert-photos`."""
EXPERTS = "experts"
"""The entry of the line that has every expert on its own task."""

GROUPS = {
    "reference": "Reference",
    "data-free": "Model merging (data-free)",
    "data-driven": "Model merging (with data)",
    "mix": "Model mixing",
    "ensemble": "Ensembles (reference: several models are run)",
    "single": "Single models",
}
"""Groups with their headings, in the order of the table."""
SHOWN = ("reference", "published", "tuned", "single")
"""The variants that a table has; rows along curves and paths are left to their figures."""

CellOf = Callable[[Sequence[Row]], Cell | None]
"""From the rows of one model on one task to the number of the table."""


@dataclass(frozen=True)
class TableLine:
    """One model, or the experts taken together, on every task."""

    entry: str
    variant: str
    label: str
    setting: dict[str, Any]
    group: str
    cells: tuple[Cell | None, ...]
    rows: tuple[Row, ...]
    average: Cell | None = None
    normalised: float | None = None
    """Its share of what the table compares with."""
    normalised_rank: int = 0
    normalised_interval: tuple[float, float] | None = None
    gap: float | None = None
    """How far its columns are apart, where a table compares the two."""
    gap_rank: int = 0
    note: str = ""
    data: str = ""
    """The data that made the model, in words; empty where none did."""
    loud: str = ""
    """A warning: the model was made with the data that it is tested on."""
    short: str = ""
    """What stands above its column where lines are columns; the name unless given."""

    @property
    def merged(self) -> bool:
        """Whether it is one model of the experts' own size."""
        return self.group in ("data-free", "data-driven")

    @property
    def name(self) -> str:
        """The label with what tells it from its published twin."""
        return f"{self.label} (tuned)" if self.variant == "tuned" else self.label

    @property
    def part(self) -> str | None:
        """The part of the suite that it belongs to, if the suite has parts."""
        return next((row.part for row in self.rows if row.part), None)

    @property
    def details(self) -> str:
        """`density 0.2, scale 0.3`, `tuned: scale 0.4`, `each on its own task`, the data it used, or nothing."""
        text = "; ".join(filter(None, [self.note, setting_text(self.setting)]))
        if self.variant == "tuned":
            text = f"tuned: {text}" if text else "tuned"
        return "; ".join(filter(None, [text, self.data, self.loud]))

    @property
    def share(self) -> Cell | None:
        """Its share of what it is compared with as a number of its own, where that has an interval."""
        if self.normalised is None or self.normalised_interval is None:
            return None
        return Cell(self.normalised, *self.normalised_interval, sum(cell.n for cell in self.cells if cell))


class LineReader:
    """How rows become lines. A line of work overrides what its rows say otherwise."""

    unit = "picture"
    """What data is counted in."""
    groups: Mapping[str, str] = GROUPS

    def group(self, row: Row) -> str:
        """The group of a model."""
        if row.variant == "single":
            return "single"
        if row.way != "merge":
            return row.way
        if row.variant == "reference":
            return "reference"
        return "data-driven" if row.data_budget.images and row.variant == "published" else "data-free"

    def models(self, rows: Iterable[Row]) -> list[list[Row]]:
        """Rows of one model together. Of an entry that was tuned twice, to different settings, the last one counts."""
        rows = list(rows)
        tuned = {row.entry: row.recipe_hash for row in rows if row.variant == "tuned"}
        models: dict[tuple[str, ...], list[Row]] = {}
        for row in rows:
            if row.variant != "tuned" or row.recipe_hash == tuned[row.entry]:
                setting = json.dumps(row.setting, sort_keys=True, default=str)
                models.setdefault((row.entry, row.variant, setting, str(row.seed)), []).append(row)
        return list(models.values())

    def number(self, row: Row) -> Hashable:
        """Which number of its model a row is; one that was measured twice counts as measured last."""
        return row.task

    def label(self, rows: Sequence[Row]) -> str:
        """What a model is called."""
        return rows[0].label

    def data(self, rows: Sequence[Row]) -> str:
        """The data that made a model, in words."""
        return data_text(rows, self.unit)

    def lines(
        self, rows: Sequence[Row], tasks: Sequence[str], split: str, cell: CellOf | None = None
    ) -> list[TableLine]:
        """Every model of the rows, in the order of the table; the experts together are one line."""
        cell = cell or last_cell
        models = self.models(row for row in rows if not is_expert(row))
        lines = [self._line(model, tasks, split, cell) for model in models]
        experts = [row for row in rows if is_expert(row)]
        return self._in_order([*lines, *([self._experts(experts, tasks, cell)] if experts else [])])

    def _line(self, rows: Sequence[Row], tasks: Sequence[str], split: str, cell: CellOf) -> TableLine:
        first = rows[0]
        cells = tuple(cell([row for row in rows if row.task == task]) for task in tasks)
        return TableLine(
            first.entry,
            first.variant,
            self.label(rows),
            first.setting,
            self.group(first),
            cells,
            self._latest(rows),
            mean_cell(cells),
            data=self.data(rows),
            loud=loud_text(rows, split, self.unit),
        )

    def _experts(self, rows: Sequence[Row], tasks: Sequence[str], cell: CellOf) -> TableLine:
        own = [row for row in rows if row.entry == EXPERT + row.task]
        cells = tuple(cell([row for row in own if row.task == task]) for task in tasks)
        alone = TableLine(EXPERTS, "reference", "Fine-tuned experts", {}, "reference", cells, self._latest(own))
        return replace(alone, average=mean_cell(cells), note="each on its own task")

    def _latest(self, rows: Sequence[Row]) -> tuple[Row, ...]:
        return tuple({self.number(row): row for row in rows}.values())

    def _in_order(self, lines: Sequence[TableLine]) -> list[TableLine]:
        """By group, and a tuned line below the published one of the same entry, whose group it shares."""
        groups = {line.entry: line.group for line in lines if line.variant == "published"}
        lines = [replace(m, group=groups.get(m.entry, m.group)) if m.variant == "tuned" else m for m in lines]
        order, entries = list(self.groups), list(dict.fromkeys(line.entry for line in lines))
        return sorted(lines, key=lambda m: (order.index(m.group), entries.index(m.entry), SHOWN.index(m.variant)))


def is_expert(row: Row) -> bool:
    """Whether a row is of one of the models that were merged."""
    return row.variant == "reference" and row.entry.startswith(EXPERT)


def last_cell(rows: Sequence[Row]) -> Cell | None:
    """A task that was measured twice counts as measured last."""
    return cell_of(rows[-1]) if rows else None
