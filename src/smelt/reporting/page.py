"""The page's skeleton: opening, links, sections, each set into its template. Autoescape is on for all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined
from markupsafe import Markup

from smelt.reporting.draw.tracks import cell_text
from smelt.reporting.pages import Pages, ReportView
from smelt.reporting.tables.sheet import Sheet
from smelt.reporting.words import bytes_text, percent, seconds_text, setting_text, short_hash
from smelt.version import __version__

__all__ = ["render_page"]


def render_page(pages: Pages, view: ReportView, sheets: Sequence[Sheet]) -> str:
    """The whole report as one HTML text that needs nothing else."""
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
    sections = [section for section in pages.sections(view, sheets) if section.links]
    return environment.get_template("page.html.jinja").render(
        version=__version__,
        opening=pages.opening(view, sheets),
        sections=sections,
        bodies=[Markup(environment.get_template(one.template).render(one.content)) for one in sections],
    )


def _setting(setting: Mapping[str, Any]) -> str:
    """A setting whose numbers stay with their names where a line breaks."""
    return re.sub(r" (?=[-\d])", "\N{NO-BREAK SPACE}", setting_text(setting))
