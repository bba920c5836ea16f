"""A suite's folder in, its report and tables out."""

from __future__ import annotations

from pathlib import Path

from smelt.errors import OutputError
from smelt.files.writing import write_file
from smelt.reporting.pages import Pages, ReportView
from smelt.reporting.tables.as_csv import as_csv
from smelt.reporting.tables.as_latex import as_latex
from smelt.reporting.tables.as_markdown import as_markdown

__all__ = ["TABLES", "write_report"]

TABLES = {"table.md": as_markdown, "table.csv": as_csv, "table.tex": as_latex}


def write_report(page: Path, pages: Pages, view: ReportView) -> Path:
    """Write one HTML page, and its tables as Markdown, CSV and LaTeX beside it; older ones are replaced."""
    from smelt.reporting.page import render_page

    if page.is_dir():
        raise OutputError(f"{page}: is a folder; give the name of the HTML file to write")
    sheets = pages.sheets(view)
    texts = {page.with_name(name): table(sheets) for name, table in TABLES.items()}
    texts[page] = render_page(pages, view, sheets)
    for path, text in texts.items():
        write_file(path, text)  # whole: a browser that is open on the old page never sees half of the new one
    return page
