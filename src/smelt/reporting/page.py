"""The page: every figure's data gathered, drawn, and set into the templates. Autoescape is on for all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from smelt.reporting.analyses import Analyses
from smelt.reporting.draw.axis import Axis, round_ticks, span
from smelt.reporting.draw.radar import radar
from smelt.reporting.draw.tracks import cell_text, rank_track, task_bars
from smelt.reporting.figures.charts import curve_charts, norm_charts, path_charts
from smelt.reporting.figures.comparison import MERGE_COLOURS, ranking, task_series
from smelt.reporting.figures.costs import build_costs
from smelt.reporting.figures.curves import scale_curves
from smelt.reporting.figures.experts import experts_matrix
from smelt.reporting.figures.heat import accuracy_map, cosine_map, plain_map, signs_map
from smelt.reporting.figures.line_charts import line_figure, series_figures
from smelt.reporting.figures.paths import interpolation_paths
from smelt.reporting.opening import build_opening
from smelt.reporting.provenance import origins, reproductions
from smelt.reporting.rows import Measured
from smelt.reporting.tables.columns import has_gap, has_ratio, heads
from smelt.reporting.tables.grid import Grid, Line, build_grid
from smelt.reporting.tables.sheet import Sheet
from smelt.reporting.words import bytes_text, percent, seconds_text, setting_text, short_hash
from smelt.suites.clip.report.severity import severity_figure
from smelt.suites.collaboration.report.gaps import gap_figure
from smelt.suites.collaboration.report.levels import largest
from smelt.suites.hub.report.figures import hub_figures
from smelt.suites.hub.report.tables import is_hub_sheet
from smelt.suites.language.report.figures import language_figures
from smelt.suites.selection.report.figures import selection_figures
from smelt.version import __version__

__all__ = ["render_page"]


def render_page(measured: Measured, sheets: Sequence[Sheet], analyses: Analyses) -> str:
    """The whole report as one HTML text that needs nothing else."""
    environment = Environment(
        loader=PackageLoader("smelt.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        percent=percent,
        seconds=seconds_text,
        bytes=bytes_text,
        setting=_setting,
        short=short_hash,
        words=cell_text,
        ratio=has_ratio,
        gap=has_gap,
        heads=heads,
    )
    return environment.get_template("report.html.jinja").render(_content(measured, sheets, analyses))


def _setting(setting: Mapping[str, Any]) -> str:
    """A setting whose numbers stay with their names where a line breaks."""
    return re.sub(r" (?=[-\d])", "\N{NO-BREAK SPACE}", setting_text(setting))


def _content(measured: Measured, sheets: Sequence[Sheet], analyses: Analyses) -> dict[str, Any]:
    """Everything the templates name. What a folder has no data for is empty, and its section is left out."""
    rows, language, selection = measured.accuracy, analyses.language, analyses.selection
    clean = build_grid(row for row in rows if row.part is None)
    experts = None if selection else experts_matrix(rows, clean)
    curves, paths = [] if language else scale_curves(rows), interpolation_paths(rows)
    lines = _lines(sheets[:1] if language else sheets)
    return {
        "version": __version__,
        "unit": "examples" if language else "questions" if selection else "pictures",
        "language": language_figures(rows, measured.cost, sheets, language) if language else None,
        "selection": selection_figures(rows, selection) if selection else None,
        "opening": build_opening(rows, sheets, analyses, measured.cost),
        "sheets": [sheet for sheet in sheets if sheet.lines],
        "larger": any(block.grid.larger for sheet in sheets for block in sheet.blocks),
        "ratio": any(has_ratio(b.grid) for s in sheets if not (s.levels or is_hub_sheet(s)) for b in s.blocks),
        "methods": any(sheet.levels or is_hub_sheet(sheet) for sheet in sheets),
        "hub": hub_figures(rows, sheets, analyses.hub),
        "tuned_on": _tuned_on(sheets, bool(language)),
        "rankings": [] if selection else _rankings(sheets[:1] if language else sheets),
        "comparison": None if selection else _comparison(sheets, "domain" if language else "task"),
        "severities": [figure for sheet in sheets if (figure := severity_figure(sheet))],
        "gaps": gap_figure(largest(sheets)),
        "series": series_figures(rows),
        "experts": accuracy_map(experts) if experts else None,
        "experts_base": clean.base is not None,
        "curves": curve_charts(curves),
        "curve_split": curves[0].split if curves else "",
        "cosine": cosine_map(analyses.cosine) if analyses.cosine else None,
        "norms": norm_charts(analyses.norms) if analyses.norms else [],
        "norms_relative": bool(analyses.norms and analyses.norms.relative),
        "signs": signs_map(analyses.signs.pairs) if analyses.signs else None,
        "signs_overall": analyses.signs.overall if analyses.signs else (),
        "paths": path_charts(paths),
        "path_split": paths[0].split if paths else "",
        "heats": [(heat, plain_map(heat.matrix)) for heat in analyses.heats],
        "lines": [line_figure(data) for data in analyses.lines],
        "costs": None if language or selection else build_costs(measured.cost, lines),
        "reproductions": reproductions(lines),
        "origins": origins(lines, "example" if language else "question" if selection else "picture"),
    }


def _lines(sheets: Sequence[Sheet]) -> list[Line]:
    """Every model once, although a reference stands in the table of every part; those along an axis are left out."""
    shown = (line for sheet in sheets if not sheet.axis for line in sheet.lines)
    return list({tuple(map(id, line.rows)): line for line in shown}.values())


def _rankings(sheets: Sequence[Sheet]) -> list[tuple[str, dict[str, Any]]]:
    """Titles and rankings: of a plain table its average, of parts every block's, of corruptions their mean."""
    found = []
    for sheet in sheets:
        for block in (sheet.summary or sheet).blocks:
            plain = "Mean over the corruptions" if sheet.summary else "Average over the tasks"
            title = ", ".join(filter(None, [sheet.title, "" if sheet.summary else block.title.lower()])) or plain
            title = "Average over the domains" if sheet.turned else title
            ranked = _ranking(block.grid)
            if ranked:
                found.append((title, ranked))
    return found


def _ranking(grid: Grid) -> dict[str, Any] | None:
    ranked = ranking(grid)
    if not ranked:
        return None
    lines = (("base", grid.base), ("experts", grid.experts))
    references = [(kind, line.average.accuracy) for kind, line in lines if line and line.average]
    cells = [place.average for one in ranked for place in one.places]
    low, high = span([*(v for c in cells for v in (c.low, c.high)), *(value for _, value in references)], 0.02)
    axis = Axis(max(low, 0.0), min(high, 1.0), 0.0, 100.0)
    ticks = [(f"{axis.at(tick):.2f}%", f"{100 * tick:g}") for tick in round_ticks(axis.low, axis.high, 6)]
    draw = partial(rank_track, axis=axis, references=references)
    return {
        "lines": [(one, draw(one)) for one in ranked],
        "ticks": ticks,
        "references": references,
    }


def _tuned_on(sheets: Sequence[Sheet], language: bool) -> str:
    """How tuned models came to their settings; language models are tuned on tasks that are no tests."""
    found = next((on for sheet in sheets if (on := sheet.blocks[0].grid.tuned_on)), "")
    return "setting chosen on validation tasks" if found and language else found


def _comparison(sheets: Sequence[Sheet], what: str) -> dict[str, Any] | None:
    """Models over tasks (`what` they are), or over corruptions; a suite in parts has none."""
    sheet = next((sheet.summary or sheet for sheet in sheets if sheet.part is None), None)
    grid = sheet.blocks[0].grid if sheet else None
    series = task_series(grid) if grid else []
    if grid is None or not grid.merges or not series:
        return None
    worse = sheets[0].summary is not None
    title = f"Accuracy of each model {'under each corruption' if worse else f'on each {what}'}"
    return {
        "title": "Corruption by corruption" if worse else f"{what.capitalize()} by {what}",
        "series": series,
        "radar": radar(title, grid.tasks, series) if len(grid.tasks) > 2 else None,
        "bars": [(task, task_bars(task, place, series)) for place, task in enumerate(grid.tasks)],
        "lanes": sum(one.chosen for one in series),
        "colours": MERGE_COLOURS,
    }
