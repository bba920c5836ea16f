"""A small line chart, one of many: its own line in colour before all the others in grey, so that each can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from smelt.reporting.draw.axis import Axis, Ticks, number_ticks, percent_ticks
from smelt.reporting.draw.svg import tag

__all__ = ["Band", "Marker", "Points", "Stroke", "panel", "stroke_line"]

Points = Sequence[tuple[float, float]]
_SMALL, _WIDE = (200.0, 136.0), (440.0, 210.0)
_LEFT, _RIGHT, _TOP, _BOTTOM = 30.0, 6.0, 8.0, 18.0


@dataclass(frozen=True)
class Stroke:
    """One line; `role` is a class of the page's style: ghost, focus, from, to."""

    name: str
    points: Points
    role: str


@dataclass(frozen=True)
class Band:
    """What lies between two lines, shaded in the colour of its role."""

    low: Points
    high: Points
    role: str


@dataclass(frozen=True)
class Marker:
    """A point of note: a hollow ring (`published`) or a filled diamond (`tuned`)."""

    at: tuple[float, float]
    kind: str
    text: str


def panel(
    title: str,
    strokes: Sequence[Stroke],
    *,
    x: tuple[float, float],
    y: tuple[float, float],
    x_ticks: Ticks | None = None,
    y_ticks: Ticks | None = None,
    marks: Sequence[Marker] = (),
    wide: bool = False,
    bands: Sequence[Band] = (),
) -> Markup:
    """Draw lines over shared ranges. Bands and grey lines come first, so the others lie on top.

    Unless ticks are given, x is in round numbers and y in percent. `wide`: one that stands alone.
    """
    width, height = _WIDE if wide else _SMALL
    across = Axis(*x, _LEFT, width - _RIGHT)
    up = Axis(*y, height - _BOTTOM, _TOP)
    order = sorted(strokes, key=lambda stroke: stroke.role != "ghost")
    return tag(
        "svg",
        tag("title", title),
        *_frame(across, up, x_ticks or number_ticks(*x), y_ticks or percent_ticks(*y)),
        *(_band(band, across, up) for band in bands),
        *(stroke_line(stroke, across, up) for stroke in order if stroke.points),
        *(_marker(mark, across, up) for mark in marks),
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        class_="panel wide" if wide else "panel",
    )


def _frame(across: Axis, up: Axis, x_ticks: Ticks, y_ticks: Ticks) -> list[Markup]:
    parts = []
    for value, label in y_ticks:
        y = up.at(value)
        parts.append(tag("line", x1=across.start, x2=across.end, y1=y, y2=y, class_="grid"))
        parts.append(tag("text", label, x=across.start - 5, y=y + 3, text_anchor="end"))
    for number, (value, label) in enumerate(x_ticks):
        x = across.at(value)
        anchor = "middle"
        if number == 0 and len(label) > 3:
            anchor = "start"
        elif number == len(x_ticks) - 1 and x > across.end - 12:
            anchor = "end"
        parts.append(tag("text", label, x=x, y=up.start + _BOTTOM - 5, text_anchor=anchor))
    return parts


def stroke_line(stroke: Stroke, across: Axis, up: Axis) -> Markup:
    """A line through its points; one in grey has no name to hover over."""
    points = " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in stroke.points)
    children = [] if stroke.role == "ghost" else [tag("title", stroke.name)]
    return tag("polyline", *children, points=points, class_=stroke.role)


def _band(band: Band, across: Axis, up: Axis) -> Markup:
    points = " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in (*band.low, *reversed(band.high)))
    return tag("polygon", points=points, class_=f"band {band.role}")


def _marker(mark: Marker, across: Axis, up: Axis) -> Markup:
    x, y = across.at(mark.at[0]), up.at(mark.at[1])
    title = tag("title", mark.text)
    if mark.kind == "published":
        return tag("circle", title, cx=x, cy=y, r=4.2, class_="mark published")
    shape = f"M{x:.1f} {y - 5.5:.1f}l5.5 5.5l-5.5 5.5l-5.5 -5.5z"
    return tag("path", title, d=shape, class_="mark tuned")
