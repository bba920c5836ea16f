"""Tables as CSV: one line per model and task, every digit, with count and interval. For programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence

from smelt.evaluate.row import Row
from smelt.report.grid import Cell, Line
from smelt.report.sheet import Block, Sheet
from smelt.report.tables import printed

__all__ = ["as_csv"]

_HEAD = "group entry variant label setting task split accuracy low high n correct loss".split()
_MORE = "part block data_split data_images data_labels".split()


def as_csv(sheets: Sequence[Sheet]) -> str:
    """Tasks, then `average` and `normalised average` as tasks of their own. Accuracies between 0 and 1.

    `block` is `seen` or `unseen`, or the corruption whose severities a number is the mean of; `data_...` is what data
    made the model. In the short form of a table with corruptions these stand in the place of tasks, under `average`.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_HEAD, *_MORE])
    for sheet in printed(sheets):
        for block in sheet.blocks:
            for line in block.grid.lines:
                writer.writerows(_lines(line, block, sheet.part))
    return text.getvalue()


def _lines(line: Line, block: Block, part: str | None) -> Iterator[list[object]]:
    setting = json.dumps(line.setting, sort_keys=True) if line.setting else ""
    who = [line.group, line.entry, line.variant, line.label, setting]
    more = [part or "", block.key, *_budget(line.rows)]
    split = block.grid.split
    for task, cell in zip((*block.grid.tasks, "average"), (*line.cells, line.average), strict=True):
        if cell is not None:
            yield [*who, task, split, *_numbers(cell), *more]
    if line.normalised is not None:
        yield [*who, "normalised average", split, repr(line.normalised), "", "", "", "", "", *more]


def _numbers(cell: Cell) -> list[object]:
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
