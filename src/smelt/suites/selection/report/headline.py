"""The first words about a selection: what was chosen, whether that helps, who harms the average of all."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.evaluation.row import Row
from smelt.reporting.pages import Tile
from smelt.reporting.tables.cells import Cell
from smelt.reporting.words import count, percent, plural
from smelt.suites.selection.report.analyses import Compared, SelectionAnalysis
from smelt.suites.selection.report.questions import apart
from smelt.suites.selection.report.table_shapes import Scores
from smelt.tasks.intervals import Z95

__all__ = ["selection_sentences", "selection_tiles"]


def selection_sentences(rows: Sequence[Row], selection: SelectionAnalysis) -> list[str]:
    """What was asked, what was chosen, how that compares, and whom to leave out."""
    scores = Scores(rows, selection)
    asked = sum(cell.n for task in selection.judged if (cell := scores.cell(selection.base, task)))
    said = [
        f"{plural(len(selection.models), 'expert')} of one model, and the question which of them to merge. Their "
        f"uncertainty on {plural(len(selection.sets['held_in']), 'unlabelled set')} chooses; "
        f"{count(asked)} questions of {plural(len(selection.judged), 'set')} judge.",
        _chosen(selection),
    ]
    beside = [one for one in (_against(selection, name) for name in _OTHERS) if one]
    if beside:
        said.append(f"On held-out sets the chosen merge is {'; '.join(beside)}.")
    return [*said, *_harm(selection)]


def selection_tiles(rows: Sequence[Row], selection: SelectionAnalysis) -> list[Tile]:
    """Held-out accuracies: the chosen merge, the average of all, the joint model, the base."""
    scores, tasks = Scores(rows, selection), selection.sets["held_out"]
    shown: list[tuple[str, Cell | None, str]] = [
        ("UQ-Merge", scores.mean(selection.chosen, tasks), f"{len(selection.chosen_models)} models, held-out sets"),
        ("Average of all", scores.mean(selection.all, tasks), f"{len(selection.models)} models"),
        ("Random groups", scores.mean_of(selection.on[selection.average]["subsets"], tasks), "averaged, of one size"),
        ("Trained together", scores.mean(selection.joint, tasks) if selection.joint else None, "on all data"),
        ("Before fine-tuning", scores.mean(selection.base, tasks), "the base model"),
    ]
    found = [(title, cell.accuracy, below) for title, cell, below in shown if cell]
    best = max((value for title, value, _ in found if title in _FREE), default=None)
    return [Tile(t, percent(value), below, best=t in _FREE and value == best) for t, value, below in found]


_FREE = ("Average of all", "Random groups")
"""Merges that looked at no data: only these compete."""
_OTHERS = {
    "subsets": "random groups, averaged",
    "all": "the average of all",
    "good": "the average without the experts that were made to harm",
    "best_single": "the best single model by held-in labels",
    "soup": "the greedy soup, which saw labels",
    "joint": "the model trained on everything",
}


def _chosen(selection: SelectionAnalysis) -> str:
    own, size = selection.own, len(selection.chosen_models)
    first, lowest = own.chosen["first_local_min"], own.chosen["global_min"]
    said = f"UQ-Merge takes {size} of {len(selection.models)}: {', '.join(own.added[:size])}"
    if first != lowest:
        how, other = ("the first local minimum", f"the lowest of all would take {lowest}")
        if size == lowest:
            how, other = ("the lowest uncertainty of all", f"the first local minimum would take {first}")
        said += f" ({how}; {other})"
    return f"{said}. Its uncertainty is {own.uncertainty[size - 1].text} nats."


def _against(selection: SelectionAnalysis, name: str) -> str:
    found = next((one for one in selection.comparisons("reference", "held_out") if one.name == name), None)
    if found is None:
        return ""
    return f"the same as {_OTHERS[name]}" if found.same else f"{_points(found)} {_OTHERS[name]} ({_interval(found)})"


def _points(one: Compared) -> str:
    return f"{abs(100 * one.difference):.2f} points {'above' if one.difference >= 0 else 'below'}"


def _interval(one: Compared) -> str:
    return apart(one).partition("(")[2].rstrip(")")


def _harm(selection: SelectionAnalysis) -> list[str]:
    found = selection.comparisons("harm")
    if not found:
        return []
    hurt = sorted((one for one in found if one.low > 0), key=lambda one: -one.difference)
    if not hurt:
        return [f"None of the {len(found)} experts harms the average of all beyond the 95 % interval."]
    names = ", ".join(f"{one.name} ({100 * one.difference:+.2f} points without it)" for one in hurt)
    strict = sum(one.difference - _strict(len(found)) * one.error > 0 for one in hurt)
    return [
        f"{plural(len(hurt), 'expert harms', 'experts harm')} the average of all beyond the 95 % interval: {names}. "
        f"With the interval widened for {len(found)} comparisons (Bonferroni) it is {strict}."
    ]


def _strict(comparisons: int) -> float:
    """How many standard errors, where one of so many comparisons may be wrong in 5 % of all cases."""
    from statistics import NormalDist

    return max(Z95, NormalDist().inv_cdf(1 - 0.025 / comparisons))
