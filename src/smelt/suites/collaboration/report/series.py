"""Merging and ensembling along an axis: the average over the tasks after every epoch, and for every share of the data.

A point that lacks a task is left out, since a mean over fewer tasks would not be comparable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from smelt.evaluation.row import Level, Row
from smelt.reporting.budget import loud_text
from smelt.reporting.draw.axis import span
from smelt.reporting.draw.panel import Stroke, panel
from smelt.reporting.figures.charts import PALETTE, Chart, LineFigure
from smelt.reporting.tables.as_csv import point_records
from smelt.reporting.tables.cells import Cell, mean_cell
from smelt.reporting.tables.grid import Grid, tasks_of
from smelt.reporting.tables.lines import TableLine
from smelt.reporting.tables.sheet import ColumnBlock, Sheet
from smelt.suites.collaboration.report.levels import LEVELS, NEULIG, LevelReader, at_level

__all__ = ["AXES", "LevelCurve", "level_curves", "series_figures", "series_sheets"]

AXES = {
    "epoch": ("Over the epochs", "Columns: the epoch of training after which the model was tested."),
    "fraction": ("With less data", "Columns: the share of the data that the method was trained on."),
}


@dataclass(frozen=True)
class LevelCurve:
    """One entry on one pool: (x, average) for either level, in rising order of x."""

    entry: str
    label: str
    part: str | None
    split: str
    points: dict[Level, dict[float, Cell]]
    rows: tuple[Row, ...]


def level_curves(rows: Iterable[Row], axis: str) -> list[LevelCurve]:
    """Every entry that was measured at two places of an axis or more, at either level."""
    found: dict[tuple[str, str | None, str], list[Row]] = {}
    for row in rows:
        if row.variant == "curve" and row.level is not None and _at(row, axis) is not None:
            found.setdefault((row.entry, row.part, row.split), []).append(row)
    every = [
        LevelCurve(entry, own[0].label, part, split, {level: _points(own, axis, level) for level in LEVELS}, tuple(own))
        for (entry, part, split), own in found.items()
    ]
    return [one for one in every if any(len(points) > 1 for points in one.points.values())]


def series_sheets(rows: Sequence[Row]) -> list[Sheet]:
    """A table for every axis that was measured: its places across, Mer. and Ens. of every entry below each other."""
    return [_sheet(axis, found) for axis in AXES if (found := level_curves(rows, axis))]


def _sheet(axis: str, found: Sequence[LevelCurve]) -> Sheet:
    title, about = AXES[axis]
    at = sorted({x for one in found for points in one.points.values() for x in points})
    split = found[0].split
    lines = [_line(one, level, at, named=_several(found)) for one in found for level in LEVELS]
    grid = Grid(tuple(f"{x:g}" for x in at), split, tuple(line for line in lines if any(line.cells)), "")
    pool = "" if _several(found) or not found[0].part else f" {found[0].part}."
    return Sheet(
        (ColumnBlock(axis, "", grid),),
        title,
        f"Averages over the tasks.{pool} {about}",
        headings=False,
        axis=axis,
        places="",
        extra="level",
        records=_records,
    )


def _several(found: Sequence[LevelCurve]) -> bool:
    """Whether pools have to be told apart."""
    return len({one.part for one in found}) > 1


def _line(one: LevelCurve, level: Level, at: Sequence[float], *, named: bool) -> TableLine:
    own = tuple(row for row in one.rows if row.level == level)
    label = f"{one.label}, {one.part}" if named and one.part else one.label
    cells = tuple(one.points[level].get(x) for x in at)
    return TableLine(
        one.entry,
        "curve",
        label,
        {},
        NEULIG,
        cells,
        own,
        note=LEVELS[level],
        data=LevelReader().data(own),
        loud=loud_text(own, one.split),
    )


def _points(rows: Sequence[Row], axis: str, level: Level) -> dict[float, Cell]:
    tasks, cell = tasks_of(rows), at_level(level)
    found: dict[float, Cell] = {}
    for x in sorted({x for row in rows if (x := _at(row, axis)) is not None}):
        here = [row for row in rows if _at(row, axis) == x]
        mean = mean_cell([cell([row for row in here if row.task == task]) for task in tasks])
        if mean is not None:
            found[x] = mean
    return found


def _at(row: Row, axis: str) -> float | None:
    value = row.setting.get(axis)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _records(line: TableLine, block: ColumnBlock, part: str | None) -> Iterator[list[object]]:
    for record in point_records(line, block, part):
        yield [*record, next(row.level for row in line.rows)]


def series_figures(rows: Sequence[Row]) -> list[LineFigure]:
    """For every axis a chart per entry and pool, in each of them a line for either level."""
    return [_figure(axis, found) for axis in AXES if (found := level_curves(rows, axis))]


def _figure(axis: str, found: Sequence[LevelCurve]) -> LineFigure:
    every = [(at, cell.accuracy) for one in found for points in one.points.values() for at, cell in points.items()]
    x, y = span([at for at, _ in every], 0.03), span([value for _, value in every])
    keys = tuple(zip(LEVELS.values(), PALETTE, strict=False))
    charts = []
    for one in found:
        title = f"{one.label}, {one.part}" if one.part else one.label
        strokes = [
            Stroke(name, [(at, cell.accuracy) for at, cell in points.items()], f"c{colour}")
            for points, (name, colour) in zip(one.points.values(), keys, strict=True)
        ]
        drawing = panel(f"{title}: average accuracy in % against the {axis}", strokes, x=x, y=y, wide=True)
        charts.append(Chart(title, drawing))
    return LineFigure(AXES[axis][0], f"Average accuracy in % against the {axis}.", tuple(charts), keys)
