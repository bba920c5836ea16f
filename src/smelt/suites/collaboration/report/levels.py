"""Merging beside ensembling: one table per pool of experts, with Mer., Ens. and Gap for every task and on average.

    Gap = |Mer. - Ens.|            of the averages: |mean Mer. - mean Ens.|, which is not the mean of the gaps
    Of experts = mean Mer. / mean of the experts' own accuracies

A small gap alone is no success (both may be bad), so the share of the experts stands beside it. Everything is counted
again from the right answers of the rows. A model without a level (a reference) is one model: it stands under Mer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from smelt.evaluation.row import Level, Row
from smelt.reporting.tables.cells import Cell, cell_of
from smelt.reporting.tables.grid import Grid, tasks_of
from smelt.reporting.tables.lines import CellOf, Line, lines_of
from smelt.reporting.tables.ranks import places
from smelt.reporting.tables.sheet import Block, Sheet

__all__ = ["AVERAGE", "LEVELS", "at_level", "counted", "largest", "level_sheet"]

LEVELS: dict[Level, str] = {"merged": "Mer.", "ensembled": "Ens."}
AVERAGE = "average"
"""The key of the last block."""
_ABOUT = (
    "Mer.: the weights of the experts are merged into one model (by NeuLig and the mixture into one for each picture, "
    "after all experts have seen it, unless the line says otherwise). Ens.: the experts run side by side and what they "
    "compute is averaged, with the same coefficients. Gap: how far the two are apart, in points; under Avg. that of "
    "the two averages. Of experts: the average of Mer. in % of the experts' own. –: the method has no one coefficient "
    "per model, or was not measured."
)
_PLACES = "Best of a column in bold, second underlined; of Gap the smallest."


def level_sheet(rows: Sequence[Row], split: str, part: str | None = None) -> Sheet:
    """One pool: a block for every task, then their average."""
    tasks = tasks_of(rows)
    merged, ensembled = (lines_of(rows, tasks, split, at_level(level)) for level in LEVELS)
    pairs = list(zip(merged, ensembled, strict=True))
    blocks = [
        Block(task, task, _grid([_line(m, m.cells[at], e.cells[at]) for m, e in pairs], split))
        for at, task in enumerate(tasks)
    ]
    average = _of_experts([_line(m, m.average, e.average) for m, e in pairs])
    blocks.append(Block(AVERAGE, "Avg.", _grid(average, split)))
    return Sheet(tuple(blocks), part or "", _ABOUT, len(blocks), part=part, levels=True, places=_PLACES)


def at_level(level: Level) -> CellOf:
    """The number of one level, as measured last; what has no level counts as one merged model."""

    def cell(rows: Sequence[Row]) -> Cell | None:
        found = [row for row in rows if (row.level or "merged") == level]
        return counted(found[-1]) if found else None

    return cell


def counted(row: Row) -> Cell:
    """The number of a row, from its counts where it has them."""
    return replace(cell_of(row), accuracy=row.accuracy if row.correct is None else row.correct / row.n)


def largest(sheets: Sequence[Sheet]) -> Sheet | None:
    """The table with most methods, of equals the one with most tasks: where most can be compared."""
    return max(
        (sheet for sheet in sheets if sheet.levels),
        key=lambda sheet: (len(sheet.lines), len(sheet.blocks)),
        default=None,
    )


def _line(line: Line, merged: Cell | None, ensembled: Cell | None) -> Line:
    # Rounded far below one picture: equal differences of counts are equal gaps.
    gap = round(abs(merged.accuracy - ensembled.accuracy), 12) if merged and ensembled else None
    return replace(line, cells=(merged, ensembled), gap=gap)


def _of_experts(lines: Sequence[Line]) -> list[Line]:
    experts = next((line.average for line in lines if line.entry == "experts"), None)
    if experts is None or not experts.accuracy:
        return list(lines)
    return [replace(m, normalised=m.average.accuracy / experts.accuracy if m.average else None) for m in lines]


def _grid(lines: Sequence[Line], split: str) -> Grid:
    """With the best and the second of every column marked. All methods compete: most keep all experts anyway."""
    rivals = [line for line in lines if line.group != "reference"]
    cells = [places([-1.0 if (cell := m.cells[at]) is None else cell.accuracy for m in rivals]) for at in (0, 1)]
    gaps = places([-1.0 if m.gap is None else m.gap for m in rivals], lowest=True)
    shares = places([-1.0 if m.normalised is None else m.normalised for m in rivals])

    def ranked(line: Line) -> Line:
        if line.group == "reference":
            return line
        pair = zip(line.cells, cells, strict=True)
        placed = tuple(cell and replace(cell, rank=column.get(cell.accuracy, 0)) for cell, column in pair)
        gap = 0 if line.gap is None else gaps.get(line.gap, 0)
        share = 0 if line.normalised is None else shares.get(line.normalised, 0)
        return replace(line, cells=placed, gap_rank=gap, normalised_rank=share)

    return Grid(tuple(LEVELS.values()), split, tuple(map(ranked, lines)), "", "Of experts")
