"""What a line of work fills in: the pages of its report. The room gives it a view of a folder and prints what it says.

A page is an opening (sentences, large numbers), then sections in the order that `Pages.sections` gives. `plain` has
the pages of a suite with one table; most lines of work begin there and change what they show otherwise. Sections that
several pages share are in `sections`; a template of their own lies in the folder `Pages.templates`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from smelt.errors import CorruptFile, RecipeError
from smelt.evaluation.row import CostRow, Row, read_rows
from smelt.reporting.analyses import Analyses
from smelt.reporting.order import OrderBeside, order_beside
from smelt.reporting.tables.sheet import Sheet
from smelt.runs.run_folder import ROWS

__all__ = ["PageOpening", "PageSection", "Pages", "ReportView", "Tile", "read_folder"]

_NONE = Analyses()


@dataclass(frozen=True)
class ReportView:
    """A folder as pages see it, to read only: its rows in the order in which they were written, and its figures."""

    rows: tuple[Row, ...]
    costs: tuple[CostRow, ...] = ()
    analyses: Analyses = _NONE
    own: Any = ()
    """What `Pages.read` found."""

    @cached_property
    def orders(self) -> tuple[OrderBeside, ...]:
        """The order of the methods beside each printed one that the folder names."""
        return tuple(order_beside(one, self.rows) for one in self.analyses.orders)


@dataclass(frozen=True)
class Tile:
    """One large number at the top, in percent unless it says otherwise. `meter` is the length of a bar, from 0 to 1."""

    title: str
    text: str
    below: str
    best: bool = False
    meter: float | None = None
    unit: str = "%"


@dataclass(frozen=True)
class PageOpening:
    """What a reader sees first."""

    suite: str | None
    sentences: tuple[str, ...]
    tiles: tuple[Tile, ...]
    facts: tuple[tuple[str, str], ...]
    zoo: bool
    """Whether models are of those that come with Smelt, which the page warns of."""
    small: str = "pictures"
    """What these are small in."""


@dataclass(frozen=True)
class PageSection:
    """A template with what it names, and the links that lead there: (anchor, text). Without links it is left out."""

    template: str
    content: Mapping[str, Any]
    links: tuple[tuple[str, str], ...]
    fixed: bool = False
    """Whether pages of its kind always have it."""


class Pages(Protocol):
    """The report of one line of work."""

    @property
    def templates(self) -> Path | None:
        """The folder of its own templates."""

    def read(self, analyses: Path, rows: Sequence[Row]) -> Any:
        """What it left beside its rows; None where a folder has nothing of it, so that the general pages show it."""

    def sheets(self, view: ReportView) -> list[Sheet]:
        """The tables, in the order of the suite; also what the files beside the page have."""

    def opening(self, view: ReportView, sheets: Sequence[Sheet]) -> PageOpening:
        """The top of the page."""

    def sections(self, view: ReportView, sheets: Sequence[Sheet]) -> list[PageSection]:
        """What follows, in order."""

    def terminal(self, view: ReportView) -> None:
        """Print the tables in the terminal, in short."""


def read_folder(folder: Path) -> tuple[list[Row], list[CostRow]]:
    """The rows of a suite's folder; at least one of accuracy, or there is nothing to report."""
    path = folder / ROWS
    if not folder.is_dir():
        raise RecipeError(f"{folder}: no such folder; give the one that `smelt bench -o DIR` wrote")
    if not path.is_file():
        raise RecipeError(f"{folder}: has no {ROWS}, so there is nothing to report; `smelt bench -o DIR` writes one")
    try:
        rows = read_rows(path)
    except OSError as error:
        raise CorruptFile(f"{path}: cannot be read ({error.strerror})") from None
    scored = [row for row in rows if isinstance(row, Row)]
    if not scored:
        raise RecipeError(f"{path}: holds no row of accuracy, so there is nothing to report; let the suite run first")
    return scored, [row for row in rows if isinstance(row, CostRow)]
