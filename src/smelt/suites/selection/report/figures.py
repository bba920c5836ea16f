"""The figures of a selection suite: the trace over the steps, and random groups of every size around it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from smelt.evaluation.row import Row
from smelt.reporting.draw.axis import number_ticks, span
from smelt.reporting.draw.panel import Band, Marker, Stroke, panel
from smelt.reporting.figures.charts import Chart, LineFigure
from smelt.suites.selection.report.analyses import KINDS, SelectionAnalysis
from smelt.suites.selection.report.questions import research_questions
from smelt.suites.selection.report.table_shapes import Scores
from smelt.suites.selection.report.tables import choice_text

__all__ = ["random_figure", "selection_figures", "trace_figure"]

_COLOURS = {"held_in": 2, "held_out": 3, "validation": 4}
Points = list[tuple[float, float]]


def selection_figures(rows: Iterable[Row], selection: SelectionAnalysis) -> dict[str, Any]:
    """Everything that the section names; None where there is no data."""
    rows = list(rows)
    scores = Scores(rows, selection)
    return {
        "questions": research_questions(rows, selection),
        "trace": trace_figure(scores, selection),
        "random": random_figure(scores, selection),
        "sets": uncertainty_table(selection),
    }


def trace_figure(scores: Scores, selection: SelectionAnalysis) -> LineFigure:
    """Uncertainty with its interval, and accuracies, against the number of models."""
    own = selection.own
    at = [float(size) for size in range(1, len(own.who) + 1)]
    low = list(zip(at, (one.low for one in own.uncertainty), strict=True))
    high = list(zip(at, (one.high for one in own.uncertainty), strict=True))
    means = list(zip(at, own.values, strict=True))
    y = span([value for points in (low, high) for _, value in points])
    shapes = {"first_local_min": "published", "global_min": "tuned"}  # a diamond on a ring leaves both to be seen
    marks = [Marker(means[own.chosen[choice] - 1], shape, choice_text(choice)) for choice, shape in shapes.items()]
    first = panel(
        "Uncertainty in nats against the number of models",
        [Stroke("uncertainty", means, "c7")],
        x=(1.0, at[-1]),
        y=(max(y[0], 0.0), y[1]),
        x_ticks=_sizes(at),
        y_ticks=number_ticks(max(y[0], 0.0), y[1]),
        wide=True,
        bands=[Band(low, high, "c7")],
        marks=marks,
    )
    lines = {kind: _line(scores, own.who, selection.sets[kind]) for kind in selection.sets}
    drawn = {kind: points for kind, points in lines.items() if points}
    second = _accuracies("Accuracy in % against the number of models", drawn, at[-1])
    keys = tuple((f"{KINDS[kind]} accuracy", _COLOURS[kind]) for kind in drawn)
    note = (
        "Models join by descending uncertainty; every step is the average of all so far. Shaded: the 95 % interval of "
        "the uncertainty. Diamond: the lowest of all; ring: the first local minimum."
    )
    charts = (Chart("Uncertainty, in nats", first), Chart("Accuracy, in %", second))
    return LineFigure("Step by step", note, charts, (("Uncertainty", 7), *keys))


def random_figure(scores: Scores, selection: SelectionAnalysis) -> LineFigure | None:
    """Held-out accuracy of random groups, from the worst to the best, and UQ-Merge's own steps on top."""
    tasks, own = selection.sets["held_out"], selection.own
    groups = {**selection.random, 1: tuple(f"expert-{name}" for name in selection.models)}
    groups[len(own.who)] = (selection.all,)
    found = {}
    for size, many in sorted(groups.items()):
        cells = [scores.mean(who, tasks) for who in many]
        known = [cell.accuracy for cell in cells if cell]
        if known:
            found[float(size)] = known
    if not selection.random or len(found) < 2:
        return None
    low, mean, high = ([(x, pick(y)) for x, y in found.items()] for pick in (min, _mean, max))
    trace = _line(scores, own.who, tasks)
    y = span([value for points in (low, high, trace) for _, value in points])
    end = float(len(own.who))
    strokes = [Stroke("mean of random groups", mean, "c0"), Stroke("UQ-Merge's steps", trace, "c3")]
    drawing = panel(
        "Held-out accuracy in % against the number of models: random groups and UQ-Merge",
        strokes,
        x=(1.0, end),
        y=y,
        x_ticks=_sizes([float(size) for size in range(1, len(own.who) + 1)]),
        wide=True,
        bands=[Band(low, high, "c0")],
    )
    most = max(len(many) for size, many in selection.random.items())
    note = (
        f"Held-out accuracy in % against the number of models that are averaged. Shaded: from the worst to the best of "
        f"up to {most} random groups of each size (one model: all of them)."
    )
    chart = Chart("Held-out accuracy, in %", drawing)
    return LineFigure("Random groups", note, (chart,), (("Mean of random groups", 0), ("UQ-Merge", 3)))


def uncertainty_table(selection: SelectionAnalysis) -> dict[str, Any]:
    """The uncertainty of every step on every held-in set (the paper's Table 11): heads and rows of text."""
    own, tasks = selection.own, selection.sets["held_in"]
    rows = [
        (f"{number}: {added}", [f"{one.sets[task]:.4f}" for task in tasks], one.text)
        for number, (added, one) in enumerate(zip(own.added, own.uncertainty, strict=True), 1)
    ]
    return {"tasks": tasks, "rows": rows}


def _accuracies(title: str, lines: dict[str, Points], end: float) -> Any:
    y = span([value for points in lines.values() for _, value in points])
    return panel(
        title,
        [Stroke(KINDS[kind], points, f"c{_COLOURS[kind]}") for kind, points in lines.items()],
        x=(1.0, end),
        y=y,
        x_ticks=_sizes([float(size) for size in range(1, int(end) + 1)]),
        wide=True,
    )


def _line(scores: Scores, who: Sequence[str], tasks: Sequence[str]) -> Points:
    cells = [scores.mean(one, tasks) for one in who]
    return [(float(size), cell.accuracy) for size, cell in enumerate(cells, 1) if cell]


def _sizes(at: Sequence[float]) -> list[tuple[float, str]]:
    return [(size, f"{size:g}") for size in at]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
