"""Tables as CSV: one line per model and task, every digit, with count and interval. For programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from smelt.evaluation.row import Row
from smelt.reporting.tables.grid import Cell, Line
from smelt.reporting.tables.sheet import Block, Sheet
from smelt.suites.collaboration.report.levels import AVERAGE, LEVELS
from smelt.suites.sheets import printed

__all__ = ["as_csv"]

_HEAD = "group entry variant label setting task split accuracy low high n correct loss".split()
_MORE = "part block data_split data_images data_labels".split()


def as_csv(sheets: Sequence[Sheet]) -> str:
    """Tasks, then `average` and `normalised average` as tasks of their own. Accuracies between 0 and 1.

    `block` is `seen` or `unseen`, or the corruption whose severities a number is the mean of; `data_...` is what data
    made the model. In the short form of a table with corruptions these stand in the place of tasks, under `average`.
    Where merging stands beside ensembling there is one more word, `level`: merged, ensembled, the gap between the two,
    and what share of the experts' average the merged one is. Where tables are turned there is `metric`; `block` is then
    `domains`, `tasks`, `general`, `table 8`, or `paper table 8`: as the paper printed it, the task is its base model.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    levels = any(sheet.levels or sheet.axis for sheet in sheets)
    turned = any(sheet.turned for sheet in sheets)
    writer.writerow([*_HEAD, *_MORE, *(["level"] if levels else []), *(["metric"] if turned else [])])
    for sheet in printed(sheets):
        for block in sheet.blocks:
            for line in block.grid.lines:
                if sheet.turned:
                    metrics = {row.task: row.metric for row in line.rows}
                    writer.writerows([*one, metrics.get(str(one[5]), "")] for one in _lines(line, block, sheet.part))
                    continue
                found = (_points if sheet.axis else _pairs if sheet.levels else _lines)(line, block, sheet.part)
                writer.writerows([*one, ""] if levels and not (sheet.axis or sheet.levels) else one for one in found)
    return text.getvalue()


def _lines(line: Line, block: Block, part: str | None) -> Iterator[list[object]]:
    who, more, split = _who(line, line.setting), _more(line, block, part), block.grid.split
    for task, cell in zip((*block.grid.tasks, "average"), (*line.cells, line.average), strict=True):
        if cell is not None and (block.grid.average or task != "average"):
            yield [*who, task, split, *(_numbers(cell) if cell.n else _alone(cell.accuracy)), *more]
    if line.normalised is not None:
        ends = line.normalised_interval
        numbers = [repr(line.normalised), *map(repr, ends), "", "", ""] if ends else _alone(line.normalised)
        yield [*who, "normalised average", split, *numbers, *more]


def _pairs(line: Line, block: Block, part: str | None) -> Iterator[list[object]]:
    """One task, or their average: both levels, the gap, and the share of the experts where it is known."""
    who, more = [*_who(line, line.setting), block.key, block.grid.split], _more(line, block, part)
    for level, cell in zip(LEVELS, line.cells, strict=True):
        if cell is not None:
            yield [*who, *_numbers(cell), *more, "" if line.group == "reference" else level]
    for name, value in (("gap", line.gap), ("of experts", line.normalised)):
        if value is not None:
            yield [*who, *_alone(value), *more, name]


def _points(line: Line, block: Block, part: str | None) -> Iterator[list[object]]:
    """Averages along an axis, whose place is the setting."""
    level = next(row.level for row in line.rows)
    for x, cell in zip(block.grid.tasks, line.cells, strict=True):
        if cell is not None:
            who = [*_who(line, {block.key: json.loads(x)}), AVERAGE, block.grid.split]
            here = [row for row in line.rows if f"{row.setting[block.key]:g}" == x]
            yield [*who, *_numbers(cell), part or line.part or "", block.key, *_budget(here), level]


def _who(line: Line, setting: Mapping[str, Any]) -> list[object]:
    text = json.dumps(setting, sort_keys=True) if setting else ""
    return [line.group, line.entry, line.variant, line.label, text]


def _more(line: Line, block: Block, part: str | None) -> list[object]:
    return [part or "", block.key, *_budget(line.rows)]


def _alone(value: float) -> list[object]:
    """A number that has no interval and no count."""
    return [repr(value), "", "", "", "", ""]


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
