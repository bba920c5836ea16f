"""Merging beside ensembling: one table per pool of experts, with Mer., Ens. and Gap for every task and on average.

    Gap = |Mer. - Ens.|            of the averages: |mean Mer. - mean Ens.|, which is not the mean of the gaps
    Of experts = mean Mer. / mean of the experts' own accuracies

A small gap alone is no success (both may be bad), so the share of the experts stands beside it. Everything is counted
again from the right answers of the rows. A model without a level (a reference) is one model: it stands under Mer.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

from smelt.evaluation.row import Level, Row
from smelt.reporting.tables.as_csv import number_alone, number_of, with_block, with_line
from smelt.reporting.tables.cells import Cell, cell_of
from smelt.reporting.tables.grid import Grid, tasks_of
from smelt.reporting.tables.lines import EXPERTS, GROUPS, CellOf, LineReader, TableLine
from smelt.reporting.tables.ranks import share_of, with_ranks
from smelt.reporting.tables.sheet import ColumnBlock, Sheet

__all__ = [
    "AVERAGE",
    "LEVELS",
    "NEULIG",
    "LevelReader",
    "at_level",
    "counted",
    "is_level_sheet",
    "largest",
    "level_sheet",
    "with_absent",
]

LEVELS: dict[Level, str] = {"merged": "Mer.", "ensembled": "Ens."}
NEULIG = "neulig"
"""The group of that method, and what every entry of it begins with: `neulig-supervised`, `neulig-semi-map`."""
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


class LevelReader(LineReader):
    """Methods that collaborate at either level, and NeuLig among them."""

    groups: Mapping[str, str] = {
        **{group: title for group, title in GROUPS.items() if group != "single"},
        "collaboration": "Multi-task collaboration",
        NEULIG: "Neural Ligand",
        "single": GROUPS["single"],
    }

    def group(self, row: Row) -> str:
        """By its level and its entry."""
        if row.level is None or row.variant == "single":
            return super().group(row)
        return NEULIG if row.entry.startswith(NEULIG) else "collaboration"

    def number(self, row: Row) -> Hashable:
        """A task at a level."""
        return row.task, row.level


def level_sheet(rows: Sequence[Row], split: str, part: str | None = None) -> Sheet:
    """One pool: a block for every task, then their average."""
    tasks = tasks_of(rows)
    merged, ensembled = (LevelReader().lines(rows, tasks, split, at_level(level)) for level in LEVELS)
    pairs = list(zip(merged, ensembled, strict=True))
    blocks = [
        ColumnBlock(task, task, _grid([_line(m, m.cells[at], e.cells[at]) for m, e in pairs], split))
        for at, task in enumerate(tasks)
    ]
    average = share_of([_line(m, m.average, e.average) for m, e in pairs], EXPERTS)
    blocks.append(ColumnBlock(AVERAGE, "Avg.", _grid(average, split)))
    return Sheet(
        tuple(blocks),
        part or "",
        _ABOUT,
        len(blocks),
        part=part,
        dense=True,
        rivals="method",
        places=_PLACES,
        extra="level",
        records=_records,
    )


def with_absent(sheet: Sheet, absent: Mapping[str, tuple[str, str]]) -> Sheet:
    """The table with a line of dashes, and the reason, for each method {entry: (label, why)} that was not computed."""
    there = {line.entry for line in sheet.lines}
    more = [
        TableLine(entry, "published", label, {}, "collaboration", (None, None), (), note=f"not computed: {why}")
        for entry, (label, why) in absent.items()
        if entry not in there and entry not in ("transfer", "fractions")
    ]
    if not more:
        return sheet
    first = next((at for at, line in enumerate(sheet.lines) if line.group == NEULIG), len(sheet.lines))
    blocks = tuple(
        replace(block, grid=replace(block.grid, lines=(*block.grid.lines[:first], *more, *block.grid.lines[first:])))
        for block in sheet.blocks
    )
    return replace(sheet, blocks=blocks)


def at_level(level: Level) -> CellOf:
    """The number of one level, as measured last; what has no level counts as one merged model."""

    def cell(rows: Sequence[Row]) -> Cell | None:
        found = [row for row in rows if (row.level or "merged") == level]
        return counted(found[-1]) if found else None

    return cell


def counted(row: Row) -> Cell:
    """The number of a row, from its counts where it has them."""
    return replace(cell_of(row), accuracy=row.accuracy if row.correct is None else row.correct / row.n)


def is_level_sheet(sheet: Sheet) -> bool:
    """Whether a table compares merging with ensembling."""
    return sheet.records is _records


def largest(sheets: Sequence[Sheet]) -> Sheet | None:
    """The table with most methods, of equals the one with most tasks: where most can be compared."""
    return max(
        filter(is_level_sheet, sheets),
        key=lambda sheet: (len(sheet.lines), len(sheet.blocks)),
        default=None,
    )


def _line(line: TableLine, merged: Cell | None, ensembled: Cell | None) -> TableLine:
    # Rounded far below one picture: equal differences of counts are equal gaps.
    gap = round(abs(merged.accuracy - ensembled.accuracy), 12) if merged and ensembled else None
    return replace(line, cells=(merged, ensembled), gap=gap)


def _grid(lines: Sequence[TableLine], split: str) -> Grid:
    """With the best and the second of every column marked. All methods compete: most keep all experts anyway."""
    ranked = tuple(with_ranks(lines, lambda line: line.group != "reference"))
    headings, gap = LevelReader.groups, "merged and ensembled"
    return Grid(tuple(LEVELS.values()), split, ranked, "", "Of experts", headings=headings, gap_of=gap)


def _records(line: TableLine, block: ColumnBlock, part: str | None) -> Iterator[list[object]]:
    """One task, or their average: both levels, the gap, and the share of the experts where it is known."""
    who, more = [*with_line(line, line.setting), block.key, block.grid.split], with_block(line, block, part)
    for level, cell in zip(LEVELS, line.cells, strict=True):
        if cell is not None:
            yield [*who, *number_of(cell), *more, "" if line.group == "reference" else level]
    for name, value in (("gap", line.gap), ("of experts", line.normalised)):
        if value is not None:
            yield [*who, *number_alone(value), *more, name]
