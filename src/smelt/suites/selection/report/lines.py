"""The models of a selection suite as lines of tables: one model over some sets, or the mean of several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from smelt.evaluation.row import Row
from smelt.reporting.tables.cells import Cell, cell_of, mean_cell, mean_on_same_examples
from smelt.reporting.tables.lines import Line
from smelt.suites.selection.report.analyses import SelectionAnalysis

__all__ = ["Scores"]


class Scores:
    """The rows of a suite, by model and set."""

    def __init__(self, rows: Iterable[Row], selection: SelectionAnalysis):
        self.selection = selection
        self._rows: dict[str, dict[str, Row]] = {}
        for row in rows:
            who = row.entry if row.part is None else f"{row.entry}@{row.part}"
            self._rows.setdefault(who, {})[row.task] = row

    def cell(self, who: str, task: str) -> Cell | None:
        """One number."""
        row = self._rows.get(who, {}).get(task)
        return cell_of(row) if row else None

    def mean(self, who: str, tasks: Sequence[str]) -> Cell | None:
        """The mean over sets; None where one is missing."""
        return mean_cell([self.cell(who, task) for task in tasks])

    def mean_of(self, many: Sequence[str], tasks: Sequence[str]) -> Cell | None:
        """The mean over models of their means."""
        found = [self.mean(who, tasks) for who in many]
        known = [cell for cell in found if cell]
        return mean_on_same_examples(known) if len(known) == len(found) else None

    def line(
        self,
        label: str,
        who: str | Sequence[str],
        tasks: Sequence[str],
        group: str = "data-free",
        *,
        note: str = "",
        entry: str = "",
    ) -> Line:
        """A line over sets; of several models, their mean."""
        many = [who] if isinstance(who, str) else list(who)
        cells = tuple(self._over(many, task) for task in tasks)
        kept = tuple(row for one in many for task, row in self._rows.get(one, {}).items() if task in tasks)
        setting = kept[0].setting if kept else {}
        name = entry or (kept[0].entry if kept else many[0].partition("@")[0])
        variant = "reference" if group in ("reference", "single") else "published"
        return Line(name, variant, label, setting, group, cells, kept, mean_cell(cells), note=note)

    def summary(self, line: Line, columns: Sequence[tuple[str | Sequence[str], Sequence[str]]]) -> Line:
        """The same line with other columns, each the mean of some models over some sets."""
        cells = []
        for who, tasks in columns:
            cells.append(self.mean_of([who] if isinstance(who, str) else list(who), tasks))
        return replace(line, cells=tuple(cells), average=None)

    def _over(self, many: Sequence[str], task: str) -> Cell | None:
        found = [self.cell(who, task) for who in many]
        known = [cell for cell in found if cell]
        if not known or len(known) < len(found):
            return None
        return known[0] if len(known) == 1 else mean_on_same_examples(known)
