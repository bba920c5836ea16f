"""Templates to answers: one environment with autoescape, pages with an ETag, the style that reports have, too."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from smelt.reporting.words import bytes_text, percent
from smelt.version import __version__

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["STATIC", "house_style", "page", "static_mark", "unchanged"]

STATIC = Path(__file__).parent / "static"


def page(
    request: Request,
    template: str,
    words: Mapping[str, Any],
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A page of the service; 304 where the reader has it already."""
    content = {"version": __version__, "settings": request.app.state.settings, "path": request.url.path, **words}
    text = _environment().get_template(template).render(content)
    tag = f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'
    if status == 200 and request.method == "GET" and (same := unchanged(request, tag)):
        return same
    extra = {"ETag": tag} if status == 200 and request.method == "GET" else {}
    return HTMLResponse(text, status, headers={**extra, **(headers or {})})


def unchanged(request: Request, tag: str, headers: Mapping[str, str] | None = None) -> Response | None:
    """An empty 304 if the request says that it has the content of this tag."""
    known = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
    return Response(status_code=304, headers={"ETag": tag, **(headers or {})}) if known & {tag, "*"} else None


@cache
def house_style() -> str:
    """The report's style sheet: colours, type, tables, bars, dark mode and print, in one place for both."""
    environment = Environment(loader=PackageLoader("smelt.reporting"), undefined=StrictUndefined, autoescape=False)
    return environment.get_template("style.css.jinja").render()


@cache
def static_mark() -> str:
    """Changes with any style or script, so that browsers may keep them for long."""
    parts = [house_style().encode(), *(path.read_bytes() for path in sorted(STATIC.iterdir()) if path.is_file())]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("smelt.hub.service"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(percent=percent, bytes=_bytes, count=_count, path=lambda text: quote(text, safe=""))
    environment.globals["static_mark"] = static_mark()
    return environment


def _bytes(size: int) -> str:
    return bytes_text(size).replace(" ", "\N{NO-BREAK SPACE}")


def _count(number: int) -> str:
    """`8.1 M` for many, `1,234` for few."""
    for size, letter in ((1e9, "B"), (1e6, "M")):
        if number >= size:
            return f"{number / size:.1f}\N{NO-BREAK SPACE}{letter}"
    return f"{number:,}"
