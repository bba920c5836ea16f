"""The pages of a suite of CLIP models, and of a folder without a suite: unseen tasks and corrupted pictures too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import MappingProxyType

from smelt.evaluation.row import Row
from smelt.reporting.pages import PageSection, ReportView, Tile
from smelt.reporting.plain import PlainPages
from smelt.reporting.tables.grid import Grid
from smelt.reporting.tables.sheet import Sheet
from smelt.suites.clip.family_note import FamilyNote, read_family
from smelt.suites.clip.report.corruption import CorruptionReader
from smelt.suites.clip.report.headline_robust import robust_sentences, robust_tiles
from smelt.suites.clip.report.left_out import with_left_out
from smelt.suites.clip.report.parts import part_sentences, part_sheet, part_tiles, parts_sentence
from smelt.suites.clip.report.robustness import robust_sheet, severity_figure

__all__ = ["ClipPages"]


class ClipPages(PlainPages):
    """A plain suite's pages; a part says which tasks it has not seen, corruptions have blocks of their own."""

    templates = Path(__file__).parent
    reader = CorruptionReader()
    short_heads = MappingProxyType({"corrupted": "mean"})

    def read(self, analyses: Path, rows: Sequence[Row]) -> tuple[FamilyNote, ...]:
        """Which family of models it is, where a suite has several; these pages show every folder."""
        note = read_family(analyses)
        return (note,) if note else ()

    def sheets(self, view: ReportView) -> list[Sheet]:
        """With a line for everything that the family leaves out."""
        sheets = super().sheets(view)
        return [with_left_out(sheet, note) for note in view.own for sheet in sheets] if view.own else sheets

    def table(self, part: str | None, rows: Sequence[Row], split: str) -> Sheet:
        """One part: under corruption, by seen and unseen tasks, or plain."""
        if any(row.corruption for row in rows):
            return robust_sheet(rows, split, part)
        return super().table(part, rows, split) if part is None else part_sheet(part, rows, split)

    def first_words(self, view: ReportView, sheets: Sequence[Sheet]) -> tuple[list[str], list[Tile]]:
        """What all parts share, then every table."""
        parts = [sheet for sheet in sheets if sheet.part is not None and sheet.summary is None]
        said, tiles = [parts_sentence(parts)] if parts else [], []
        for sheet in sheets:
            if sheet.summary is not None:
                words = robust_sentences(sheet), robust_tiles(sheet)
            elif sheet.part is not None:
                words = part_sentences(sheet), part_tiles(sheet)
            else:
                words = super().first_words(view, [sheet])
            said += words[0]
            tiles += words[1]
        return said, tiles

    def own_sections(self, view: ReportView, sheets: Sequence[Sheet]) -> list[PageSection]:
        """Accuracy against severity."""
        figures = [figure for sheet in sheets if (figure := severity_figure(sheet))]
        links = (("severities", "Severity"),) if figures else ()
        return [PageSection("severities.html.jinja", {"severities": figures}, links)]

    def plain_rows(self, rows: Iterable[Row]) -> list[Row]:
        """Those on clean pictures."""
        return [row for row in rows if row.corruption is None]

    def rankings(self, sheets: Iterable[Sheet]) -> list[tuple[str, Grid]]:
        """Of corruptions their mean."""
        found = []
        for sheet in sheets:
            if sheet.summary is None:
                found += super().rankings([sheet])
            else:
                found.append((sheet.title or "Mean over the corruptions", sheet.summary.blocks[0].grid))
        return found

    def compared(self, sheets: Sequence[Sheet]) -> tuple[str, str, Grid] | None:
        """Over corruptions where there are some."""
        first = next((sheet for sheet in sheets if sheet.part is None), None)
        if first is None or first.summary is None:
            return super().compared(sheets)
        title = "Accuracy of each model under each corruption"
        return "Corruption by corruption", title, first.summary.blocks[0].grid
