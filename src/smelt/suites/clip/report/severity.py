"""Accuracy against severity: one small chart for each corruption, a line in colour for each method."""

from __future__ import annotations

from dataclasses import dataclass

from smelt.reporting.draw.axis import span
from smelt.reporting.draw.panel import Stroke, panel
from smelt.reporting.figures.charts import Chart
from smelt.reporting.tables.grid import Grid, best_first
from smelt.reporting.tables.sheet import Sheet
from smelt.suites.clip.report.robustness import severity_curves

__all__ = ["SeverityFigure", "severity_figure"]

_COLOURS = 6
"""Methods that can be told apart by colour; two more colours are the base's and the experts'."""


@dataclass(frozen=True)
class SeverityFigure:
    """The charts of one table, and what the colours mean: (name, number of the palette)."""

    title: str
    charts: tuple[Chart, ...]
    keys: tuple[tuple[str, int], ...]
    others: bool
    """Whether methods are left that have no colour."""


def severity_figure(sheet: Sheet) -> SeverityFigure | None:
    """All kinds on the same axes. The best six methods under corruption have a colour, the others are grey."""
    curves = severity_curves(sheet)
    if sheet.summary is None or not any(len(points) > 1 for one in curves for points in one.lines):
        return None
    colours = _colours(sheet.summary.blocks[0].grid)
    every = [point for one in curves for points in one.lines for point in points]
    x = (0.0, max(severity for severity, _ in every))
    y = span([value for _, value in every])
    names = [line.name for line in sheet.lines]
    ticks = [(float(tick), str(tick)) for tick in range(int(x[1]) + 1)]
    charts = []
    for one in curves:
        roles = (f"c{colours[at]}" if at in colours else "ghost" for at in range(len(names)))
        strokes = list(map(Stroke, names, one.lines, roles))
        title = f"{one.title}: average accuracy in % against the severity"
        charts.append(Chart(one.title, panel(title, strokes, x=x, y=y, x_ticks=ticks)))
    keys = tuple((names[at], colour) for at, colour in colours.items())
    return SeverityFigure(sheet.title, tuple(charts), keys, len(keys) < len(sheet.lines))


def _colours(short: Grid) -> dict[int, int]:
    """The palette's number by the place of a line in the table."""
    place = {id(line): at for at, line in enumerate(short.lines)}
    found = {place[id(line)]: colour for colour, line in enumerate((short.base, short.experts)) if line}
    methods = [line for line in short.lines if line.group not in ("reference", "single")]
    best = best_first(methods)
    chosen = sorted(place[id(line)] for line in [*best, *(m for m in methods if m not in best)][:_COLOURS])
    return found | {at: colour for colour, at in enumerate(chosen, 2)}
