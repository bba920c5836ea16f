"""The pages of a hub: a table for every k, how the hub grows, whether its order is right, who was chosen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from smelt.evaluation.row import Row
from smelt.reporting.pages import PageSection, ReportView, Tile
from smelt.reporting.plain import PlainPages
from smelt.reporting.tables.sheet import Sheet
from smelt.suites.hub.report.analyses import HubAnalyses, read_hub
from smelt.suites.hub.report.figures import hub_figures
from smelt.suites.hub.report.headline import hub_sentences, hub_tiles
from smelt.suites.hub.report.tables import HubReader, hub_sheets
from smelt.suites.hub.row_parts import is_hub

__all__ = ["HubPages"]

_LINKS = {
    "growth": ("growth", "Growth"),
    "agreement": ("agreement", "Agreement"),
    "models": ("hub-models", "Models"),
    "readers": ("readers", "Readers"),
    "left_out": ("left-out", "Left out"),
    "shares": ("choices", "Choices"),
}


class HubPages(PlainPages):
    """What a hub suite found; its own figures are `HubAnalyses`."""

    templates = Path(__file__).parent
    reader = HubReader()

    def read(self, analyses: Path, rows: Sequence[Row]) -> HubAnalyses | None:
        """Growth, ranks and classes, where rows are of a hub."""
        return read_hub(analyses) if any(map(is_hub, rows)) else None

    def sheets(self, view: ReportView) -> list[Sheet]:
        """A table for every k, then those along an axis."""
        return hub_sheets(view.rows, view.costs)

    def first_words(self, view: ReportView, sheets: Sequence[Sheet]) -> tuple[list[str], list[Tile]]:
        """Who chooses best."""
        return hub_sentences(view.rows, sheets, view.own), hub_tiles(sheets)

    def own_sections(self, view: ReportView, sheets: Sequence[Sheet]) -> list[PageSection]:
        """Growth, agreement, models, choices."""
        found = hub_figures(view.rows, sheets, view.own)
        return [
            PageSection("hub.html.jinja", {"hub": found}, tuple(link for word, link in _LINKS.items() if found[word]))
        ]
