"""The pages of merging beside ensembling: a table for every pool of experts, the gap, and series."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from smelt.evaluation.row import Row
from smelt.reporting.pages import PageSection, ReportView, Tile
from smelt.reporting.plain import PlainPages
from smelt.reporting.tables.sheet import Sheet
from smelt.suites.collaboration.report.gaps import gap_figure
from smelt.suites.collaboration.report.headline import level_sentences, level_tiles
from smelt.suites.collaboration.report.levels import LevelReader, is_level_sheet, largest, level_sheet
from smelt.suites.collaboration.report.series import series_figures, series_sheets

__all__ = ["CollaborationPages"]


class CollaborationPages(PlainPages):
    """A pool with levels has a block for each task; what has none stands in a plain table."""

    templates = Path(__file__).parent
    reader = LevelReader()

    def read(self, analyses: Path, rows: Sequence[Row]) -> Any:
        """Nothing beside the rows, some of which have a level."""
        return () if any(row.level for row in rows) else None

    def sheets(self, view: ReportView) -> list[Sheet]:
        """The pools, then tables along an axis."""
        return [*super().sheets(view), *series_sheets(view.rows)]

    def table(self, part: str | None, rows: Sequence[Row], split: str) -> Sheet:
        """One pool."""
        leveled = any(row.level for row in rows)
        return level_sheet(rows, split, part) if leveled else super().table(part, rows, split)

    def first_words(self, view: ReportView, sheets: Sequence[Sheet]) -> tuple[list[str], list[Tile]]:
        """Of the pool where most can be compared, then of plain tables."""
        pools = [sheet for sheet in sheets if is_level_sheet(sheet)]
        first = largest(sheets)
        said = level_sentences(first, pools=len(pools)) if first else []
        plain = [one for one in sheets if not (is_level_sheet(one) or one.axis) and (one.lines or first is None)]
        more = super().first_words(view, plain)
        return [*said, *more[0]], [*(level_tiles(first) if first else []), *more[1]]

    def plain_rows(self, rows: Iterable[Row]) -> list[Row]:
        """Those without a level."""
        return [row for row in rows if row.level is None]

    def own_sections(self, view: ReportView, sheets: Sequence[Sheet]) -> list[PageSection]:
        """The gap against accuracy, and both levels along an axis."""
        gaps, series = gap_figure(largest(sheets)), series_figures(view.rows)
        links = [*([("gaps", "Gap")] if gaps else []), *([("series", "Training")] if series else [])]
        return [PageSection("levels.html.jinja", {"gaps": gaps, "series": series}, tuple(links))]

    def in_short(self, sheet: Sheet) -> Sheet:
        """Averages only."""
        return replace(sheet, blocks=sheet.blocks[-1:]) if is_level_sheet(sheet) else sheet
