"""The pages of merging beside ensembling: a table for every pool of experts, the gap, and series."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from smelt.evaluation.row import Row
from smelt.reporting.analyses import read_figure
from smelt.reporting.pages import PageSection, ReportView, Tile
from smelt.reporting.plain import PlainPages
from smelt.reporting.tables.sheet import Sheet
from smelt.suites.collaboration.published_series import SeriesTable
from smelt.suites.collaboration.report.coopvecs import CoopVecs, read_coopvecs
from smelt.suites.collaboration.report.gaps import gap_figure
from smelt.suites.collaboration.report.headline import level_sentences, level_tiles
from smelt.suites.collaboration.report.levels import (
    LevelReader,
    is_level_sheet,
    largest,
    level_sheet,
    with_absent,
)
from smelt.suites.collaboration.report.printed_series import compared_series, read_series
from smelt.suites.collaboration.report.series import series_figures, series_sheets

__all__ = ["ABSENT", "SERIES", "CollaborationPages", "Found"]

ABSENT, SERIES = "absent", "published-series"
"""Files among the analyses: what the table lacks and why; what others printed along an axis."""


@dataclass(frozen=True)
class Found:
    """What lies beside the rows."""

    absent: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """By entry: its label, and why it was not computed."""
    coopvecs: tuple[CoopVecs, ...] = ()
    series: tuple[SeriesTable, ...] = ()


class CollaborationPages(PlainPages):
    """A pool with levels has a block for each task; what has none stands in a plain table."""

    templates = Path(__file__).parent
    reader = LevelReader()

    def read(self, analyses: Path, rows: Sequence[Row]) -> Any:
        """Nothing unless some rows have a level."""
        if not any(row.level for row in rows):
            return None
        lines = (read_figure(analyses / f"{ABSENT}.json") or {}).get("lines", {})
        absent = {str(name): (str(one["label"]), str(one["why"])) for name, one in lines.items()}
        return Found(absent, read_coopvecs(analyses), read_series(analyses / f"{SERIES}.json"))

    def sheets(self, view: ReportView) -> list[Sheet]:
        """The pools, each with a line for what was not computed; then tables along an axis."""
        absent = view.own.absent if isinstance(view.own, Found) else {}
        pools = [with_absent(sheet, absent) if is_level_sheet(sheet) else sheet for sheet in super().sheets(view)]
        return [*pools, *series_sheets(view.rows)]

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
        found = view.own if isinstance(view.own, Found) else Found()
        gaps, series = gap_figure(largest(sheets)), series_figures(view.rows)
        missing = [one for name, one in found.absent.items() if name in ("transfer", "fractions")]
        content = {
            "gaps": gaps,
            "series": series,
            "missing": missing,
            "coopvecs": found.coopvecs,
            "printed": [compared_series(table, view.rows) for table in found.series],
        }
        there = {
            "gaps": ("Gap", gaps),
            "coopvecs": ("CoopVecs", found.coopvecs),
            "series": ("Training", series or missing or found.series),
        }
        links = tuple((name, text) for name, (text, one) in there.items() if one)
        return [PageSection("levels.html.jinja", content, links)]

    def in_short(self, sheet: Sheet) -> Sheet:
        """Averages only."""
        return replace(sheet, blocks=sheet.blocks[-1:]) if is_level_sheet(sheet) else sheet
