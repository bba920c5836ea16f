"""Lines in colour over an axis: merging and ensembling over epochs and data, and what analyses left as lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smelt.evaluation.row import Row
from smelt.reporting.analyses import LineChart
from smelt.reporting.draw.axis import round_ticks, span
from smelt.reporting.draw.panel import Stroke, panel
from smelt.reporting.figures.charts import Chart
from smelt.suites.collaboration.report.levels import LEVELS
from smelt.suites.collaboration.report.series import AXES, courses

__all__ = ["LineFigure", "line_figure", "series_figures"]

_COLOURS = (2, 3, 4, 5, 6, 7, 0, 1)
"""The palette, in the order in which lines take their colours; more lines than these get a chart each."""


@dataclass(frozen=True)
class LineFigure:
    """Charts on the same axes, and what the colours mean: (name, number of the palette)."""

    title: str
    note: str
    charts: tuple[Chart, ...]
    keys: tuple[tuple[str, int], ...] = ()


def series_figures(rows: Sequence[Row]) -> list[LineFigure]:
    """For every axis a chart per entry and pool, in each of them a line for either level."""
    return [figure for axis in AXES if (figure := _series(rows, axis))]


def line_figure(data: LineChart) -> LineFigure:
    """One chart with a line in colour for each name; where they are too many, each before the others in grey."""
    points = {
        name: [(x, value) for x, value in zip(data.x, row, strict=True) if value is not None]
        for name, row in data.lines.items()
    }
    # A range that starts at 0 where nothing is below it: heights can be compared.
    every = [y for line in points.values() for _, y in line]
    y = span([0.0, *every], 0.04)
    y = (0.0, y[1]) if min(every, default=0.0) >= 0 else y
    x = span(data.x, 0.0) if len(data.x) > 1 else span(data.x)
    colours = dict(zip(points, _COLOURS, strict=False)) if len(points) <= len(_COLOURS) else {}
    alone = [""] if colours else list(points)
    charts = tuple(
        Chart(
            name,
            panel(
                f"{name or data.title}: {data.y_label} against {data.x_label}",
                [Stroke(other, line, _role(other, name, colours)) for other, line in points.items()],
                x=x,
                y=y,
                x_ticks=[(tick, f"{tick:g}") for tick in round_ticks(*x, 6)],
                y_ticks=[(tick, f"{tick:g}") for tick in round_ticks(*y)],
                wide=bool(colours),
            ),
        )
        for name in alone
    )
    axes = f"{data.y_label} against {data.x_label}" if data.x_label and data.y_label else ""
    said = f"{axes[:1].upper()}{axes[1:]}." if axes else ""
    return LineFigure(data.title, " ".join(filter(None, [data.note, said])), charts, tuple(colours.items()))


def _role(name: str, focus: str, colours: dict[str, int]) -> str:
    if colours:
        return f"c{colours[name]}"
    return "focus" if name == focus else "ghost"


def _series(rows: Sequence[Row], axis: str) -> LineFigure | None:
    found = courses(rows, axis)
    if not found:
        return None
    every = [(at, cell.accuracy) for one in found for points in one.points.values() for at, cell in points.items()]
    x, y = span([at for at, _ in every], 0.03), span([value for _, value in every])
    keys = tuple((LEVELS[level], colour) for level, colour in zip(LEVELS, _COLOURS, strict=False))
    charts = []
    for one in found:
        title = f"{one.label}, {one.part}" if one.part else one.label
        strokes = [
            Stroke(LEVELS[level], [(at, cell.accuracy) for at, cell in points.items()], f"c{colour}")
            for (level, points), (_, colour) in zip(one.points.items(), keys, strict=True)
        ]
        drawing = panel(
            f"{title}: average accuracy in % against the {axis}",
            strokes,
            x=x,
            y=y,
            x_ticks=[(tick, f"{tick:g}") for tick in round_ticks(*x)],
            y_ticks=[(tick, f"{100 * tick:g}") for tick in round_ticks(*y)],
            wide=True,
        )
        charts.append(Chart(title, drawing))
    what, _ = AXES[axis]
    return LineFigure(what, f"Average accuracy in % against the {axis}.", tuple(charts), keys)
