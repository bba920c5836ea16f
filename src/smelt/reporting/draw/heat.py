"""A heat map as SVG: a picture of its own, which needs no style around it."""

from __future__ import annotations

from markupsafe import Markup

from smelt.reporting.draw.svg import tag
from smelt.reporting.figures.heat import HeatMap, Shade

__all__ = ["heat_map"]

_WIDE, _HIGH, _GAP = 54.0, 22.0, 2.0
_LETTER = 7.0
"""Width of a letter, about."""
_ABOVE, _BELOW, _INK, _PAPER, _SOFT = "#0072b2", "#d55e00", "#1c2026", "#ffffff", "#59636e"
_DARK = 0.75
"""From this strength on a cell's text is white."""
_TITLE = 30.0


def heat_map(drawn: HeatMap, title: str) -> Markup:
    """Rows of shaded cells under their columns, with the title above."""
    left = 12 + _LETTER * max((len(name) for name, _ in drawn.rows), default=0)
    top = _TITLE + _HIGH
    width = max(left + len(drawn.columns) * (_WIDE + _GAP) + 8, 16 + _LETTER * len(title))
    height = top + len(drawn.rows) * (_HIGH + _GAP) + 8
    heads = (
        tag("text", name, x=_x(left, at) + _WIDE / 2, y=top - 7, text_anchor="middle", fill=_SOFT)
        for at, name in enumerate(drawn.columns)
    )
    body = []
    for number, (name, cells) in enumerate(drawn.rows):
        y = top + number * (_HIGH + _GAP)
        body.append(tag("text", name, x=left - 6, y=y + 15, text_anchor="end", fill=_SOFT))
        body += [part for at, cell in enumerate(cells) for part in _cell(cell, _x(left, at), y)]
    return tag(
        "svg",
        tag("title", title),
        tag("rect", width="100%", height="100%", fill=_PAPER),
        tag("text", title, x=8, y=20, fill=_INK, font_weight="600"),
        *heads,
        *body,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        role="img",
        font_family="system-ui, sans-serif",
        font_size="12",
    )


def _x(left: float, column: int) -> float:
    return left + column * (_WIDE + _GAP)


def _cell(cell: Shade, x: float, y: float) -> list[Markup]:
    colour = _BELOW if cell.below else _ABOVE
    box = tag(
        "rect",
        tag("title", cell.tip),
        x=x,
        y=y,
        width=_WIDE,
        height=_HIGH,
        rx=3,
        fill=colour,
        fill_opacity=cell.strength,
    )
    ink = _PAPER if cell.strength > _DARK else _INK
    return [box, tag("text", cell.text, x=x + _WIDE / 2, y=y + 15, text_anchor="middle", fill=ink)]
