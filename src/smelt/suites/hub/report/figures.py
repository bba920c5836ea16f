"""The figures of a hub suite: who is good at what, who was chosen, how the hub grows, whether the order is right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from smelt.evaluation.row import Row
from smelt.reporting.draw.axis import round_ticks, span
from smelt.reporting.draw.panel import Band, Stroke, panel
from smelt.reporting.draw.radar import radar
from smelt.reporting.figures.charts import PALETTE, Chart, LineFigure
from smelt.reporting.figures.comparison import TaskSeries
from smelt.reporting.figures.heat import Matrix, accuracy_map
from smelt.reporting.tables.cells import Cell, cell_alone, cell_of
from smelt.reporting.tables.grid import tasks_of
from smelt.reporting.tables.sheet import Sheet
from smelt.reporting.words import without_shared_start
from smelt.suites.hub.report.analyses import Classes, GrowthCurve, HubAnalyses, Ranks
from smelt.suites.hub.report.tables import HUB, ORACLE, is_hub_sheet
from smelt.suites.hub.row_parts import MODEL, MODELS, models_per_class, table_parts

__all__ = ["MethodAgreement", "Spider", "agreements", "growth_figure", "hub_figures", "model_matrix", "share_matrix"]

_COLOURS = PALETTE[:6]
_MODELS = 5


@dataclass(frozen=True)
class Spider:
    """A radar and what its colours mean: (name, number of the palette)."""

    title: str
    drawing: Markup
    keys: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class MethodAgreement:
    """One method: mean rank correlations over the tasks, and how far the oracle is above it, in accuracy."""

    label: str
    spearman: float | None
    kendall: float | None
    regret: float | None


def hub_figures(rows: Sequence[Row], sheets: Sequence[Sheet], analyses: HubAnalyses) -> dict[str, Any]:
    """Everything that the hub's sections name; empty where there is no data."""
    alone = [row for row in rows if row.part == MODELS]
    models = model_matrix(alone)
    spiders = [_over_tasks(alone), analyses.classes and _over_classes(analyses.classes)]
    return {
        "models": accuracy_map(models) if models else None,
        "shares": [(title, accuracy_map(matrix)) for title, matrix in _shares(rows, sheets)],
        "growth": growth_figure(analyses.growth) if analyses.growth else None,
        "spiders": [spider for spider in spiders if spider],
        "agreement": agreements(sheets, analyses.ranks or {}),
        "readers": _readers(rows, analyses.readers),
        "left_out": analyses.left_out,
    }


def model_matrix(rows: Sequence[Row]) -> Matrix | None:
    """Models x tasks: accuracy of every model of the hub by itself."""
    names, tasks = list(dict.fromkeys(row.entry for row in rows)), tasks_of(rows)
    found = {(row.entry, row.task): row.accuracy for row in rows}
    values = tuple(tuple(found.get((name, task)) for task in tasks) for name in names)
    return Matrix(_short(names), tasks, values) if names else None


def share_matrix(rows: Sequence[Row]) -> Matrix | None:
    """Models x tasks: the share of a task's classes that each was chosen for; those that never were are left out."""
    tasks = tasks_of(rows)
    used: dict[str, dict[str, float]] = {}
    for row in rows:
        recipe = row.recipe or {}
        for name, classes in (recipe.get("used") or {}).items():
            used.setdefault(name, {})[row.task] = classes / recipe["classes"]
    if not used:
        return None
    order = sorted(used, key=lambda name: -sum(used[name].values()))
    values = tuple(tuple(used[name].get(task, 0.0) for task in tasks) for name in order)
    return Matrix(_short(order), tasks, values)


def growth_figure(growth: GrowthCurve) -> LineFigure:
    """Average accuracy against the size of the hub: a line for each method, and the middle 80 % of the orders."""
    every = [value for one in growth.lines.values() for values in (one.low, one.high) for value in values]
    x, y = (1.0, float(max(growth.sizes, 2))), span(every)
    keys = tuple(zip((one.label for one in growth.lines.values()), _COLOURS, strict=False))
    drawn = list(zip(growth.lines.values(), keys, strict=False))
    at = [float(size) for size in range(1, growth.sizes + 1)]
    chart = panel(
        "Average accuracy in % against the number of models in the hub",
        [Stroke(one.label, list(zip(at, one.mean, strict=True)), f"c{colour}") for one, (_, colour) in drawn],
        x=x,
        y=y,
        x_ticks=[(tick, f"{tick:g}") for tick in sorted({1.0, *round_ticks(*x, 6)})],
        wide=True,
        bands=[
            Band(list(zip(at, one.low, strict=True)), list(zip(at, one.high, strict=True)), f"c{colour}")
            for one, (_, colour) in drawn
        ],
    )
    note = (
        f"Average accuracy in % over the tasks against the number of models in the hub, k = {growth.k}. Lines: the "
        f"mean over {growth.orders} random orders in which models join; shaded: the middle 80 % of the orders."
    )
    return LineFigure("A hub that grows", note, (Chart("", chart),), keys)


def agreements(sheets: Sequence[Sheet], ranks: dict[str, Ranks]) -> list[MethodAgreement]:
    """For every method of the first table that ranks models, or that the oracle can be compared with."""
    sheet = next((sheet for sheet in sheets if is_hub_sheet(sheet)), None)
    if sheet is None:
        return []
    oracle = next((line.average for line in sheet.lines if line.entry == ORACLE), None)
    found = []
    for line in sheet.lines:
        if line.group == HUB:
            own = ranks.get(line.entry)
            regret = oracle.accuracy - line.average.accuracy if oracle and line.average else None
            pair = (_mean(own.spearman.values()), _mean(own.kendall.values())) if own else (None, None)
            found.append(MethodAgreement(line.label, *pair, regret))
    return found


def _readers(rows: Sequence[Row], readers: Mapping[str, str | None]) -> dict[str, list[str]]:
    """The models by the text tower that they read with, where some method's models read with a reader."""
    found: dict[str, list[str]] = {}
    for name, ref in readers.items() if any(row.setting.get("reader") for row in rows) else ():
        found.setdefault(ref or "their own text towers, since no reader fits", []).append(name)
    return found


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _shares(rows: Sequence[Row], sheets: Sequence[Sheet]) -> list[tuple[str, Matrix]]:
    """For the first table, every method that may choose differently for each class."""
    found = []
    for part in table_parts(rows)[:1]:
        own = [row for row in rows if row.part == part and row.variant == "published"]
        for entry in dict.fromkeys(row.entry for row in own):
            members = [row for row in own if row.entry == entry]
            if len(members) and any(
                len((row.recipe or {}).get("used") or ()) > (models_per_class(part) or 1) for row in members
            ):
                matrix = share_matrix(members)
                found += [(members[0].label, matrix)] if matrix else []
    return found


def _over_tasks(rows: Sequence[Row]) -> Spider | None:
    """The models that are best on most tasks, over the tasks."""
    tasks = tasks_of(rows)
    found: dict[str, dict[str, Cell]] = {}
    for row in rows:
        found.setdefault(row.entry, {})[row.task] = cell_of(row)
    whole = {name: cells for name, cells in found.items() if len(cells) == len(tasks)}
    if len(tasks) < 3 or len(whole) < 2:
        return None
    best = [max(whole, key=lambda name: whole[name][task].accuracy) for task in tasks]
    mean = {name: sum(cell.accuracy for cell in cells.values()) / len(tasks) for name, cells in whole.items()}
    chosen = sorted(whole, key=lambda name: (-best.count(name), -mean[name]))[:_MODELS]
    cells = {name: tuple(whole[name][task] for task in tasks) for name in chosen}
    return _spider("Models over the tasks", tasks, cells)


def _over_classes(classes: Classes) -> Spider | None:
    """The models of one task over its classes."""
    if len(classes.classes) < 3:
        return None
    cells = {
        name: tuple(None if value is None else cell_alone(value) for value in values)
        for name, values in classes.models.items()
    }
    return _spider(f"Models over classes of {classes.task}", classes.classes, cells)


def _spider(title: str, corners: Sequence[str], cells: Mapping[str, tuple[Cell | None, ...]]) -> Spider:
    names = dict(zip(cells, _short(list(cells)), strict=True))
    series = [
        TaskSeries(f"{title} {place}", names[name], "merge", own, None, colour)
        for place, ((name, own), colour) in enumerate(zip(cells.items(), _COLOURS, strict=False))
    ]
    keys = tuple((one.name, one.colour or 0) for one in series)
    return Spider(title, radar(f"{title}: accuracy in %", corners, series), keys)


def _short(names: Sequence[str]) -> tuple[str, ...]:
    """Models' names without `model-` and what all of them begin with."""
    plain = [name.removeprefix(MODEL) for name in names]
    short = without_shared_start(plain)
    return tuple(short[name] for name in plain)
