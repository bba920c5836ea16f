"""Straight lines between two models as data: accuracy per task along t = 0…1, and the barrier of the loss.

barrier = max_t  loss(t) - ((1 - t) loss(0) + t loss(1))          with the loss averaged over the tasks
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from smelt.evaluation.row import Row
from smelt.reporting.draw.axis import span
from smelt.reporting.draw.panel import Stroke, panel
from smelt.reporting.figures.charts import Chart
from smelt.reporting.words import without_shared_start

__all__ = ["InterpolationPath", "barrier", "interpolation_paths", "path_charts"]

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class InterpolationPath:
    """From one model to another: (t, accuracy) for every task and for their average."""

    start: str
    end: str
    split: str
    tasks: dict[str, Points]
    average: Points
    barrier: float | None


def interpolation_paths(rows: Iterable[Row]) -> list[InterpolationPath]:
    """A path for every pair of models with two points or more."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.variant == "path" and isinstance(row.setting.get("t"), int | float):
            found.setdefault((str(row.setting.get("from")), str(row.setting.get("to"))), []).append(row)
    paths = []
    for (start, end), measured in found.items():
        accuracy = {(float(row.setting["t"]), row.task): row.accuracy for row in measured}
        average = _mean(accuracy)
        if len(average) > 1:
            tasks = dict.fromkeys(row.task for row in measured)
            lines = {task: tuple(sorted((t, v) for (t, of), v in accuracy.items() if of == task)) for task in tasks}
            losses = {(float(row.setting["t"]), row.task): row.loss for row in measured if row.loss is not None}
            rise = barrier(_mean(losses)) if losses else None
            paths.append(InterpolationPath(start, end, measured[0].split, lines, average, rise))
    return paths


def barrier(loss: Sequence[tuple[float, float]]) -> float | None:
    """How far the loss rises above the straight line between its ends; None where an end is missing."""
    ends = dict(loss)
    if 0.0 not in ends or 1.0 not in ends:
        return None
    return max(value - ((1 - t) * ends[0.0] + t * ends[1.0]) for t, value in loss)


def _mean(values: dict[tuple[float, str], float]) -> Points:
    at: dict[float, list[float]] = {}
    for (t, _), value in values.items():
        at.setdefault(t, []).append(value)
    tasks = max(len(found) for found in at.values())
    return tuple((t, sum(found) / tasks) for t, found in sorted(at.items()) if len(found) == tasks)


def path_charts(paths: Sequence[InterpolationPath]) -> list[Chart]:
    """Accuracy along the straight line between two models: the average, and the tasks of its two ends."""
    y = span([value for path in paths for line in path.tasks.values() for _, value in line])
    short = without_shared_start([end for path in paths for end in (path.start, path.end)])
    charts = []
    for path in paths:
        start, end = short[path.start], short[path.end]
        strokes = [Stroke(task, line, _role(task, path)) for task, line in path.tasks.items()]
        strokes.append(Stroke("average", path.average, "focus"))
        ticks = [(0.0, "0"), (0.5, "0.5"), (1.0, "1")]
        title = f"Accuracy in % along the line from {start} to {end}"
        note = "" if path.barrier is None else f"loss barrier {max(path.barrier, 0.0):.3f}"
        charts.append(Chart(f"{start} → {end}", panel(title, strokes, x=(0.0, 1.0), y=y, x_ticks=ticks), note))
    return charts


def _role(task: str, path: InterpolationPath) -> str:
    """Whether a path's end is the expert of this task: `zoo:clip-tiny-photos` and `expert-photos` are of photos."""
    ends = {"from": path.start, "to": path.end}
    return next((role for role, end in ends.items() if end == task or end.endswith(("-" + task, "_" + task))), "ghost")
