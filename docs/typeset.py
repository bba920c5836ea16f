"""Typeset the equations of the pages while the site is built: a hook of mkdocs.

A page has LaTeX between dollars, as git hosts show it. KaTeX, which docs/fetch.py fetches, turns it into HTML here, so
that a reader's browser runs no script and asks no server; it needs KaTeX's style and fonts alone, which are
part of the site. LaTeX that KaTeX does not know stops the build.
"""

from __future__ import annotations

import functools
import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

KATEX = Path(__file__).parent / "katex" / "katex.min.js"
EQUATION = re.compile(r'<(div|span) class="arithmatex">\\[\[(](.*?)\\[\])]</\1>', re.DOTALL)
"""What pymdownx.arithmatex leaves of `$$ ... $$` and `$...$`."""


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """The page with its equations typeset."""

    def typeset(found: re.Match[str]) -> str:
        tag, latex = found[1], html.unescape(found[2]).strip()
        try:
            drawn = render(latex, block=tag == "div")
        except ValueError as error:
            raise ValueError(f"{page.file.src_uri}: {error}") from error
        # the search index needs no formulas
        return f'<{tag} class="arithmatex" data-search-exclude>{drawn}</{tag}>'

    return EQUATION.sub(typeset, content)


def render(latex: str, block: bool) -> str:
    """An equation as HTML, with MathML inside for those who do not see it."""
    from py_mini_racer import JSEvalException

    options = {"displayMode": block, "strict": "error", "trust": False}
    try:
        return str(katex()(f"katex.renderToString({json.dumps(latex)}, {json.dumps(options)})"))
    except JSEvalException as error:
        why = re.search(r"KaTeX parse error: (.*)", str(error))
        raise ValueError(f"KaTeX does not understand {latex!r}: {why[1] if why else error}") from error


@functools.cache
def katex() -> Callable[[str], Any]:
    """KaTeX in a JavaScript machine, loaded once."""
    from py_mini_racer import MiniRacer

    machine = MiniRacer()
    machine.eval(f"globalThis.self = globalThis; {KATEX.read_text(encoding='utf-8')}")
    return machine.eval
