"""Which tables a suite's rows make: one, one for each part, a block for each corruption; series.

Suites of a hub, of language models and of selections have their own.
"""

from __future__ import annotations

from collections.abc import Iterable

from smelt.evaluation.row import CostRow, Row
from smelt.reporting.tables.grid import build_grid, table_rows
from smelt.reporting.tables.sheet import Block, Sheet
from smelt.suites.clip.report.parts import part_sheet, rows_by_part
from smelt.suites.clip.report.robustness import robust_sheet
from smelt.suites.collaboration.report.levels import level_sheet
from smelt.suites.collaboration.report.series import series_sheets
from smelt.suites.hub.parts import is_hub
from smelt.suites.hub.report.tables import hub_sheets
from smelt.suites.language.report.analyses import Language
from smelt.suites.language.report.tables import language_sheets, paper_sheets
from smelt.suites.selection.report.analyses import Selection
from smelt.suites.selection.report.tables import selection_sheets

__all__ = ["build_sheets", "printed"]


def build_sheets(
    rows: Iterable[Row],
    costs: Iterable[CostRow] = (),
    language: Language | None = None,
    selection: Selection | None = None,
    *,
    paper: bool = False,
) -> list[Sheet]:
    """The tables in the order of the suite; a suite without a row for a table has one that is empty.

    `costs` are for the tables that show what something took; `language` is the plan of a suite of language models,
    `selection` what one about which models to merge found; `paper` adds the tables that show the published numbers
    beside a language suite's own.
    """
    rows = list(rows)
    if language is not None:
        sheets = language_sheets(rows, language)
        return [*sheets, *(paper_sheets(sheets, rows, language) if paper else [])]
    if selection is not None:
        return selection_sheets(rows, selection)
    if any(map(is_hub, rows)):
        return hub_sheets(rows, costs)
    shown, split = table_rows(rows)
    sheets = []
    for part, members in rows_by_part(shown).items():
        if any(row.corruption for row in members):
            sheets.append(robust_sheet(members, split, part))
        elif any(row.level for row in members):
            sheets.append(level_sheet(members, split, part))
        elif part is not None:
            sheets.append(part_sheet(part, members, split))
        else:
            sheets.append(Sheet((Block("", "", build_grid(members)),)))
    return [*sheets, *series_sheets(rows)]


def printed(sheets: Iterable[Sheet]) -> list[Sheet]:
    """Every table that a file has, each followed by its short form."""
    return [one for sheet in sheets for one in (sheet, sheet.summary) if one is not None]
