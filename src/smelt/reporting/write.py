"""A suite's folder in, its report and tables out."""

from __future__ import annotations

from pathlib import Path

from smelt.errors import OutputError
from smelt.files.atomic import write_file
from smelt.reporting.analyses import read_analyses
from smelt.reporting.rows import read_folder
from smelt.reporting.tables.as_csv import as_csv
from smelt.reporting.tables.as_latex import as_latex
from smelt.reporting.tables.as_markdown import as_markdown
from smelt.suites.sheets import build_sheets

__all__ = ["PAGE", "TABLES", "report"]

PAGE = "report.html"
TABLES = {"table.md": as_markdown, "table.csv": as_csv, "table.tex": as_latex}


def report(folder: str | Path, out: str | Path | None = None) -> Path:
    """Write the report of a suite's folder: one HTML page, and its tables as Markdown, CSV and LaTeX beside it.

    Reads `rows.jsonl` and `analyses/*.json` only. `out` is the page's file, `report.html` in the folder unless given;
    an older report is replaced. Returns the page's path.
    """
    from smelt.reporting.page import render_page

    folder = Path(folder)
    page = folder / PAGE if out is None else Path(out)
    if page.is_dir():
        raise OutputError(f"{page}: is a folder; give the name of the HTML file to write")
    measured = read_folder(folder)
    analyses = read_analyses(folder / "analyses")
    sheets = build_sheets(measured.accuracy, measured.cost, analyses.language, analyses.selection, paper=True)
    texts = {page.with_name(name): table(sheets) for name, table in TABLES.items()}
    texts[page] = render_page(measured, sheets, analyses)
    for path, text in texts.items():
        write_file(path, text)  # whole: a browser that is open on the old page never sees half of the new one
    return page
