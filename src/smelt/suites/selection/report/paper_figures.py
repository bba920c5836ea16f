"""The paper's Figures 1 and 3, with this run's numbers: one panel for held-in sets, one for held-out sets.

Figure 1: the best single model, the average of all, and the average of those that UQ-Merge chose. Figure 3: the worst,
the mean and the best of the random groups by every method, and UQ-Merge as a line.
"""

from __future__ import annotations

from collections.abc import Sequence

from smelt.reporting.draw.axis import span
from smelt.reporting.draw.panel import Marker, Stroke, panel
from smelt.reporting.figures.charts import Chart, LineFigure
from smelt.suites.selection.report.analyses import KINDS, SelectionAnalysis
from smelt.suites.selection.report.table_shapes import Scores
from smelt.suites.selection.report.tables import entry_label

__all__ = ["paper_figures"]

_JUDGED = ("held_in", "held_out")
Range = tuple[str, float, float, float]
"""A name, and the worst, the mean and the best."""


def paper_figures(scores: Scores, selection: SelectionAnalysis) -> list[LineFigure]:
    """Those for which there are numbers."""
    found = []
    for title, note, ranges in (
        ("Best single model, all models, chosen models (the paper's Figure 1)", _FIRST, _references),
        ("Random groups by method (the paper's Figure 3)", _THIRD, _methods),
    ):
        charts = [_chart(kind, ranges(scores, selection, kind), scores, selection) for kind in _JUDGED]
        drawn = tuple(chart for chart in charts if chart is not None)
        if drawn:
            found.append(LineFigure(title, note, drawn, (("UQ-Merge", 3), ("Worst to best", 0))))
    return found


_FIRST = "The mean over the sets, in %. The best single model is the one with the best labels on held-in sets."
_THIRD = "Strokes go from the worst to the best of the random groups, rings are their means; the line is UQ-Merge."


def _references(scores: Scores, selection: SelectionAnalysis, kind: str) -> list[Range]:
    whose = {"Best single": selection.best_single, "All": selection.all, "UQ-Merge": selection.chosen}
    return [one for name, who in whose.items() if (one := _range(name, [who], scores, selection, kind)) is not None]


def _methods(scores: Scores, selection: SelectionAnalysis, kind: str) -> list[Range]:
    found = [
        _range(entry_label(selection, entry), on["subsets"], scores, selection, kind)
        for entry, on in selection.on.items()
    ]
    return [one for one in found if one is not None]


def _range(name: str, whose: Sequence[str], scores: Scores, selection: SelectionAnalysis, kind: str) -> Range | None:
    cells = [scores.mean(who, selection.sets[kind]) for who in whose]
    values = [cell.accuracy for cell in cells if cell]
    if not values or len(values) < len(cells):
        return None
    return name, min(values), sum(values) / len(values), max(values)


def _chart(kind: str, ranges: Sequence[Range], scores: Scores, selection: SelectionAnalysis) -> Chart | None:
    own = scores.mean(selection.chosen, selection.sets[kind])
    if not ranges or own is None:
        return None
    end = float(len(ranges)) + 0.5
    strokes = [Stroke("UQ-Merge", [(0.5, own.accuracy), (end, own.accuracy)], "c3")]
    marks = []
    for place, (name, low, mean, high) in enumerate(ranges, 1):
        strokes.append(Stroke(name, [(float(place), low), (float(place), high)], "c0"))
        said = f"{name}: {100 * mean:.1f} % ({100 * low:.1f} to {100 * high:.1f})"
        marks.append(Marker((float(place), mean), "published", said))
    y = span([own.accuracy, *(value for _, *three in ranges for value in three)])
    drawing = panel(
        f"{KINDS[kind]} accuracy in %: {', '.join(name for name, *_ in ranges)}",
        strokes,
        x=(0.5, end),
        y=y,
        x_ticks=[(float(place), str(place)) for place in range(1, len(ranges) + 1)],
        marks=marks,
        wide=True,
    )
    names = "; ".join(f"{place}: {name}" for place, (name, *_) in enumerate(ranges, 1))
    return Chart(f"{KINDS[kind]} accuracy, in %", drawing, names)
