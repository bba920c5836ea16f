"""The figures of a language suite, as the paper numbers them: trade-off (3), time (4), performance against time (5)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from smelt.evaluation.row import CostRow, Row
from smelt.reporting.draw.axis import Axis, percent_ticks, span
from smelt.reporting.draw.scatter import Dot, Shape, scatter
from smelt.reporting.draw.svg import tag
from smelt.reporting.tables.cells import Cell
from smelt.reporting.tables.layout import transposed_heads, transposed_rows
from smelt.reporting.tables.sheet import Sheet
from smelt.reporting.words import percent, seconds_text
from smelt.suites.language.report.analyses import Language
from smelt.suites.language.report.standing import Standing, StandingKind, standings, tuning

__all__ = [
    "Times",
    "language_figures",
    "log_ticks",
    "performance_against_time",
    "time_bars",
    "times",
    "trade_off",
]


_SHAPES: dict[StandingKind, Shape] = {
    "method": "circle",
    "base": "square",
    "single": "diamond",
    "multitask": "diamond",
}
_KINDS: dict[StandingKind, str] = {
    "method": "merged",
    "base": "base model",
    "single": "best single specialist",
    "multitask": "trained on all domains together",
}


@dataclass(frozen=True)
class Times:
    """Figure 4 as data: a drawing for every method, and the ticks below them, by their place in percent."""

    lines: tuple[tuple[Standing, Markup, float], ...]
    """A method, its bars, and the share of the largest peak memory."""
    ticks: tuple[tuple[str, str], ...]
    where: str


def language_figures(
    rows: Sequence[Row], costs: Iterable[CostRow], sheets: Sequence[Sheet], language: Language
) -> dict[str, Any]:
    """Everything that the sections name; None where there is no data."""
    found = standings(sheets, costs, language)
    return {
        "tables": [(sheet, transposed_heads(sheet), transposed_rows(sheet)) for sheet in sheets],
        "trade_off": trade_off(found),
        "kinds": [(kind, text) for kind, text in _KINDS.items() if any(one.kind == kind for one in found)],
        "times": times(found),
        "against_time": performance_against_time(found),
        "tuning": tuning(rows, sheets),
    }


def trade_off(found: Sequence[Standing]) -> Markup | None:
    """Figure 3: what is kept of the base's general ability, over what is reached of the experts'."""
    known = [(one, one.skill, one.generalisation) for one in found if one.skill and one.generalisation]
    if not any(one.kind == "method" for one, _, _ in known):
        return None
    dots = [
        Dot(
            one.name,
            skill.accuracy,
            general.accuracy,
            one.kind,
            f"{one.name}: {_of(skill)} of the experts, {_of(general)} of the base on general tasks",
            (skill.low, skill.high),
            (general.low, general.high),
            _SHAPES[one.kind],
        )
        for one, skill, general in known
    ]
    x = span([value for dot in dots for value in (*_near(dot.x_ends), dot.x)], 0.05)
    y = span([value for dot in dots for value in (*_near(dot.y_ends), dot.y)], 0.05)
    return scatter(
        "Generalisation against multi-task performance, both normalised",
        dots,
        x=x,
        y=y,
        x_ticks=percent_ticks(*x, 6),
        y_ticks=percent_ticks(*y, 6),
        labels=("multi-task performance, % of the experts", "generalisation, % of the base"),
        guides=(1.0, 1.0),
    )


def performance_against_time(found: Sequence[Standing]) -> Markup | None:
    """Figure 5: normalised performance over all seconds that a method took, on a logarithmic axis."""
    known = [(one, one.skill, one.total_seconds) for one in found if one.kind == "method"]
    drawn = [(one, skill, seconds) for one, skill, seconds in known if skill and seconds]
    if not drawn:
        return None
    ticks = log_ticks([seconds for _, _, seconds in drawn])
    dots = [
        Dot(
            one.name,
            math.log10(seconds),
            skill.accuracy,
            one.kind,
            f"{one.name}: {_of(skill)} of the experts in {seconds_text(seconds)}",
            None,
            (skill.low, skill.high),
        )
        for one, skill, seconds in drawn
    ]
    y = span([value for dot in dots for value in (*_near(dot.y_ends), dot.y)], 0.05)
    return scatter(
        "Normalised multi-task performance against total time",
        dots,
        x=(math.log10(ticks[0][0]), math.log10(ticks[-1][0])),
        y=y,
        x_ticks=[(math.log10(tick), text) for tick, text in ticks],
        y_ticks=percent_ticks(*y, 6),
        labels=("algorithm and validation together", "multi-task performance, % of the experts"),
        guides=(None, 1.0),
    )


def times(found: Sequence[Standing]) -> Times | None:
    """Figure 4: algorithm and validation time of every method, and its peak memory."""
    paid = [(one, one.cost, one.algorithm_seconds or 0.0) for one in found if one.kind == "method" and one.cost]
    if not paid:
        return None
    ticks = log_ticks([value for _, cost, algorithm in paid if cost for value in (algorithm, cost.validate_seconds)])
    largest = max(cost.most_bytes for _, cost, _ in paid if cost) or 1
    lines = tuple(
        (one, time_bars(one.name, algorithm, cost.validate_seconds, ticks), cost.most_bytes / largest)
        for one, cost, algorithm in paid
        if cost
    )
    low, high = math.log10(ticks[0][0]), math.log10(ticks[-1][0])
    marks = tuple((f"{100 * (math.log10(t) - low) / (high - low):.2f}%", text) for t, text in ticks)
    devices = sorted({cost.device for _, cost, _ in paid if cost} | {c.prepare_device for _, c, _ in paid if c})
    return Times(lines, marks, ", ".join(devices))


def _near(ends: tuple[float, float] | None) -> tuple[float, ...]:
    return ends or ()


def _of(cell: Cell) -> str:
    return f"{percent(cell.accuracy)} % ({percent(cell.low)} to {percent(cell.high)})"


_TICKS = (0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 36000.0, 360000.0)
_WORDS = {0.01: "10 ms", 0.1: "0.1 s", 1.0: "1 s", 10.0: "10 s", 60.0: "1 min", 600.0: "10 min", 3600.0: "1 h"}
_WORDS |= {36000.0: "10 h", 360000.0: "100 h"}


def log_ticks(values: Sequence[float]) -> list[tuple[float, str]]:
    """Round times from the one below the least to the one above the largest; values that are 0 have no place."""
    known = [value for value in values if value > 0] or [1.0]
    low = max((tick for tick in _TICKS if tick <= min(known)), default=_TICKS[0])
    high = min((tick for tick in _TICKS if tick >= max(known) and tick > low), default=_TICKS[-1])
    return [(tick, _WORDS[tick]) for tick in _TICKS if low <= tick <= high]


def time_bars(name: str, algorithm: float, validation: float, ticks: Sequence[tuple[float, str]]) -> Markup:
    """The algorithm's bar above that of the validation; each begins at the axis's first round number."""
    axis = Axis(math.log10(ticks[0][0]), math.log10(ticks[-1][0]), 0.0, 100.0)
    parts = [
        tag("line", x1=_at(axis, tick), x2=_at(axis, tick), y1=0, y2="100%", class_="grid") for tick, _ in ticks[1:]
    ]
    for seconds, y, kind in ((algorithm, 2, "algorithm"), (validation, 12, "validation")):
        if seconds > 0:
            tip = tag("title", f"{name}, {kind}: {seconds_text(seconds)}")
            parts.append(tag("rect", tip, x=0, y=y, width=_at(axis, seconds), height=8, rx=1.5, class_=kind))
    text = f"{name}: algorithm {seconds_text(algorithm)}, choosing the setting {seconds_text(validation)}"
    return tag("svg", *parts, width="100%", height=22, role="img", aria_label=text, class_="times")


def _at(axis: Axis, seconds: float) -> str:
    share = axis.at(math.log10(max(seconds, 1e-9)))
    return f"{min(max(share, 0.5), 100.0):.2f}%"
