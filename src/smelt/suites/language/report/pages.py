"""The pages of a suite of language models: tables with methods across, and the paper's figures by their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from smelt.evaluation.row import CostRow, Row
from smelt.reporting import sections
from smelt.reporting.pages import PageSection, ReportView, Tile
from smelt.reporting.plain import PlainPages
from smelt.reporting.tables.grid import build_grid, table_rows
from smelt.reporting.tables.ranks import with_ranks
from smelt.reporting.tables.sheet import Sheet
from smelt.reporting.tables.terminal import Shown, print_lines, shown_cell, shown_share
from smelt.suites.language.report.analyses import Language, read_language
from smelt.suites.language.report.figures import language_figures
from smelt.suites.language.report.headline import language_sentences, language_tiles
from smelt.suites.language.report.lines import ExampleReader, domain_lines, general_lines, task_lines
from smelt.suites.language.report.single import best_single
from smelt.suites.language.report.tables import language_sheets, paper_sheets

__all__ = ["LanguagePages", "show_language"]

_LINKS = {"trade_off": ("trade-off", "Trade-off"), "times": ("times", "Time"), "tuning": ("tuning", "Settings")}
_COSTS = ("algorithm s", "validation s", "trials", "peak MB")


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
        order = next(iter(view.orders), None)
        said = language_sentences(view.rows, view.costs, sheets, view.own, order)
        return said, language_tiles(view.costs, sheets, view.own, order)

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


def show_language(rows: Sequence[Row], costs: Sequence[CostRow], language: Language) -> None:
    """Print a table, domains across and methods down, then what they retain, forget and cost; scores are per cent.

    avg       mean over the domains                     norm      mean over the domains of score / expert's score
    general   mean over general tasks of score / base's score
    algorithm, validation   seconds of looking at data and merging; of choosing the setting, over so many trials
    """
    from rich.console import Console
    from rich.text import Text

    def cut(text: str, width: int) -> str:
        return text[:width]

    console, heads = Console(), [*language.domains, "avg", "norm", "general", *_COSTS]
    print_lines(console, heads, _lines(rows, costs, language), cut, cut)
    console.print(Text("scores in %; norm: of the experts, general: of the base", style="dim"), soft_wrap=True)


def _lines(rows: Sequence[Row], costs: Sequence[CostRow], language: Language) -> list[tuple[str, list[Shown]]]:
    """Every model's name and its numbers, in the order of the report."""
    shown, split = table_rows(rows)
    single = best_single(rows, language, split)
    found = with_ranks(domain_lines(task_lines(shown, language, split, single), language))
    general = {(line.entry, line.variant): line for line in with_ranks(general_lines(shown, language, split, single))}
    spent = {(row.entry, str(row.variant)): row for row in costs}
    lines = []
    for line in found:
        key = (line.entry, line.variant)
        scores = [shown_cell(cell) for cell in (*line.cells, line.average)]
        shares = [shown_share(line), shown_share(general.get(key))]
        lines.append((line.name, [*scores, *shares, *_cost(spent.get(key))]))
    return lines


def _cost(row: CostRow | None) -> list[Shown]:
    if row is None:
        return [("", False)] * len(_COSTS)
    algorithm = row.prepare_seconds + row.merge_seconds
    numbers = [f"{algorithm:.1f}", f"{row.validate_seconds:.1f}", str(row.trials), f"{row.most_bytes / 1e6:.0f}"]
    return [(number, False) for number in numbers]
