"""The pages of a suite with one table, or one for each of its parts. Lines of work begin here (`pages.Pages`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from smelt.evaluation.row import Row
from smelt.reporting import sections
from smelt.reporting.headline import build_headline, sentences, tiles
from smelt.reporting.pages import PageOpening, PageSection, ReportView, Tile
from smelt.reporting.provenance import facts, is_zoo, suite_name
from smelt.reporting.tables.grid import Grid, build_grid, grid_of, table_rows, tasks_of
from smelt.reporting.tables.lines import LineReader
from smelt.reporting.tables.sheet import ColumnBlock, Sheet

__all__ = ["PlainPages", "rows_by_part"]


class PlainPages:
    """One table, how methods compare, what was learned, what it cost, and how to make it again."""

    templates: Path | None = None
    reader = LineReader()
    small = "pictures"
    """What the models that come with Smelt are small in."""
    short_heads: Mapping[str, str] = MappingProxyType({})
    """Headings of the terminal's tables where there is little room, beside those that all tables have."""

    def read(self, analyses: Path, rows: Sequence[Row]) -> Any:
        """Nothing but the figures that any suite may have."""
        return ()

    def sheets(self, view: ReportView) -> list[Sheet]:
        """A table for every part; a suite without a row for a table has one that is empty."""
        shown, split = table_rows(view.rows)
        return [self.table(part, members, split) for part, members in rows_by_part(shown).items()]

    def table(self, part: str | None, rows: Sequence[Row], split: str) -> Sheet:
        """One part of the suite, or all of it."""
        if part is None:
            return Sheet((ColumnBlock("", "", grid_of(rows, tasks_of(rows), split, self.reader)),))
        grid = grid_of(rows, tasks_of(rows), split, self.reader, average="Avg.", share=False)
        return Sheet((ColumnBlock("", "", grid),), part, across=2, part=part)

    def opening(self, view: ReportView, sheets: Sequence[Sheet]) -> PageOpening:
        """The suite's name, its first words and what all rows share."""
        said, shown = self.first_words(view, sheets)
        about = (facts(view.rows), is_zoo(view.rows), self.small)
        return PageOpening(suite_name(view.rows), tuple(said), tuple(shown), *about)

    def first_words(self, view: ReportView, sheets: Sequence[Sheet]) -> tuple[list[str], list[Tile]]:
        """Sentences and large numbers, of every table without a part."""
        heads = [build_headline(view.rows, sheet.blocks[0].grid) for sheet in sheets if sheet.part is None]
        return [s for head in heads for s in sentences(head)], [t for head in heads for t in tiles(head)]

    def sections(self, view: ReportView, sheets: Sequence[Sheet]) -> list[PageSection]:
        """All that a folder has data for."""
        unit, plain = self.reader.unit, self.plain_rows(view.rows)
        return [
            sections.results(sheets),
            *self.own_sections(view, sheets),
            sections.methods(self.rankings(sheets), self.compared(sheets), sections.tuned_on(sheets), unit=unit),
            sections.experts(plain, build_grid(row for row in plain if row.part is None)),
            sections.curves(plain, unit),
            sections.learned(view.analyses),
            sections.vectors(view.analyses),
            sections.paths(view.rows, unit),
            sections.costs(view.costs, sheets),
            sections.reproduce(sheets, self.reader),
        ]

    def plain_rows(self, rows: Iterable[Row]) -> list[Row]:
        """Those of one model on a task as it is: what experts and scales are compared by."""
        return list(rows)

    def own_sections(self, view: ReportView, sheets: Sequence[Sheet]) -> list[PageSection]:
        """What a line of work shows between its tables and the methods."""
        return []

    def rankings(self, sheets: Iterable[Sheet]) -> list[tuple[str, Grid]]:
        """The grids whose averages are ranked, with their titles."""
        return [
            (", ".join(filter(None, [sheet.title, block.title.lower()])) or "Average over the tasks", block.grid)
            for sheet in sheets
            for block in sheet.blocks
        ]

    def compared(self, sheets: Sequence[Sheet]) -> tuple[str, str, Grid] | None:
        """The grid that is shown task by task; a suite in parts has none."""
        sheet = next((sheet for sheet in sheets if sheet.part is None), None)
        return ("Task by task", "Accuracy of each model on each task", sheet.blocks[0].grid) if sheet else None

    def terminal(self, view: ReportView) -> None:
        """The tables as they are."""
        from smelt.reporting.tables.terminal import print_sheets

        print_sheets(map(self.in_short, self.sheets(view)), self.short_heads)

    def in_short(self, sheet: Sheet) -> Sheet:
        """A table as the terminal shows it."""
        return sheet.summary or sheet


def rows_by_part(rows: Sequence[Row]) -> dict[str | None, list[Row]]:
    """The rows of every part with the references, which belong to all; a suite without parts is one, without a name."""
    names = list(dict.fromkeys(row.part for row in rows if row.part is not None))
    shared = [row for row in rows if row.part is None]
    alone = any(row.variant != "reference" or row.way != "merge" for row in shared)
    found: dict[str | None, list[Row]] = {None: shared} if alone or not names else {}
    references = [row for row in shared if row.variant == "reference" and row.way == "merge"]
    return found | {name: [*references, *(row for row in rows if row.part == name)] for name in names}
