"""A suite's folder in, its report and tables out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from smelt.errors import OutputError
from smelt.files.writing import write_file
from smelt.reporting.draw.tracks import cell_text
from smelt.reporting.pages import Pages, PageSection, ReportView
from smelt.reporting.sections import order, published
from smelt.reporting.tables.as_csv import as_csv
from smelt.reporting.tables.as_latex import as_latex
from smelt.reporting.tables.as_markdown import as_markdown
from smelt.reporting.tables.sheet import Sheet
from smelt.reporting.words import bytes_text, percent, seconds_text, setting_text, short_hash
from smelt.version import __version__

__all__ = ["TABLES", "write_report"]

TABLES = {"table.md": as_markdown, "table.csv": as_csv, "table.tex": as_latex}


def write_report(page: Path, pages: Pages, view: ReportView) -> Path:
    """Write one HTML page, and its tables as Markdown, CSV and LaTeX beside it; older ones are replaced."""
    if page.is_dir():
        raise OutputError(f"{page}: is a folder; give the name of the HTML file to write")
    sheets = pages.sheets(view)
    texts = {page.with_name(name): table(sheets) for name, table in TABLES.items()}
    texts[page] = _render_page(pages, view, sheets)
    for path, text in texts.items():
        write_file(path, text)  # whole: a browser that is open on the old page never sees half of the new one
    return page


def _render_page(pages: Pages, view: ReportView, sheets: Sequence[Sheet]) -> str:
    """The whole report as one HTML text that needs nothing else; every section is set into its template."""
    from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined
    from markupsafe import Markup

    loaders = [PackageLoader("smelt.reporting"), *([FileSystemLoader(pages.templates)] if pages.templates else [])]
    environment = Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        percent=percent,
        seconds=seconds_text,
        bytes=bytes_text,
        setting=_setting,
        short=short_hash,
        words=cell_text,
    )
    sections = [section for section in _with_published(pages.sections(view, sheets), view) if section.links]
    return environment.get_template("page.html.jinja").render(
        version=__version__,
        opening=pages.opening(view, sheets),
        sections=sections,
        bodies=[Markup(environment.get_template(one.template).render(one.content)) for one in sections],
    )


def _with_published(sections: Sequence[PageSection], view: ReportView) -> list[PageSection]:
    """All sections, with those of printed tables before the last one, which says how to make everything again."""
    return [*sections[:-1], published(view), order(view), *sections[-1:]]


def _setting(setting: Mapping[str, Any]) -> str:
    """A setting whose numbers stay with their names where a line breaks."""
    return re.sub(r" (?=[-\d])", "\N{NO-BREAK SPACE}", setting_text(setting))
