"""Gap against accuracy relative to the experts, as data: a method good at both is at 100 % twice.

A gap can be small because both ways are good, or because both are bad: so both are shown on one axis, on which the
gap is the distance between them.
"""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from smelt.reporting.draw.axis import Axis, span, track_ticks
from smelt.reporting.draw.svg import tag
from smelt.reporting.draw.tracks import track_line, track_mark, track_reference
from smelt.reporting.tables.lines import EXPERTS
from smelt.reporting.tables.sheet import Sheet
from smelt.reporting.words import percent
from smelt.suites.collaboration.report.levels import NEULIG

__all__ = ["GapFigure", "Pair", "gap_figure", "pairs"]


@dataclass(frozen=True)
class Pair:
    """One method: merged and ensembled as shares of the experts' average, and the gap between them in accuracy."""

    label: str
    group: str
    merged: float
    ensembled: float | None
    gap: float | None


@dataclass(frozen=True)
class GapFigure:
    """A drawing for every method, and the axis below them: (place in percent, text)."""

    title: str
    lines: tuple[tuple[Pair, Markup], ...]
    ticks: tuple[tuple[str, str], ...]


def pairs(sheet: Sheet) -> list[Pair]:
    """The methods of a pool, the best merge first; empty where the experts are not known."""
    grid = sheet.blocks[-1].grid
    experts = next((line.average for line in grid.lines if line.entry == EXPERTS), None)
    if experts is None or not experts.accuracy:
        return []
    found = []
    for line in grid.lines:
        merged, ensembled = line.cells
        if merged and line.group != "reference":
            share = ensembled.accuracy / experts.accuracy if ensembled else None
            found.append(Pair(line.name, line.group, merged.accuracy / experts.accuracy, share, line.gap))
    return sorted(found, key=lambda pair: -pair.merged)


def gap_figure(sheet: Sheet | None) -> GapFigure | None:
    """The figure of one pool; None where there is nothing to compare."""
    found = pairs(sheet) if sheet else []
    if not sheet or not found:
        return None
    low, high = span([1.0, *(v for pair in found for v in (pair.merged, pair.ensembled) if v is not None)], 0.02)
    axis = Axis(max(low, 0.0), high, 0.0, 100.0)
    return GapFigure(sheet.title, tuple((pair, _track(pair, axis)) for pair in found), tuple(track_ticks(axis)))


def _track(pair: Pair, axis: Axis) -> Markup:
    """A diamond for merged, a ring for ensembled, a bar between them; a dashed line where the experts are."""
    parts = [track_reference(axis, 1.0, "experts")]
    text = f"{pair.label}: merged {percent(pair.merged)} % of the experts"
    if pair.ensembled is not None:
        text += f", ensembled {percent(pair.ensembled)} %"
        low, high = sorted((pair.merged, pair.ensembled))
        parts.append(track_line(axis, low, high, "between apart"))
    if pair.gap is not None:
        text += f"; gap {percent(pair.gap)} points of accuracy"
    marks = [track_mark(axis, pair.merged, "tuned")]
    if pair.ensembled is not None:
        marks.insert(0, track_mark(axis, pair.ensembled, "published"))
    parts.append(tag("g", tag("title", text), *marks))
    kind = "ours" if pair.group == NEULIG else None
    return tag("svg", *parts, width="100%", height=22, role="img", aria_label=text, class_=kind)
