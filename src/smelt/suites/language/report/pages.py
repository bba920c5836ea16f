"""The pages of a suite of language models: tables with methods across, and the paper's figures by their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from smelt.evaluation.row import Row
from smelt.reporting import sections
from smelt.reporting.pages import PageSection, ReportView, Tile
from smelt.reporting.plain import PlainPages
from smelt.reporting.tables.grid import build_grid
from smelt.reporting.tables.sheet import Sheet
from smelt.suites.language.report.analyses import Language, read_language
from smelt.suites.language.report.figures import language_figures
from smelt.suites.language.report.headline import language_sentences, language_tiles
from smelt.suites.language.report.lines import ExampleReader
from smelt.suites.language.report.tables import language_sheets, paper_sheets
from smelt.suites.language.report.terminal import show_language

__all__ = ["LanguagePages"]

_LINKS = {"trade_off": ("trade-off", "Trade-off"), "times": ("times", "Time"), "tuning": ("tuning", "Settings")}


class LanguagePages(PlainPages):
    """Which tasks belong to which domain is `Language`."""

    templates = Path(__file__).parent
    reader = ExampleReader()
    small = "tasks"

    def read(self, analyses: Path, rows: Sequence[Row]) -> Language | None:
        """The suite's plan."""
        return read_language(analyses)

    def sheets(self, view: ReportView) -> list[Sheet]:
        """The tables of our own rows, then the paper's beside them."""
        sheets = language_sheets(view.rows, view.own)
        return [*sheets, *paper_sheets(sheets, view.rows, view.own)]

    def first_words(self, view: ReportView, sheets: Sequence[Sheet]) -> tuple[list[str], list[Tile]]:
        """Who keeps most of the experts."""
        said = language_sentences(view.rows, view.costs, sheets, view.own)
        return said, language_tiles(view.costs, sheets, view.own)

    def sections(self, view: ReportView, sheets: Sequence[Sheet]) -> list[PageSection]:
        """Time and memory have a section of their own, and there are no curves over scales."""
        figures, first = language_figures(view.rows, view.costs, sheets, view.own), sheets[0]
        content, unit = {"language": figures}, self.reader.unit
        ranked = [("Average over the domains", first.blocks[0].grid)]
        compared = ("Domain by domain", "Accuracy of each model on each domain", first.blocks[0].grid)
        tuned = "setting chosen on validation tasks" if sections.tuned_on(sheets) else ""
        clean = build_grid(row for row in view.rows if row.part is None)
        return [
            PageSection("transposed.html.jinja", content, (("results", "Tables"),), fixed=True),
            PageSection("figures.html.jinja", content, tuple(link for word, link in _LINKS.items() if figures[word])),
            sections.methods(ranked, compared, tuned, unit=unit, base="base model"),
            sections.experts(view.rows, clean, "Score"),
            sections.learned(view.analyses),
            sections.vectors(view.analyses),
            sections.paths(view.rows, unit),
            sections.reproduce(sheets[:1], self.reader),
        ]

    def terminal(self, view: ReportView) -> None:
        """One table over the domains."""
        show_language(view.rows, view.costs, view.own)
