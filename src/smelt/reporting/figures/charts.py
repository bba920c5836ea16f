"""Small line charts: which lines, over which ranges, in which colours. The step from a figure's data to its drawing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from smelt.reporting.analyses import LayerNorms, LineChart
from smelt.reporting.draw.axis import number_ticks, span
from smelt.reporting.draw.panel import Points, Stroke, panel
from smelt.reporting.words import short_layer

__all__ = ["PALETTE", "Chart", "LineFigure", "in_front", "line_figure", "norm_charts"]

PALETTE = (2, 3, 4, 5, 6, 7, 0, 1)
"""The colours' numbers in the order in which lines take them; more lines than these get a chart each."""


@dataclass(frozen=True)
class Chart:
    """A drawing with a heading above and a line of text below."""

    title: str
    drawing: Markup
    note: str = ""


@dataclass(frozen=True)
class LineFigure:
    """Charts on the same axes, and what the colours mean: (name, number of the palette)."""

    title: str
    note: str
    charts: tuple[Chart, ...]
    keys: tuple[tuple[str, int], ...] = ()


def in_front(name: str, lines: Mapping[str, Points] | Iterable[tuple[str, Points]]) -> list[Stroke]:
    """One line before all the others in grey."""
    every = lines.items() if isinstance(lines, Mapping) else lines
    return [Stroke(other, points, "focus" if other == name else "ghost") for other, points in every]


def norm_charts(norms: LayerNorms) -> list[Chart]:
    """The length of a model's change layer after layer, all models on the same axes."""
    y = (0.0, span([0.0, *(value for row in norms.models.values() for value in row if value is not None)], 0.04)[1])
    factor = 100 if norms.relative else 1
    last = len(norms.layers) - 1
    points = {
        name: [(float(place), value) for place, value in enumerate(row) if value is not None]
        for name, row in norms.models.items()
    }
    return [
        Chart(
            name,
            panel(
                f"{name}: length of the change per layer",
                in_front(name, points),
                x=(0.0, max(last, 1)),
                y=y,
                x_ticks=[(float(place), short_layer(norms.layers[place])) for place in sorted({0, last})],
                y_ticks=[(tick, f"{factor * tick:g}") for tick, _ in number_ticks(*y)],
            ),
        )
        for name in norms.models
    ]


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
    colours = dict(zip(points, PALETTE, strict=False)) if len(points) <= len(PALETTE) else {}
    coloured = [Stroke(name, line, f"c{colours[name]}") for name, line in points.items() if colours]

    def chart(name: str) -> Chart:
        return Chart(
            name,
            panel(
                f"{name or data.title}: {data.y_label} against {data.x_label}",
                coloured or in_front(name, points),
                x=x,
                y=y,
                x_ticks=number_ticks(*x, 6),
                y_ticks=number_ticks(*y),
                wide=bool(colours),
            ),
        )

    axes = f"{data.y_label} against {data.x_label}" if data.x_label and data.y_label else ""
    said = f"{axes[:1].upper()}{axes[1:]}." if axes else ""
    charts = tuple(map(chart, [""] if colours else points))
    return LineFigure(data.title, " ".join(filter(None, [data.note, said])), charts, tuple(colours.items()))
