"""The page: every figure's data gathered, drawn, and set into the templates. Autoescape is on for all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from smelt import __version__
from smelt.report.analyses import Analyses
from smelt.report.columns import has_ratio
from smelt.report.compare import MERGE_COLOURS, ranking, task_series
from smelt.report.costs import build_costs
from smelt.report.curves import scale_curves
from smelt.report.draw.axis import Axis, round_ticks, span
from smelt.report.draw.radar import radar
from smelt.report.draw.tracks import cell_text, rank_track, task_bars
from smelt.report.experts import experts_matrix
from smelt.report.figures import curve_charts, norm_charts, path_charts
from smelt.report.grid import Grid
from smelt.report.headline import build_headline, sentences
from smelt.report.heat import accuracy_map, cosine_map, signs_map
from smelt.report.paths import interpolation_paths
from smelt.report.provenance import origins, reproductions
from smelt.report.rows import Measured
from smelt.report.words import bytes_text, percent, seconds_text, setting_text, short_hash

__all__ = ["render_page"]


def render_page(measured: Measured, grid: Grid, analyses: Analyses) -> str:
    """The whole report as one HTML text that needs nothing else."""
    environment = Environment(
        loader=PackageLoader("smelt.report"),
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
    )
    return environment.get_template("report.html.jinja").render(_content(measured, grid, analyses))


def _setting(setting: Mapping[str, Any]) -> str:
    """A setting whose numbers stay with their names where a line breaks."""
    return re.sub(r" (?=[-\d])", "\N{NO-BREAK SPACE}", setting_text(setting))


def _content(measured: Measured, grid: Grid, analyses: Analyses) -> dict[str, Any]:
    """Everything the templates name. What a folder has no data for is empty, and its section is left out."""
    rows = measured.accuracy
    head = build_headline(rows, grid)
    experts = experts_matrix(rows, grid)
    curves, paths = scale_curves(rows), interpolation_paths(rows)
    return {
        "version": __version__,
        "head": head,
        "sentences": sentences(head),
        "grid": grid,
        "ratio": has_ratio(grid),
        "ranking": _ranking(grid),
        "comparison": _comparison(grid),
        "experts": accuracy_map(experts) if experts else None,
        "curves": curve_charts(curves),
        "curve_split": curves[0].split if curves else "",
        "cosine": cosine_map(analyses.cosine) if analyses.cosine else None,
        "norms": norm_charts(analyses.norms) if analyses.norms else [],
        "norms_relative": bool(analyses.norms and analyses.norms.relative),
        "signs": signs_map(analyses.signs.pairs) if analyses.signs else None,
        "signs_overall": analyses.signs.overall if analyses.signs else (),
        "paths": path_charts(paths),
        "path_split": paths[0].split if paths else "",
        "costs": build_costs(measured.cost, grid),
        "reproductions": reproductions(grid),
        "origins": origins(grid),
    }


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


def _comparison(grid: Grid) -> dict[str, Any] | None:
    series = task_series(grid)
    if not grid.merges or not series:
        return None
    title = "Accuracy of each model on each task"
    return {
        "series": series,
        "radar": radar(title, grid.tasks, series) if len(grid.tasks) > 2 else None,
        "bars": [(task, task_bars(task, place, series)) for place, task in enumerate(grid.tasks)],
        "lanes": sum(one.chosen for one in series),
        "colours": MERGE_COLOURS,
    }
