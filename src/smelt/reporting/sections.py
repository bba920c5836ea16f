"""Sections that pages of several lines of work share. What a folder has no data for has no links and is left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from smelt.evaluation.row import CostRow, Row
from smelt.reporting.analyses import Analyses
from smelt.reporting.draw.axis import Axis, span, track_ticks
from smelt.reporting.draw.radar import radar
from smelt.reporting.draw.tracks import rank_track, task_bars
from smelt.reporting.figures.charts import line_figure, norm_charts
from smelt.reporting.figures.comparison import MERGE_COLOURS, ranking, task_series
from smelt.reporting.figures.costs import build_costs
from smelt.reporting.figures.curves import curve_charts, scale_curves
from smelt.reporting.figures.heat import accuracy_map, cosine_map, experts_matrix, plain_map, signs_map
from smelt.reporting.figures.paths import interpolation_paths, path_charts
from smelt.reporting.order import ORDER_NOTE, order_sentence
from smelt.reporting.pages import PageSection, ReportView
from smelt.reporting.provenance import origins, reproductions
from smelt.reporting.published import compared
from smelt.reporting.tables.grid import NORMALISED, Grid
from smelt.reporting.tables.lines import LineReader, TableLine
from smelt.reporting.tables.sheet import Sheet

__all__ = [
    "costs",
    "curves",
    "experts",
    "learned",
    "methods",
    "order",
    "paths",
    "published",
    "reproduce",
    "results",
    "vectors",
]


def results(sheets: Sequence[Sheet]) -> PageSection:
    """The tables."""
    grids = [block.grid for sheet in sheets for block in sheet.blocks]
    shown = [sheet for sheet in sheets if sheet.lines]
    content = {
        "sheets": shown,
        "unit": grids[0].unit if grids else "picture",
        "rivals": "method" if any(sheet.rivals == "method" for sheet in sheets) else "merge",
        "larger": any(grid.larger for grid in grids),
        "ratio": any(grid.has_share and grid.share == NORMALISED for grid in grids),
        "tuned_on": tuned_on(sheets),
    }
    return _section("results", content, "Table" if len(shown) == 1 else "Tables", bool(shown))


def tuned_on(sheets: Sequence[Sheet]) -> str:
    """How tuned models came to their settings."""
    return next((on for sheet in sheets if (on := sheet.blocks[0].grid.tuned_on)), "")


def methods(
    rankings: Iterable[tuple[str, Grid]],
    compared: tuple[str, str, Grid] | None,
    tuned: str,
    *,
    unit: str = "picture",
    base: str = "pre-trained",
) -> PageSection:
    """Rankings with their titles, and one grid column by column: its title, what its drawing is called, the grid."""
    ranked = [(title, found) for title, grid in rankings if (found := _ranking(grid))]
    names = {"base": base, "experts": "experts"}
    content = {"rankings": ranked, "comparison": compared and _comparison(*compared), "tuned_on": tuned}
    return _section("methods", {**content, "unit": unit, "references": names}, "Methods", bool(ranked))


def experts(rows: Iterable[Row], grid: Grid, measure: str = "Accuracy") -> PageSection:
    """Each expert on every task."""
    matrix = experts_matrix(rows, grid)
    content = {"experts": matrix and accuracy_map(matrix), "measure": measure, "base": grid.base is not None}
    return _section("experts", content, "Experts", matrix is not None)


def curves(rows: Iterable[Row], unit: str = "picture") -> PageSection:
    """Accuracy against the scale."""
    found = scale_curves(rows)
    content = {"curves": curve_charts(found), "split": found[0].split if found else "", "unit": unit}
    return _section("curves", content, "Scale", bool(found))


def published(view: ReportView) -> PageSection:
    """Printed tables with ours in every cell."""
    tables = [compared(table, view.rows) for table in view.analyses.published]
    return _section("published", {"published": tables}, "Published", bool(tables))


def order(view: ReportView) -> PageSection:
    """Our order of the methods beside the printed ones."""
    found = [(one, order_sentence(one)) for one in view.orders]
    return _section("order", {"orders": found, "note": ORDER_NOTE}, "Order", bool(found))


def learned(analyses: Analyses) -> PageSection:
    """Heat maps and lines that learning left."""
    heats = [(heat, plain_map(heat.matrix)) for heat in analyses.heats]
    lines = [line_figure(data) for data in analyses.lines]
    return _section("learned", {"heats": heats, "lines": lines}, "Learned", bool(heats or lines))


def vectors(analyses: Analyses) -> PageSection:
    """What fine-tuning changed: directions, signs, lengths."""
    cosine, norms, signs = analyses.cosine, analyses.norms, analyses.signs
    content = {
        "cosine": cosine_map(cosine) if cosine else None,
        "norms": norm_charts(norms) if norms else [],
        "relative": bool(norms and norms.relative),
        "signs": signs_map(signs.pairs) if signs else None,
        "overall": signs.overall if signs else (),
    }
    return _section("vectors", content, "Task vectors", bool(cosine or content["norms"] or signs))


def paths(rows: Iterable[Row], unit: str = "picture") -> PageSection:
    """Straight lines between two models."""
    found = interpolation_paths(rows)
    content = {"paths": path_charts(found), "split": found[0].split if found else "", "unit": unit}
    return _section("paths", content, "Paths", bool(found))


def costs(rows: Iterable[CostRow], sheets: Sequence[Sheet]) -> PageSection:
    """Time and memory per method."""
    found = build_costs(rows, shown_lines(sheets))
    return _section("costs", {"costs": found}, "Time and memory", found is not None)


def reproduce(sheets: Sequence[Sheet], reader: LineReader) -> PageSection:
    """Commands, recipes and hashes."""
    lines = shown_lines(sheets)
    content = {"reproductions": reproductions(lines), "origins": origins(lines, reader)}
    return _section("reproduce", content, "Reproduce", bool(content["reproductions"]))


def shown_lines(sheets: Iterable[Sheet]) -> list[TableLine]:
    """Every model once, although a reference stands in the table of every part; those along an axis are left out."""
    shown = (line for sheet in sheets if not sheet.axis for line in sheet.lines)
    return list({tuple(map(id, line.rows)): line for line in shown}.values())


def _section(name: str, content: dict[str, Any], link: str, there: bool) -> PageSection:
    return PageSection(f"{name}.html.jinja", content, ((name, link),) if there else ())


def _ranking(grid: Grid) -> dict[str, Any] | None:
    ranked = ranking(grid)
    if not ranked:
        return None
    lines = (("base", grid.base), ("experts", grid.experts))
    references = [(kind, line.average.accuracy) for kind, line in lines if line and line.average]
    cells = [place.average for one in ranked for place in one.places]
    low, high = span([*(v for c in cells for v in (c.low, c.high)), *(value for _, value in references)], 0.02)
    axis = Axis(max(low, 0.0), min(high, 1.0), 0.0, 100.0)
    draw = partial(rank_track, axis=axis, references=references)
    return {"lines": [(one, draw(one)) for one in ranked], "ticks": track_ticks(axis), "references": references}


def _comparison(title: str, drawn: str, grid: Grid) -> dict[str, Any] | None:
    """Models over the columns of a table."""
    series = task_series(grid)
    if not grid.merges or not series:
        return None
    return {
        "title": title,
        "series": series,
        "radar": radar(drawn, grid.tasks, series) if len(grid.tasks) > 2 else None,
        "bars": [(task, task_bars(task, place, series)) for place, task in enumerate(grid.tasks)],
        "lanes": sum(one.chosen for one in series),
        "colours": MERGE_COLOURS,
    }
