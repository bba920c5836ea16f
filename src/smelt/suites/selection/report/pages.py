"""The pages of a suite about which models to merge: the paper's questions, steps, random groups, its tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from smelt.evaluation.row import Row
from smelt.reporting import sections
from smelt.reporting.pages import PageSection, ReportView, Tile
from smelt.reporting.plain import PlainPages
from smelt.reporting.tables.lines import LineReader
from smelt.reporting.tables.sheet import Sheet
from smelt.suites.selection.report.analyses import SelectionAnalysis, read_selection
from smelt.suites.selection.report.figures import selection_figures
from smelt.suites.selection.report.headline import selection_sentences, selection_tiles
from smelt.suites.selection.report.tables import selection_sheets
from smelt.suites.selection.report.terminal import show_selection

__all__ = ["SelectionPages"]


class QuestionReader(LineReader):
    """Data is counted in questions."""

    unit = "question"


class SelectionPages(PlainPages):
    """Orders, traces and choices are `SelectionAnalysis`."""

    templates = Path(__file__).parent
    reader = QuestionReader()
    small = "tasks"

    def read(self, analyses: Path, rows: Sequence[Row]) -> SelectionAnalysis | None:
        """What was chosen and how."""
        return read_selection(analyses)

    def sheets(self, view: ReportView) -> list[Sheet]:
        """In the paper's order."""
        return selection_sheets(view.rows, view.own)

    def first_words(self, view: ReportView, sheets: Sequence[Sheet]) -> tuple[list[str], list[Tile]]:
        """What was chosen, and whether that helps."""
        return selection_sentences(view.rows, view.own), selection_tiles(view.rows, view.own)

    def sections(self, view: ReportView, sheets: Sequence[Sheet]) -> list[PageSection]:
        """Questions, steps, random groups and tables; methods are compared there."""
        figures = selection_figures(view.rows, view.own)
        content, unit = {"selection": figures}, self.reader.unit
        answers = (("questions", "Questions"), ("trace", "Steps"))
        shown = {"sheets": [sheet for sheet in sheets if sheet.lines]}
        return [
            PageSection("questions.html.jinja", content, answers, fixed=True),
            PageSection("random.html.jinja", content, (("random", "Random groups"),) if figures["random"] else ()),
            PageSection("papers_tables.html.jinja", shown, (("results", "Tables"),), fixed=True),
            sections.curves(view.rows, unit),
            sections.learned(view.analyses),
            sections.vectors(view.analyses),
            sections.paths(view.rows, unit),
            sections.reproduce(sheets, self.reader),
        ]

    def terminal(self, view: ReportView) -> None:
        """What was measured here, in short."""
        show_selection(view.rows, view.own)
