"""Two bars on one track with a logarithmic axis: what the algorithm took, and what choosing its setting took."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from smelt.reporting.draw.axis import Axis
from smelt.reporting.draw.svg import tag
from smelt.reporting.words import seconds_text

__all__ = ["log_axis", "log_ticks", "time_bars"]

_TICKS = (0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 36000.0, 360000.0)
_WORDS = {0.01: "10 ms", 0.1: "0.1 s", 1.0: "1 s", 10.0: "10 s", 60.0: "1 min", 600.0: "10 min", 3600.0: "1 h"}
_WORDS |= {36000.0: "10 h", 360000.0: "100 h"}


def log_ticks(values: Sequence[float]) -> list[tuple[float, str]]:
    """Round times from the one below the least to the one above the largest; values that are 0 have no place."""
    known = [value for value in values if value > 0] or [1.0]
    low = max((tick for tick in _TICKS if tick <= min(known)), default=_TICKS[0])
    high = min((tick for tick in _TICKS if tick >= max(known) and tick > low), default=_TICKS[-1])
    return [(tick, _WORDS[tick]) for tick in _TICKS if low <= tick <= high]


def log_axis(ticks: Sequence[tuple[float, str]], start: float, end: float) -> Axis:
    """The logarithm of seconds, mapped to start…end."""
    return Axis(math.log10(ticks[0][0]), math.log10(ticks[-1][0]), start, end)


def time_bars(name: str, algorithm: float, validation: float, ticks: Sequence[tuple[float, str]]) -> Markup:
    """The algorithm's bar above that of the validation; each begins at the axis's first round number."""
    axis = log_axis(ticks, 0.0, 100.0)
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
