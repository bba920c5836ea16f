"""Gap against accuracy relative to the experts, as data: a method good at both is at 100 % twice.

A gap can be small because both ways are good, or because both are bad: so both are shown on one axis, on which the
gap is the distance between them.
"""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from smelt.reporting.draw.axis import Axis, round_ticks, span
from smelt.reporting.tables.sheet import Sheet
from smelt.suites.collaboration.report.gap_track import gap_track

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
    experts = next((line.average for line in grid.lines if line.entry == "experts"), None)
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
    ticks = tuple((f"{axis.at(tick):.2f}%", f"{100 * tick:g}") for tick in round_ticks(axis.low, axis.high, 6))
    lines = tuple(
        (pair, gap_track(pair.label, pair.merged, pair.ensembled, pair.gap, axis, ours=pair.group == "neulig"))
        for pair in found
    )
    return GapFigure(sheet.title, lines, ticks)
