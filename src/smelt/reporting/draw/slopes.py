"""Numbers of several things from one column to the next, joined by lines, with their names at the side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from smelt.reporting.draw.axis import Axis, Ticks
from smelt.reporting.draw.svg import tag

__all__ = ["HEIGHT", "WIDTH", "Slope", "slopes"]

WIDTH, HEIGHT = 640.0, 380.0
_LEFT, _NAMES, _TOP, _BOTTOM = 46.0, 170.0, 12.0, 26.0
_LINE, _APART = 14.0, 6.0
"""The least distance of two names, and of two dots of one column."""


@dataclass(frozen=True)
class Slope:
    """One thing: (value, low end, high end) for every column, or None. `kind` is a class of the page's style."""

    name: str
    points: Sequence[tuple[float, float, float] | None]
    kind: str
    tips: Sequence[str]


def slopes(
    title: str, columns: Sequence[str], lines: Sequence[Slope], *, y: tuple[float, float], y_ticks: Ticks, label: str
) -> Markup:
    """Draw them over a shared range; in a column they stand a little apart, so that their intervals can be seen."""
    up = Axis(*y, HEIGHT - _BOTTOM, _TOP)
    right = WIDTH - _NAMES
    step = (right - _LEFT) / len(columns)
    middles = [_LEFT + (at + 0.5) * step for at in range(len(columns))]
    shifts = [(at - (len(lines) - 1) / 2) * _APART for at in range(len(lines))]
    parts = [_line(line, [middle + shift for middle in middles], up) for line, shift in zip(lines, shifts, strict=True)]
    return tag(
        "svg",
        tag("title", title),
        *_frame(columns, middles, up, right, y_ticks, label),
        *parts,
        *_names(lines, shifts, middles, up, right),
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        role="img",
        class_="slopes",
    )


def _frame(
    columns: Sequence[str], middles: Sequence[float], up: Axis, right: float, ticks: Ticks, label: str
) -> list[Markup]:
    parts = []
    for value, text in ticks:
        parts.append(tag("line", x1=_LEFT, x2=right, y1=up.at(value), y2=up.at(value), class_="grid"))
        parts.append(tag("text", text, x=_LEFT - 6, y=up.at(value) + 3.5, text_anchor="end"))
    parts += [
        tag("text", name, x=middle, y=HEIGHT - 8, text_anchor="middle")
        for name, middle in zip(columns, middles, strict=True)
    ]
    level = (up.start + up.end) / 2
    turn = f"rotate(-90 11 {level:g})"
    return [*parts, tag("text", label, x=11.0, y=level, text_anchor="middle", transform=turn)]


def _line(line: Slope, places: Sequence[float], up: Axis) -> Markup:
    known = [(x, point, tip) for x, point, tip in zip(places, line.points, line.tips, strict=True) if point]
    path = " ".join(f"{x:.1f},{up.at(point[0]):.1f}" for x, point, _ in known)
    parts = [tag("polyline", points=path, class_=line.kind)]
    for x, (value, low, high), tip in known:
        ends = [min(max(up.at(end), up.end), up.start) for end in (low, high)]
        parts.append(tag("line", x1=x, x2=x, y1=ends[0], y2=ends[1], class_=f"whisker {line.kind}"))
        parts.append(tag("circle", tag("title", tip), cx=x, cy=up.at(value), r=4.0, class_=f"dot {line.kind}"))
    return tag("g", *parts)


def _names(
    lines: Sequence[Slope], shifts: Sequence[float], middles: Sequence[float], up: Axis, right: float
) -> list[Markup]:
    """In the order of the last numbers, each with a thin line from its dot; none on top of another."""
    ends = []
    for line, shift in zip(lines, shifts, strict=True):
        known = [(middle + shift, point) for middle, point in zip(middles, line.points, strict=True) if point]
        if known:
            x, (value, _, _) = known[-1]
            ends.append((up.at(value), x, line))
    ends.sort(key=lambda one: one[0])
    heights = [at for at, _, _ in ends]
    for place in range(1, len(heights)):
        heights[place] = max(heights[place], heights[place - 1] + _LINE)
    over = max(0.0, heights[-1] - up.start) if heights else 0.0
    for place in reversed(range(len(heights))):  # back up, as far as the lowest stands too low
        limit = up.start if place == len(heights) - 1 else heights[place + 1] - _LINE
        heights[place] = min(heights[place], limit) if over else heights[place]
    parts = []
    for (at, x, line), height in zip(ends, heights, strict=True):
        parts.append(tag("line", x1=x + 6, x2=right + 4, y1=at, y2=height, class_="leader"))
        parts.append(tag("text", line.name, x=right + 8, y=height + 4, class_="name"))
    return parts
