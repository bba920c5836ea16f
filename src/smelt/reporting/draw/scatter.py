"""Points with names on two axes, and lines behind them.

A name stands where it hides no other name and no point, as far as there is room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from smelt.reporting.draw.axis import Axis, Ticks
from smelt.reporting.draw.panel import Stroke, stroke_line
from smelt.reporting.draw.svg import tag

__all__ = ["Dot", "Shape", "scatter"]

Shape = Literal["circle", "square", "diamond"]

_WIDTH, _HEIGHT = 560.0, 340.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 12.0, 12.0, 40.0
_LETTER, _LINE, _AWAY = 6.3, 13.0, 9.0
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Dot:
    """One point; `kind` is a class of the page's style. `ends` are its intervals' ends."""

    name: str
    x: float
    y: float
    kind: str
    tip: str
    x_ends: tuple[float, float] | None = None
    y_ends: tuple[float, float] | None = None
    shape: Shape = "circle"


def scatter(
    title: str,
    dots: Sequence[Dot],
    *,
    x: tuple[float, float],
    y: tuple[float, float],
    x_ticks: Ticks,
    y_ticks: Ticks,
    labels: tuple[str, str],
    guides: tuple[float | None, float | None] = (None, None),
    strokes: Sequence[Stroke] = (),
) -> Markup:
    """Draw points over ranges. `labels` name the axes; `guides` are a vertical and a level line of note.

    A point without a name has no text beside it. `strokes` lie behind the points.
    """
    across, up = Axis(*x, _LEFT, _WIDTH - _RIGHT), Axis(*y, _HEIGHT - _BOTTOM, _TOP)
    places = [(across.at(dot.x), up.at(dot.y)) for dot in dots]
    taken: list[Box] = [(px - 6, py - 6, px + 6, py + 6) for px, py in places]
    names = []
    named = [pair for pair in zip(dots, places, strict=True) if pair[0].name]
    for dot, (px, py) in sorted(named, key=lambda pair: pair[1]):
        name, box = _name(dot, px, py, taken)
        names.append(name)
        taken.append(box)
    return tag(
        "svg",
        tag("title", title),
        *_frame(across, up, x_ticks, y_ticks, labels),
        *_guides(across, up, guides),
        *(stroke_line(stroke, across, up) for stroke in strokes),
        *(_whiskers(dot, across, up) for dot in dots),
        *(_dot(dot, px, py) for dot, (px, py) in zip(dots, places, strict=True)),
        *names,
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        role="img",
        class_="scatter",
    )


def _frame(across: Axis, up: Axis, x_ticks: Ticks, y_ticks: Ticks, labels: tuple[str, str]) -> list[Markup]:
    parts = []
    for value, text in y_ticks:
        y = up.at(value)
        parts.append(tag("line", x1=across.start, x2=across.end, y1=y, y2=y, class_="grid"))
        parts.append(tag("text", text, x=across.start - 6, y=y + 3.5, text_anchor="end"))
    for value, text in x_ticks:
        x = across.at(value)
        parts.append(tag("line", x1=x, x2=x, y1=up.start, y2=up.end, class_="grid"))
        parts.append(tag("text", text, x=x, y=up.start + 14, text_anchor="middle"))
    middle = (up.start + up.end) / 2
    turn = f"rotate(-90 11 {middle:g})"
    parts.append(tag("text", labels[0], x=(across.start + across.end) / 2, y=_HEIGHT - 6, text_anchor="middle"))
    parts.append(tag("text", labels[1], x=11, y=middle, text_anchor="middle", transform=turn))
    return parts


def _guides(across: Axis, up: Axis, guides: tuple[float | None, float | None]) -> list[Markup]:
    x, y = guides
    parts = []
    if x is not None and across.low <= x <= across.high:
        parts.append(tag("line", x1=across.at(x), x2=across.at(x), y1=up.start, y2=up.end, class_="guide"))
    if y is not None and up.low <= y <= up.high:
        parts.append(tag("line", x1=across.start, x2=across.end, y1=up.at(y), y2=up.at(y), class_="guide"))
    return parts


def _whiskers(dot: Dot, across: Axis, up: Axis) -> Markup:
    px, py, parts = across.at(dot.x), up.at(dot.y), []
    if dot.x_ends:
        ends = [min(max(across.at(end), across.start), across.end) for end in dot.x_ends]
        parts.append(tag("line", x1=ends[0], x2=ends[1], y1=py, y2=py, class_="whisker"))
    if dot.y_ends:
        ends = [min(max(up.at(end), up.end), up.start) for end in dot.y_ends]
        parts.append(tag("line", x1=px, x2=px, y1=ends[0], y2=ends[1], class_="whisker"))
    return Markup("").join(parts)


def _dot(dot: Dot, px: float, py: float) -> Markup:
    title = tag("title", dot.tip)
    kind = f"dot {dot.kind}"
    if dot.shape == "square":
        return tag("rect", title, x=px - 5, y=py - 5, width=10, height=10, class_=kind)
    if dot.shape == "diamond":
        return tag("path", title, d=f"M{px:.1f} {py - 7:.1f}l7 7l-7 7l-7 -7z", class_=kind)
    return tag("circle", title, cx=px, cy=py, r=5.5, class_=kind)


def _name(dot: Dot, px: float, py: float, taken: Sequence[Box]) -> tuple[Markup, Box]:
    """Right, left, above, below or at a corner: the first place that is free, else the one that hides least."""
    wide = _LETTER * len(dot.name)
    places = [
        (px + _AWAY, py + 4, "start"),
        (px - _AWAY, py + 4, "end"),
        (px, py - _AWAY - 1, "middle"),
        (px, py + _AWAY + 9, "middle"),
        *((px + dx, py + dy, "start" if dx > 0 else "end") for dy in (-9.0, 17.0) for dx in (_AWAY, -_AWAY)),
        *((px + dx, py + dy, "start" if dx > 0 else "end") for dy in (-20.0, 28.0) for dx in (_AWAY, -_AWAY)),
    ]
    boxes = [(_box(x, y, wide, anchor), x, y, anchor) for x, y, anchor in places]
    box, x, y, anchor = min(boxes, key=lambda one: _hidden(one[0], taken))
    return tag("text", dot.name, x=x, y=y, text_anchor=anchor, class_="name"), box


def _box(x: float, y: float, wide: float, anchor: str) -> Box:
    left = {"start": x, "end": x - wide, "middle": x - wide / 2}[anchor]
    return left, y - _LINE + 3, left + wide, y + 3


def _hidden(box: Box, taken: Sequence[Box]) -> float:
    """The area that a name would cover, and what of it would lie outside."""
    left, top, right, bottom = box
    over = sum(
        max(0.0, min(right, other[2]) - max(left, other[0])) * max(0.0, min(bottom, other[3]) - max(top, other[1]))
        for other in taken
    )
    beyond = max(0.0, _LEFT - left) + max(0.0, right - _WIDTH) + max(0.0, -top) + max(0.0, bottom - _HEIGHT + _BOTTOM)
    return over + 20 * beyond
