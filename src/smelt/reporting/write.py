"""A suite's folder in, its report and tables out."""

from __future__ import annotations

import os
from pathlib import Path

from smelt.errors import OutputError
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
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            _replace(path, text)
    except OSError as error:
        raise OutputError(f"{error.filename or page}: cannot be written ({error.strerror})") from None
    return page


def _replace(path: Path, text: str) -> None:
    """Whole or not at all: a browser that is open on the old page never sees half of the new one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
