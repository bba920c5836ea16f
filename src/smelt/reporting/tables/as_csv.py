"""Tables as CSV: one line per model and task, every digit, with count and interval. For programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from smelt.evaluation.row import Row
from smelt.reporting.tables.cells import Cell
from smelt.reporting.tables.lines import TableLine
from smelt.reporting.tables.sheet import ColumnBlock, Sheet, printed

__all__ = ["as_csv", "number_alone", "number_of", "point_records", "task_records", "with_block", "with_line"]

_HEAD = "group entry variant label setting task split accuracy low high n correct loss".split()
_MORE = "part block data_split data_images data_labels".split()


def as_csv(sheets: Sequence[Sheet]) -> str:
    """Tasks, then `average` and `normalised average` as tasks of their own. Accuracies between 0 and 1.

    `block` is the key of the columns a number stands in; `data_...` is what data made the model. In the short form of
    a table its blocks stand in the place of tasks, under `average`. A line of work may add one word (`Sheet.extra`).
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    heads = [*_HEAD, *_MORE, *dict.fromkeys(sheet.extra for sheet in sheets if sheet.extra)]
    writer.writerow(heads)
    for sheet in printed(sheets):
        records = sheet.records or task_records
        for block in sheet.blocks:
            for line in block.grid.lines:
                writer.writerows([*one, *[""] * (len(heads) - len(one))] for one in records(line, block, sheet.part))
    return text.getvalue()


def task_records(line: TableLine, block: ColumnBlock, part: str | None) -> Iterator[list[object]]:
    """Every task of a line, its average and its share of the experts."""
    who, more, split = with_line(line, line.setting), with_block(line, block, part), block.grid.split
    for task, cell in zip((*block.grid.tasks, "average"), (*line.cells, line.average), strict=True):
        if cell is not None and (block.grid.average or task != "average"):
            yield [*who, task, split, *(number_of(cell) if cell.n else number_alone(cell.accuracy)), *more]
    if line.normalised is not None:
        ends = line.normalised_interval
        numbers = [repr(line.normalised), *map(repr, ends), "", "", ""] if ends else number_alone(line.normalised)
        yield [*who, "normalised average", split, *numbers, *more]


def point_records(line: TableLine, block: ColumnBlock, part: str | None) -> Iterator[list[object]]:
    """Averages along an axis, whose place is the setting."""
    for x, cell in zip(block.grid.tasks, line.cells, strict=True):
        if cell is not None:
            who = [*with_line(line, {block.key: json.loads(x)}), "average", block.grid.split]
            here = [row for row in line.rows if f"{row.setting[block.key]:g}" == x]
            yield [*who, *number_of(cell), part or line.part or "", block.key, *_budget(here)]


def with_line(line: TableLine, setting: Mapping[str, Any]) -> list[object]:
    """The words of a record that say which model it is of."""
    text = json.dumps(setting, sort_keys=True) if setting else ""
    return [line.group, line.entry, line.variant, line.label, text]


def with_block(line: TableLine, block: ColumnBlock, part: str | None) -> list[object]:
    """The words that say where in the table it stands, and what data made the model."""
    return [part or "", block.key, *_budget(line.rows)]


def number_alone(value: float) -> list[object]:
    """A number that has no interval and no count."""
    return [repr(value), "", "", "", "", ""]


def number_of(cell: Cell) -> list[object]:
    """A number with its interval, its count and its loss."""
    loss = "" if cell.loss is None else repr(cell.loss)
    correct = "" if cell.correct is None else cell.correct
    return [repr(cell.accuracy), repr(cell.low), repr(cell.high), cell.n, correct, loss]


def _budget(rows: Sequence[Row]) -> list[object]:
    """The splits that were used and the most pictures and labels of any model of the line."""
    used = [row.data_budget for row in rows if row.data_budget.images or row.data_budget.labels]
    if not used:
        return ["", 0, 0]
    splits = "; ".join(dict.fromkeys(budget.split or "" for budget in used))
    return [splits, max(budget.images for budget in used), max(budget.labels for budget in used)]
