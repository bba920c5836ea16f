"""Methods against each other as data: the ranking by average, and the series of the figure over tasks."""

from __future__ import annotations

from dataclasses import dataclass

from smelt.reporting.tables.cells import Cell
from smelt.reporting.tables.grid import Grid, best_first
from smelt.reporting.tables.lines import TableLine
from smelt.reporting.words import setting_text

__all__ = ["MERGE_COLOURS", "Ranked", "RankedAverage", "TaskSeries", "ranking", "task_series"]

MERGE_COLOURS = 6
"""Merges that can be told apart by colour in one figure; two more colours are the base's and the experts'."""
_CHOSEN = 4


@dataclass(frozen=True)
class RankedAverage:
    """One average on a method's line of the ranking."""

    variant: str
    setting: str
    average: Cell


@dataclass(frozen=True)
class Ranked:
    """One method with its published and tuned averages. `kind` is its group where it is no merge: mix, ensemble."""

    label: str
    places: tuple[RankedAverage, ...]
    kind: str = ""

    @property
    def best(self) -> float:
        return max(place.average.accuracy for place in self.places)


@dataclass(frozen=True)
class TaskSeries:
    """One model over all tasks. `colour` is a number of the palette, None while it is not chosen."""

    key: str
    name: str
    kind: str
    cells: tuple[Cell | None, ...]
    average: Cell | None
    colour: int | None

    @property
    def chosen(self) -> bool:
        return self.colour is not None


def ranking(grid: Grid) -> list[Ranked]:
    """The methods, best average first; mixtures and ensembles stand among the merges and are called so."""
    found: dict[tuple[str, str], list[TableLine]] = {}
    for line in best_first([*grid.merges, *grid.larger]):
        found.setdefault((line.entry, line.label), []).append(line)
    ranked = [
        Ranked(
            lines[0].label,
            tuple(RankedAverage(m.variant, setting_text(m.setting), m.average) for m in lines if m.average),
            "" if lines[0].merged else lines[0].group,
        )
        for lines in found.values()
    ]
    return sorted(ranked, key=lambda one: -one.best)


def task_series(grid: Grid) -> list[TaskSeries]:
    """Base, experts and every other line; chosen at first: these two and the best four methods, once each."""
    merges = grid.ranked
    best: dict[tuple[str, str], TableLine] = {}
    for line in merges:
        best.setdefault((line.entry, line.label), line)
    first = list(best.values())[:_CHOSEN]
    known = [line for line in (grid.base, grid.experts) if line is not None]
    rest = [line for line in grid.lines if line not in known and line not in merges and any(line.cells)]
    series = []
    for number, line in enumerate([*known, *merges, *rest]):
        colour = first.index(line) + 2 if line in first else None
        if line in known:
            colour = 0 if line is grid.base else 1
        kind = ("base", "experts")[colour] if line in known and colour is not None else "merge"
        series.append(TaskSeries(f"s{number}", line.name, kind, line.cells, line.average, colour))
    return series
