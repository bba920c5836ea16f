"""The gap that methods close against the size of the vision tower, as a drawing.

Transformers are joined by a line for each method, convolutional families are squares by themselves. A few methods are
in colour with their intervals, the others are grey.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from smelt.reporting.draw.axis import log_ticks, percent_ticks, span
from smelt.reporting.draw.panel import Stroke
from smelt.reporting.draw.scatter import Dot, scatter
from smelt.reporting.words import percent, plural
from smelt.suites.clip.report.gap import GapRow, family_order
from smelt.suites.clip.report.gap_words import millions

__all__ = ["COLOURED", "GapFigure", "gap_figure"]

COLOURED = ("average", "task_arithmetic", "ties", "regmean", "adamerging", "tsv", "wudi", "wemoe")
"""The methods in colour, by the numbers of their colours: those that the page's other tables show, too."""
_TITLE = "Share of the gap closed against the size of the vision tower"
_GREY = "ghost"
_LEAST = -0.25
"""What lies lower is drawn at this height: a tower at chance would press all others together."""
_APART = 0.007
"""How far marks of one size stand beside each other, as a share of the axis."""


@dataclass(frozen=True)
class GapFigure:
    """A drawing, and what has to be said below it."""

    title: str
    drawing: Markup
    note: str
    keys: tuple[tuple[str, int], ...]
    """What the colours mean, as the marks of the largest transformer stand above each other: (method, its number)."""


def gap_figure(rows: Sequence[GapRow]) -> GapFigure | None:
    """One figure over all families; None without rows."""
    if not rows:
        return None
    families = family_order(rows)
    sizes = [one.parameters for one in families]
    low, high = span([math.log10(size) for size in sizes], 0.08)
    coloured = [entry for entry in COLOURED if any(row.method == entry for row in rows)]
    shift = {entry: (at - (len(coloured) - 1) / 2) * _APART * (high - low) for at, entry in enumerate(coloured)}
    ordered = sorted(rows, key=lambda row: (row.method in coloured, row.parameters))
    places = {id(row): (math.log10(row.parameters) + shift.get(row.method, 0.0), _shown(row.share)) for row in rows}
    y = span([0.0, *(_shown(value) for row in rows for value in _reach(row, coloured))], 0.04)
    drawing = scatter(
        _TITLE,
        [_dot(row, places[id(row)]) for row in ordered if row.method in coloured],
        x=(low, high),
        y=y,
        x_ticks=[(place, f"{number / 1e6:g} M") for place, number in log_ticks(10**low, 10**high)],
        y_ticks=percent_ticks(*y, 8),
        labels=("parameters of the vision tower", "share of the gap closed, %"),
        guides=(None, 0.0),
        strokes=_strokes(ordered, places),
    )
    return GapFigure(_TITLE, drawing, _note(rows, families), _keys(rows, families))


def _strokes(rows: Sequence[GapRow], places: dict[int, tuple[float, float]]) -> list[Stroke]:
    """A line for every method through the transformers that have it."""
    lines: dict[str, list[GapRow]] = {}
    for row in rows:
        if not row.convolutional:
            lines.setdefault(row.method, []).append(row)
    return [
        Stroke(members[0].label, [places[id(row)] for row in members], _kind(members[0]))
        for members in lines.values()
        if len(members) > 1 or members[0].method not in COLOURED
    ]


def _keys(rows: Sequence[GapRow], families: Sequence[GapRow]) -> tuple[tuple[str, int], ...]:
    last = next((one.family for one in reversed(families) if not one.convolutional), families[-1].family)
    shown = {row.method: row for row in rows if row.method in COLOURED}
    shown |= {row.method: row for row in rows if row.method in shown and row.family == last}
    ordered = sorted(shown.values(), key=lambda row: -row.share)
    return tuple((row.label, COLOURED.index(row.method)) for row in ordered)


def _dot(row: GapRow, place: tuple[float, float]) -> Dot:
    ends = (_shown(row.low), _shown(row.high))
    interval = f"95 % interval {percent(row.low)} to {percent(row.high)}"
    tip = f"{row.label}, {row.family}: {percent(row.share)} % ({interval})"
    return Dot("", *place, _kind(row), tip, y_ends=ends, shape="square" if row.convolutional else "circle")


def _kind(row: GapRow) -> str:
    return f"c{COLOURED.index(row.method)}" if row.method in COLOURED else _GREY


def _shown(share: float) -> float:
    return max(share, _LEAST)


def _reach(row: GapRow, coloured: Sequence[str]) -> tuple[float, ...]:
    return (row.low, row.share, row.high) if row.method in coloured else (row.share,)


def _note(rows: Sequence[GapRow], families: Sequence[GapRow]) -> str:
    known = ", ".join(
        f"{one.family} {millions(one.parameters)}{' (squares)' if one.convolutional else ''}" for one in families
    )
    deep = sum(row.share < _LEAST for row in rows)
    drawn = f" What lies lower than {percent(_LEAST)} % is drawn there: {plural(deep, 'share')} in all."
    low = drawn if deep else ""
    return (
        f"{known}. The lower line is the base, 100 % are the experts. Lines join the transformers; grey: the other "
        f"methods of the table. Marks of one size are set a little apart so that their 95 % intervals can be seen.{low}"
    )
