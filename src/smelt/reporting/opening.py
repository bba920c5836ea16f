"""The top of the page as data: sentences, a few large numbers, and where they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smelt.evaluation.row import CostRow, Row
from smelt.reporting.analyses import Analyses
from smelt.reporting.facts import facts, is_zoo, suite_name
from smelt.reporting.headline import Headline, build_headline, sentences
from smelt.reporting.tables.grid import Grid
from smelt.reporting.tables.sheet import Sheet
from smelt.reporting.tile import Tile
from smelt.reporting.words import percent
from smelt.suites.clip.report.headline_parts import best_of, part_sentences, parts_sentence
from smelt.suites.clip.report.headline_robust import robust_sentences
from smelt.suites.clip.report.robustness import CLEAN
from smelt.suites.collaboration.report.headline import level_sentences, level_tiles
from smelt.suites.collaboration.report.levels import largest
from smelt.suites.hub.parts import is_hub
from smelt.suites.hub.report.headline import hub_sentences, hub_tiles
from smelt.suites.language.report.headline import language_sentences, language_tiles
from smelt.suites.selection.report.headline import selection_sentences, selection_tiles

__all__ = ["Opening", "Tile", "build_opening"]


@dataclass(frozen=True)
class Opening:
    """What a reader sees first."""

    suite: str | None
    sentences: tuple[str, ...]
    tiles: tuple[Tile, ...]
    facts: tuple[tuple[str, str], ...]
    zoo: bool


def build_opening(
    rows: Sequence[Row], sheets: Sequence[Sheet], analyses: Analyses | None = None, costs: Sequence[CostRow] = ()
) -> Opening:
    """Gathered over all tables of the page. `analyses` is what a suite knows beside its rows."""
    analyses = analyses or Analyses()
    if any(map(is_hub, rows)):
        words = hub_sentences(rows, sheets, analyses.hub)
        return Opening(suite_name(rows), tuple(words), tuple(hub_tiles(sheets)), facts(rows), is_zoo(rows))
    if analyses.selection is not None:
        words = selection_sentences(rows, analyses.selection)
        tiles = selection_tiles(rows, analyses.selection)
        return Opening(suite_name(rows), tuple(words), tuple(tiles), facts(rows), is_zoo(rows))
    if analyses.language is not None:
        words = language_sentences(rows, costs, sheets, analyses.language)
        tiles = language_tiles(costs, sheets, analyses.language)
        return Opening(suite_name(rows), tuple(words), tuple(tiles), facts(rows), is_zoo(rows))
    plain = [sheet for sheet in sheets if not (sheet.levels or sheet.axis)]
    parts = [sheet for sheet in plain if sheet.part is not None and sheet.summary is None]
    said: list[str] = [parts_sentence(parts)] if parts else []
    tiles = []
    first = largest(sheets)
    if first is not None:
        said += level_sentences(first, pools=sum(sheet.levels for sheet in sheets))
        tiles += level_tiles(first)
        plain = [sheet for sheet in plain if sheet.lines]
    for sheet in plain:
        if sheet.summary is not None:
            said += robust_sentences(sheet)
            tiles += _robust_tiles(sheet)
        elif sheet.part is not None:
            said += part_sentences(sheet)
            tiles += _part_tiles(sheet)
        else:
            grid = sheet.blocks[0].grid
            head = build_headline(rows, grid)
            said += sentences(head)
            tiles += _plain_tiles(head, grid)
    return Opening(suite_name(rows), tuple(said), tuple(tiles), facts(rows), is_zoo(rows))


def _plain_tiles(head: Headline, grid: Grid) -> list[Tile]:
    tiles = []
    if head.best and head.best_average is not None:
        tiles.append(Tile("Best merge", percent(head.best_average), head.best.name, best=True))
    tiles += [
        Tile(f"Best {what}", percent(line.average.accuracy), line.name) for what, line in head.larger if line.average
    ]
    if head.expert_average is not None:
        tiles.append(Tile("Experts", percent(head.expert_average), "each on its own task"))
    if head.base_average is not None and grid.base:
        tiles.append(Tile("Before merging", percent(head.base_average), grid.base.label))
    if head.closed is not None:
        share = min(max(head.closed, 0.0), 1.0)
        tiles.append(Tile("Gap closed", f"{round(100 * head.closed)}", "of the way to the experts", meter=share))
    return tiles


def _part_tiles(sheet: Sheet) -> list[Tile]:
    """The best merge of every block."""
    tiles = []
    for block in sheet.blocks:
        best = best_of(block.grid)
        if best and best.average:
            title = ", ".join(filter(None, [sheet.title, block.title.lower()]))
            tiles.append(Tile(title, percent(best.average.accuracy), best.name, best=True))
    return tiles


def _robust_tiles(sheet: Sheet) -> list[Tile]:
    """The best merge on clean and on corrupted pictures, and what the experts keep."""
    tiles = []
    grids = [("Clean", block.grid) for block in sheet.blocks if block.key == CLEAN]
    if sheet.summary:
        grids.append(("Corrupted", sheet.summary.blocks[0].grid))
    for title, grid in grids:
        best = best_of(grid)
        named = f"{sheet.title}, {title.lower()}" if sheet.title else title
        if best and best.average:
            tiles.append(Tile(f"{named}: best merge", percent(best.average.accuracy), best.name, best=True))
        if grid.experts and grid.experts.average:
            tiles.append(Tile(f"{named}: experts", percent(grid.experts.average.accuracy), "each on its own task"))
    return tiles
