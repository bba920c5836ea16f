"""Analyses as people see them: matrices shaded as heat maps, and rows along a setting."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from smelt.display.blocks import Cell, Lines, Table
from smelt.evaluation.row import Row

__all__ = ["matrix_table", "notes_lines", "setting_table"]


def matrix_table(names: Sequence[str], matrix: Sequence[Sequence[float]], full: float, title: str = "") -> Table:
    """A square of numbers; 0 is pale, and `full` or more is shaded in full."""

    def cell(value: float) -> Cell:
        return Cell(f"{value:z.3f}", 0.0 if math.isnan(value) else max(-1.0, min(1.0, value / full)))

    rows = [[Cell(name), *map(cell, row)] for name, row in zip(names, matrix, strict=True)]
    return Table(["", *names], rows, title)


def setting_table(word: str, rows: Iterable[Row]) -> Table:
    """One line per value of a setting, one column per task, and their means."""
    table: dict[float, dict[str, Row]] = {}
    for row in rows:
        table.setdefault(row.setting[word], {})[row.task] = row
    tasks = list(dict.fromkeys(task for at in table.values() for task in at))
    body = [
        [f"{value:g}", *(f"{number:z.3f}" for number in (*(at[task].accuracy for task in tasks), *_means(at)))]
        for value, at in table.items()
    ]
    return Table([word, *tasks, "mean", "loss"], body)


def notes_lines(notes: Iterable[str]) -> Lines:
    """What was noticed."""
    return Lines([f"note: {note}" for note in notes])


def _means(rows: Mapping[str, Row]) -> list[float]:
    """Of accuracy and loss; a loss that a task does not have is not a number."""
    losses = [math.nan if row.loss is None else row.loss for row in rows.values()]
    return [sum(row.accuracy for row in rows.values()) / len(rows), sum(losses) / len(rows)]
