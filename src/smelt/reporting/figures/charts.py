"""Which small charts the page has, and over which ranges: the step from a figure's data to its drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from smelt.reporting.analyses import Norms
from smelt.reporting.draw.axis import round_ticks, span
from smelt.reporting.draw.panel import Mark, Stroke, panel
from smelt.reporting.figures.curves import Curve
from smelt.reporting.figures.paths import InterpolationPath
from smelt.reporting.words import percent, short_layer, without_shared_start

__all__ = ["Chart", "curve_charts", "norm_charts", "path_charts"]


@dataclass(frozen=True)
class Chart:
    """A drawing with a heading above and a line of text below."""

    title: str
    drawing: Markup
    note: str = ""


def curve_charts(curves: Sequence[Curve]) -> list[Chart]:
    """Accuracy against scale, all methods on the same axes."""
    every = [point for curve in curves for point in curve.points]
    x = span([scale for scale, _ in every], 0.03)
    y = span([value for _, value in every])
    charts = []
    for curve in curves:
        strokes = [Stroke(other.label, other.points, "focus" if other is curve else "ghost") for other in curves]
        marks = [
            Mark((scale, _between(curve.points, scale)), kind, f"{curve.label}, {kind}: scale {scale:g}")
            for kind, scale in (("published", curve.published), ("tuned", curve.tuned))
            if scale is not None and x[0] <= scale <= x[1]
        ]
        scale, value = curve.best
        charts.append(
            Chart(
                curve.label,
                panel(
                    f"{curve.label}: average accuracy in % against the scale, best {percent(value)} at {scale:g}",
                    strokes,
                    x=x,
                    y=y,
                    x_ticks=[(tick, f"{tick:g}") for tick in round_ticks(*x)],
                    y_ticks=[(tick, f"{100 * tick:g}") for tick in round_ticks(*y)],
                    marks=marks,
                ),
                f"best {percent(value)} % at scale {scale:g}",
            )
        )
    return charts


def norm_charts(norms: Norms) -> list[Chart]:
    """The length of a model's change layer after layer, all models on the same axes."""
    y = span([0.0, *(value for row in norms.models.values() for value in row if value is not None)], 0.04)
    y = (0.0, y[1])
    factor = 100 if norms.relative else 1
    last = len(norms.layers) - 1
    ends = sorted({0, last})
    points = {
        name: [(float(place), value) for place, value in enumerate(row) if value is not None]
        for name, row in norms.models.items()
    }
    return [
        Chart(
            name,
            panel(
                f"{name}: length of the change per layer",
                [Stroke(other, line, "focus" if other == name else "ghost") for other, line in points.items()],
                x=(0.0, max(last, 1)),
                y=y,
                x_ticks=[(float(place), short_layer(norms.layers[place])) for place in ends],
                y_ticks=[(tick, f"{factor * tick:g}") for tick in round_ticks(*y)],
            ),
        )
        for name in norms.models
    ]


def path_charts(paths: Sequence[InterpolationPath]) -> list[Chart]:
    """Accuracy along the straight line between two models: the average, and the tasks of its two ends."""
    y = span([value for path in paths for line in path.tasks.values() for _, value in line])
    short = without_shared_start([end for path in paths for end in (path.start, path.end)])
    charts = []
    for path in paths:
        strokes = [Stroke(task, line, _role(task, path)) for task, line in path.tasks.items()]
        strokes.append(Stroke("average", path.average, "focus"))
        note = "" if path.barrier is None else f"loss barrier {max(path.barrier, 0.0):.3f}"
        charts.append(
            Chart(
                f"{short[path.start]} → {short[path.end]}",
                panel(
                    f"Accuracy in % along the line from {short[path.start]} to {short[path.end]}",
                    strokes,
                    x=(0.0, 1.0),
                    y=y,
                    x_ticks=[(0.0, "0"), (0.5, "0.5"), (1.0, "1")],
                    y_ticks=[(tick, f"{100 * tick:g}") for tick in round_ticks(*y)],
                ),
                note,
            )
        )
    return charts


def _role(task: str, path: InterpolationPath) -> str:
    """Whether a path's end is the expert of this task: `zoo:clip-tiny-photos` and `expert-photos` are of photos."""
    ends = {"from": path.start, "to": path.end}
    return next((role for role, end in ends.items() if end == task or end.endswith(("-" + task, "_" + task))), "ghost")


def _between(points: Sequence[tuple[float, float]], x: float) -> float:
    """The height of a line of points at x, straight between its neighbours."""
    for (left, low), (right, high) in pairwise(points):
        if left <= x <= right:
            return low + (high - low) * (x - left) / (right - left)
    return points[0][1] if x < points[0][0] else points[-1][1]
