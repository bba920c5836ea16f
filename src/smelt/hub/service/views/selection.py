"""A selection as the task's page shows it: who is used, who is best, and for each class why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from smelt.hub.selection.explain import Explanation, explain

if TYPE_CHECKING:
    from smelt.hub.selection.select import Selection

__all__ = ["Findings", "findings"]

_EXPLAINED, _SHOWN_MODELS, _HEAT_CLASSES = 40, 8, 24


@dataclass(frozen=True)
class Findings:
    """Everything that the page draws."""

    selection: Selection
    ranking: list[tuple[str, float, bool, int]]
    """Model, mean predicted precision, whether it is used, for how many classes."""
    most: float
    classes: list[Explanation]
    """With the best models that were not chosen, so that there are eight where the hub has as many."""
    short: list[tuple[str, list[str]]]
    """Classes beyond those that are explained, with their models."""
    heat: list[tuple[str, list[tuple[float, bool]]]]
    """Model, then for every class its reuse metric and whether it is chosen; empty for very many classes."""
    heat_most: float


def findings(selection: Selection, *, explained: int = _EXPLAINED) -> Findings:
    """Read a selection from its numbers alone; the first `explained` classes with their nodes."""
    names, chosen, classes = selection.models, selection.chosen, selection.task.classes
    counts = dict.fromkeys(names, 0)
    for one in chosen:
        for number in one:
            counts[names[number]] += 1
    ranking = [(name, value, counts[name] > 0, counts[name]) for name, value in selection.ranking]
    others = max(0, _SHOWN_MODELS - selection.k)
    why = [explain(selection, name, others=others) for name in classes[:explained]]
    short = [(classes[n], list(selection.chosen_names[n])) for n in range(explained, len(chosen))]
    heat: list[tuple[str, list[tuple[float, bool]]]] = []
    if 1 < len(chosen) <= _HEAT_CLASSES:
        number_of = {name: number for number, name in enumerate(names)}
        order = [number_of[name] for name, *_ in ranking]
        wanted = [m for place, m in enumerate(order) if place < _SHOWN_MODELS or counts[names[m]]]
        heat = [
            (names[m], [(float(selection.reuse[m, y]), m in chosen[y]) for y in range(len(chosen))]) for m in wanted
        ]
    most = max((value for _, value, *_ in ranking), default=1.0)
    return Findings(selection, ranking, most, why, short, heat, float(selection.reuse.max()))
