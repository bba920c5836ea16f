"""Scale curves as data: the average accuracy against the scale, per method, with the scales the table used marked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from smelt.evaluation.row import Row
from smelt.reporting.draw.axis import span
from smelt.reporting.draw.panel import Marker, Stroke, panel
from smelt.reporting.figures.charts import Chart
from smelt.reporting.words import percent

__all__ = ["MethodCurve", "curve_charts", "scale_curves", "scale_of"]


@dataclass(frozen=True)
class MethodCurve:
    """One method: (scale, average accuracy over the tasks) in rising order, and the scales of note."""

    entry: str
    label: str
    split: str
    points: tuple[tuple[float, float], ...]
    published: float | None = None
    tuned: float | None = None

    @property
    def best(self) -> tuple[float, float]:
        return max(self.points, key=lambda point: point[1])


def scale_curves(rows: Iterable[Row]) -> list[MethodCurve]:
    """A curve for every entry that was evaluated at two scales or more; scales that miss a task are left out."""
    rows = list(rows)
    found: dict[tuple[str, str | None], list[Row]] = {}
    for row in rows:
        if row.variant == "curve" and scale_of(row.setting) is not None:
            found.setdefault((row.entry, row.part), []).append(row)
    curves = []
    for (entry, part), measured in found.items():
        points = _points(measured)
        if len(points) > 1:
            same = [row for row in rows if (row.entry, row.part) == (entry, part) and row.variant != "curve"]
            marks = {row.variant: scale_of(row.setting) for row in same}
            first = measured[0]
            label = f"{first.label}, {part}" if part else first.label
            curves.append(MethodCurve(entry, label, first.split, points, marks.get("published"), marks.get("tuned")))
    return curves


def scale_of(setting: Mapping[str, Any]) -> float | None:
    """The `scale` of a setting, also where it belongs to one stage of several."""
    scale = setting.get("scale")
    if isinstance(scale, int | float) and not isinstance(scale, bool):
        return float(scale)
    inner = (scale_of(value) for value in setting.values() if isinstance(value, Mapping))
    return next((value for value in inner if value is not None), None)


def _points(rows: Iterable[Row]) -> tuple[tuple[float, float], ...]:
    at: dict[float, dict[str, float]] = {}
    for row in rows:
        at.setdefault(scale_of(row.setting) or 0.0, {})[row.task] = row.accuracy
    tasks = max(len(scores) for scores in at.values())
    whole = {scale: scores for scale, scores in at.items() if len(scores) == tasks}
    return tuple((scale, sum(scores.values()) / tasks) for scale, scores in sorted(whole.items()))


def curve_charts(curves: Sequence[MethodCurve]) -> list[Chart]:
    """Accuracy against scale, all methods on the same axes."""
    every = [point for curve in curves for point in curve.points]
    x, y = span([scale for scale, _ in every], 0.03), span([value for _, value in every])
    charts = []
    for curve in curves:
        strokes = [Stroke(other.label, other.points, "focus" if other is curve else "ghost") for other in curves]
        marks = [
            Marker((scale, _between(curve.points, scale)), kind, f"{curve.label}, {kind}: scale {scale:g}")
            for kind, scale in (("published", curve.published), ("tuned", curve.tuned))
            if scale is not None and x[0] <= scale <= x[1]
        ]
        scale, value = curve.best
        title = f"{curve.label}: average accuracy in % against the scale, best {percent(value)} at {scale:g}"
        drawing = panel(title, strokes, x=x, y=y, marks=marks)
        charts.append(Chart(curve.label, drawing, f"best {percent(value)} % at scale {scale:g}"))
    return charts


def _between(points: Sequence[tuple[float, float]], x: float) -> float:
    """The height of a line of points at x, straight between its neighbours."""
    for (left, low), (right, high) in pairwise(points):
        if left <= x <= right:
            return low + (high - low) * (x - left) / (right - left)
    return points[0][1] if x < points[0][0] else points[-1][1]
