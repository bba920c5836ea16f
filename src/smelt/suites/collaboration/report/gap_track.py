"""Two marks on one track, with their distance: merged and ensembled, in percent of the experts."""

from __future__ import annotations

from markupsafe import Markup

from smelt.reporting.draw.axis import Axis
from smelt.reporting.draw.svg import tag
from smelt.reporting.words import percent

__all__ = ["gap_track"]


def gap_track(
    label: str, merged: float, ensembled: float | None, gap: float | None, axis: Axis, *, ours: bool
) -> Markup:
    """A diamond for merged, a ring for ensembled, a bar between them; a dashed line where the experts are."""
    parts = [tag("line", x1=_place(axis, 1.0), x2=_place(axis, 1.0), y1=0, y2="100%", class_="reference experts")]
    text = f"{label}: merged {percent(merged)} % of the experts"
    if ensembled is not None:
        text += f", ensembled {percent(ensembled)} %"
        ends = sorted((merged, ensembled))
        parts.append(
            tag("line", x1=_place(axis, ends[0]), x2=_place(axis, ends[1]), y1=11, y2=11, class_="between apart")
        )
    if gap is not None:
        text += f"; gap {percent(gap)} points of accuracy"
    marks = [_mark(axis, merged, tag("path", d="M0 -6l6 6l-6 6l-6 -6z", class_="mark tuned"))]
    if ensembled is not None:
        marks.insert(0, _mark(axis, ensembled, tag("circle", r=5, class_="mark published")))
    parts.append(tag("g", tag("title", text), *marks))
    kind = "ours" if ours else None
    return tag("svg", *parts, width="100%", height=22, role="img", aria_label=text, class_=kind)


def _mark(axis: Axis, value: float, shape: Markup) -> Markup:
    return tag("svg", shape, x=_place(axis, value), y=11, overflow="visible")


def _place(axis: Axis, value: float) -> str:
    return f"{axis.at(value):.2f}%"
