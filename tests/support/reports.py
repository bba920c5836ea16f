"""Tables and first words of rows, with the pages that a folder with these rows would get."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from smelt.evaluation.row import CostRow, Row
from smelt.reporting.pages import PageOpening
from smelt.reporting.tables.sheet import Sheet
from smelt.suites.report import show, view_of

NOWHERE = Path("no-such-folder")


def build_sheets(rows: Iterable[Row], costs: Sequence[CostRow] = ()) -> list[Sheet]:
    pages, view = view_of(NOWHERE, list(rows), costs)
    return pages.sheets(view)


def build_opening(rows: Iterable[Row], sheets: Sequence[Sheet]) -> PageOpening:
    pages, view = view_of(NOWHERE, list(rows))
    return pages.opening(view, sheets)


def show_rows(rows: Sequence[Any]) -> None:
    show(NOWHERE, rows)
