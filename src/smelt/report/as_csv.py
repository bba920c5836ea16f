"""The table as CSV: one line per model and task, every digit, with count and interval. For programs."""

from __future__ import annotations

import csv
import io
import json

from smelt.report.grid import Cell, Grid

__all__ = ["as_csv"]

_HEAD = "group entry variant label setting task split accuracy low high n correct loss".split()


def as_csv(grid: Grid) -> str:
    """Tasks, then `average` and `normalised average` as tasks of their own. Accuracies between 0 and 1."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_HEAD)
    for line in grid.lines:
        setting = json.dumps(line.setting, sort_keys=True) if line.setting else ""
        who = [line.group, line.entry, line.variant, line.label, setting]
        for task, cell in zip((*grid.tasks, "average"), (*line.cells, line.average), strict=True):
            if cell is not None:
                writer.writerow([*who, task, grid.split, *_numbers(cell)])
        if line.normalised is not None:
            writer.writerow([*who, "normalised average", grid.split, repr(line.normalised), "", "", "", "", ""])
    return text.getvalue()


def _numbers(cell: Cell) -> list[object]:
    loss = "" if cell.loss is None else repr(cell.loss)
    correct = "" if cell.correct is None else cell.correct
    return [repr(cell.accuracy), repr(cell.low), repr(cell.high), cell.n, correct, loss]
