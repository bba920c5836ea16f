"""How the tables of a selection suite are laid out: models over sets, over a few means, the paper's beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from smelt.evaluation.row import Row
from smelt.reporting.tables.cells import Cell, cell_of, mean_cell, mean_on_same_examples
from smelt.reporting.tables.grid import Grid
from smelt.reporting.tables.lines import TableLine
from smelt.reporting.tables.ranks import with_ranks
from smelt.reporting.tables.sheet import ColumnBlock, Sheet
from smelt.suites.selection.paper import uqmerge
from smelt.suites.selection.report.analyses import KINDS, SelectionAnalysis, SelectionBudget

__all__ = ["Scores", "Shown", "beside_paper", "over_means", "over_sets", "ranked"]

_AVERAGE = "Avg."


class Shown(NamedTuple):
    """A line that is wanted: a model, or several whose mean is shown; nothing where there is no such model."""

    label: str
    who: str | Sequence[str] | None
    group: str = "data-free"
    note: str = ""
    setting: bool = True
    """Whether the setting stands beside the label."""

    def by(self, budget: SelectionBudget) -> Shown:
        """The same line of a model that was chosen by looking at data."""
        return self._replace(group=budget.group, note="; ".join(filter(None, [self.note, budget.text])))


def over_sets(
    scores: Scores, key: str, title: str, about: str, lines: Sequence[Shown], kinds: Sequence[str], *, headings: bool
) -> Sheet:
    """Lines over the sets of some kinds, each kind with its average."""
    blocks = []
    for kind in kinds:
        tasks = scores.selection.sets[kind]
        made = [_line(scores, one, tasks) for one in lines if one.who]
        split = "val" if kind == "validation" else "test"
        blocks.append(ColumnBlock(f"{key}: {kind}", KINDS[kind], Grid(tasks, split, tuple(ranked(made)), _AVERAGE)))
    said = f"{about}{_apart(blocks[0].grid.lines)}"
    return Sheet(tuple(blocks), title, said, across=len(blocks), headings=headings, part=key)


def over_means(key: str, title: str, about: str, heads: Sequence[str], lines: Sequence[TableLine]) -> Sheet:
    """Lines over a few columns, each the mean of something."""
    grid = Grid(tuple(heads), "test", tuple(ranked(lines)), "")
    return Sheet((ColumnBlock(key, "This run", grid),), title, f"{about}{_apart(lines)}", headings=False, part=key)


def ranked(lines: Sequence[TableLine]) -> list[TableLine]:
    """The same lines with the best and the second merge of each group marked: those chosen by data apart."""
    found = list(lines)
    for group in dict.fromkeys(line.group for line in lines if line.merged):
        own = [number for number, line in enumerate(lines) if line.group == group]
        for number, line in zip(own, with_ranks([lines[number] for number in own]), strict=True):
            found[number] = line
    return found


def beside_paper(sheet: Sheet, heads: Sequence[str], cells: Sequence[Sequence[Cell | None]], what: str = "") -> Sheet:
    """The same table with the paper's own numbers as a block of columns; nothing of our models is in it."""
    theirs = [
        replace(line, cells=tuple(own), average=None, rows=(), setting={}, note="")
        for line, own in zip(sheet.lines, cells, strict=True)
    ]
    title = "The paper's own" + (f", {what}" if what else "")
    block = ColumnBlock(f"paper: {sheet.part}", title, Grid(tuple(heads), "paper", tuple(ranked(theirs)), ""))
    said = f"{sheet.about} The paper's own numbers are of other models and sets: {uqmerge().source}."
    return replace(sheet, blocks=(*sheet.blocks, block), across=len(sheet.blocks) + 1, about=said)


def _apart(lines: Sequence[TableLine]) -> str:
    both = {line.group for line in lines if line.merged} == {"data-free", "data-driven"}
    return " Merges chosen by looking at data are marked apart from those without any." if both else ""


def _line(scores: Scores, one: Shown, tasks: Sequence[str]) -> TableLine:
    assert one.who is not None
    line = scores.line(one.label, one.who, tasks, one.group, note=one.note)
    return line if one.setting else replace(line, setting={})


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
    ) -> TableLine:
        """A line over sets; of several models, their mean."""
        many = [who] if isinstance(who, str) else list(who)
        cells = tuple(self._over(many, task) for task in tasks)
        rows = tuple(row for one in many for task, row in self._rows.get(one, {}).items() if task in tasks)
        setting = rows[0].setting if rows else {}
        name = entry or (rows[0].entry if rows else many[0].partition("@")[0])
        variant = "reference" if group in ("reference", "single") else "published"
        return TableLine(name, variant, label, setting, group, cells, rows, mean_cell(cells), note=note)

    def summary(self, line: TableLine, columns: Sequence[tuple[str | Sequence[str], Sequence[str]]]) -> TableLine:
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
