"""The pages of a suite about which models to merge: the paper's questions, steps, random groups, its tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from smelt.evaluation.row import Row
from smelt.reporting import sections
from smelt.reporting.pages import PageSection, ReportView, Tile
from smelt.reporting.plain import PlainPages
from smelt.reporting.tables.cells import Cell
from smelt.reporting.tables.lines import LineReader
from smelt.reporting.tables.sheet import Sheet
from smelt.reporting.tables.terminal import shown_cell
from smelt.suites.selection.report.analyses import SelectionAnalysis, read_selection
from smelt.suites.selection.report.figures import selection_figures
from smelt.suites.selection.report.headline import selection_sentences, selection_tiles
from smelt.suites.selection.report.paper_figures import paper_figures
from smelt.suites.selection.report.table_shapes import Scores
from smelt.suites.selection.report.tables import selection_sheets
from smelt.suites.selection.report.uncertainties import compared_uncertainties, repeats_table

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
        drawn = paper_figures(Scores(view.rows, view.own), view.own)
        repeats = repeats_table(view.own)
        asked = {"tasks": view.own.sets["held_in"], "repeats": repeats, "printed": compared_uncertainties(view.own)}
        return [
            PageSection("questions.html.jinja", content, answers, fixed=True),
            PageSection("random.html.jinja", content, (("random", "Random groups"),) if figures["random"] else ()),
            PageSection("paper_figures.html.jinja", {"figures": drawn}, (("figures", "Figures"),) if drawn else ()),
            PageSection("uncertainties.html.jinja", asked, (("uncertainties", "Uncertainties"),) if repeats else ()),
            PageSection("papers_tables.html.jinja", shown, (("results", "Tables"),), fixed=True),
            sections.curves(view.rows, unit),
            sections.learned(view.analyses),
            sections.vectors(view.analyses),
            sections.paths(view.rows, unit),
            sections.reproduce(sheets, self.reader),
        ]

    def terminal(self, view: ReportView) -> None:
        """Averages over the sets of each kind, table by table, and the first words; no numbers of the paper's."""
        from rich.console import Console
        from rich.text import Text

        console = Console()
        for sheet in selection_sheets(view.rows, view.own):
            console.print(Text(sheet.title, style="bold"), soft_wrap=True)
            console.print(_table(sheet))
            console.print()
        for sentence in selection_sentences(view.rows, view.own):
            console.print(Text(sentence), soft_wrap=True)


def _table(sheet: Sheet) -> object:
    from rich.table import Table
    from rich.text import Text

    blocks = [block for block in sheet.blocks if not block.key.startswith("paper")]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    for block in blocks:
        for head in [f"{block.title.lower()} %"] if block.grid.average else [f"{one} %" for one in block.grid.tasks]:
            table.add_column(head, justify="right", no_wrap=True)
    table.add_column("", style="dim")
    for lines in zip(*(block.grid.lines for block in blocks), strict=True):
        cells: list[Cell | None] = []
        for line, block in zip(lines, blocks, strict=True):
            cells += [line.average] if block.grid.average else line.cells
        shown = [Text(number, style="bold" if best else "") for number, best in map(shown_cell, cells)]
        table.add_row(Text(lines[0].label), *shown, Text(lines[0].note))
    return table
