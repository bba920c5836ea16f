"""`smelt.report`: the report of a suite's folder, with the pages of the suite's kind."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from smelt.evaluation.row import CostRow, Row
from smelt.files.reading import find_json_table
from smelt.reporting.analyses import read_analyses
from smelt.reporting.pages import Pages, ReportView, read_folder
from smelt.suites.kind import DEFAULT, OWN, SuiteKind, suite_kinds

__all__ = ["kind_of_folder", "report", "show", "table_text", "view_of"]


def report(folder: str | Path, out: str | Path | None = None) -> Path:
    """Write the report of a suite's `folder`: one HTML page, and its tables as Markdown, CSV and LaTeX beside it.

    Reads `rows.jsonl` and `analyses/*.json` only. `out` is the page's file, `report.html` in the folder unless given;
    an older report is replaced. Returns the page's path.
    """
    from smelt.reporting.write import write_report
    from smelt.runs.run_folder import PAGE

    folder = Path(folder)
    rows, costs = read_folder(folder)
    return write_report(folder / PAGE if out is None else Path(out), *view_of(folder, rows, costs))


def show(folder: Path, rows: Sequence[Row | CostRow]) -> None:
    """Print the tables of a run in the terminal."""
    scored = [row for row in rows if isinstance(row, Row)]
    pages, view = view_of(folder, scored, [row for row in rows if isinstance(row, CostRow)])
    pages.terminal(view)


def table_text(folder: Path, rows: Sequence[Row | CostRow]) -> str:
    """The tables of a run as they stand in a log: every kind has its own way to print them."""
    with redirect_stdout(StringIO()) as paper:
        show(folder, rows)
    return paper.getvalue()


def view_of(folder: Path, rows: Sequence[Row], costs: Sequence[CostRow] = ()) -> tuple[Pages, ReportView]:
    """The pages of a folder, and what they see of it.

    They are those of the kind that the folder names, else of the first one that finds something of its own there; the
    pages of CLIP suites show everything else.
    """
    analyses, named = folder / "analyses", kind_of_folder(folder)
    own = [suite_kinds[name] for name in sorted(OWN, key=lambda name: name == DEFAULT)]
    every = [kind.pages for kind in [*([named] if named else []), *own] if kind.pages]
    pages, found = next((one, found) for one in every if (found := one.read(analyses, rows)) is not None)
    return pages, ReportView(tuple(rows), tuple(costs), read_analyses(analyses), found)


def kind_of_folder(folder: Path) -> SuiteKind | None:
    """The kind of the suite that a folder's rows are of; None where that is not known."""
    begun = find_json_table(folder / "run.json")
    if begun is None:
        return None
    suite = str(begun.get("suite", "")).rpartition("@")[0]
    named = begun.get("kind") or next((k.name for k in suite_kinds.values() if suite in k.suites()), None)
    return suite_kinds.get(str(named))
