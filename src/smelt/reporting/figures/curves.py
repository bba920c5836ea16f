"""Scale curves as data: the average accuracy against the scale, per method, with the scales the table used marked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from smelt.evaluation.row import Row

__all__ = ["Curve", "scale_curves", "scale_of"]


@dataclass(frozen=True)
class Curve:
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


def scale_curves(rows: Iterable[Row]) -> list[Curve]:
    """A curve for every entry that was evaluated at two scales or more; scales that miss a task are left out."""
    rows = list(rows)
    found: dict[tuple[str, str | None], list[Row]] = {}
    for row in rows:
        if row.variant == "curve" and row.level is None and scale_of(row.setting) is not None:
            found.setdefault((row.entry, row.part), []).append(row)
    curves = []
    for (entry, part), measured in found.items():
        points = _points(measured)
        if len(points) > 1:
            same = [row for row in rows if (row.entry, row.part) == (entry, part) and row.variant != "curve"]
            marks = {row.variant: scale_of(row.setting) for row in same}
            first = measured[0]
            label = f"{first.label}, {part}" if part else first.label
            curves.append(Curve(entry, label, first.split, points, marks.get("published"), marks.get("tuned")))
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
