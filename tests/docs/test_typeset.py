"""Equations of the pages are typeset when the site is built, and one that cannot be is an error."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("py_mini_racer", reason="it comes with the extra docs")

DOCS = Path(__file__).parents[2] / "docs"
if not (DOCS / "katex").is_dir():
    pytest.skip("KaTeX IS NOT THERE: `python docs/fetch.py` fetches it", allow_module_level=True)
MADE: dict[str, Any] = runpy.run_path(str(DOCS / "typeset.py"))
PAGE = SimpleNamespace(file=SimpleNamespace(src_uri="reference/methods/ties.md"))


def test_a_block_becomes_html_with_mathml_inside() -> None:
    made = MADE["on_page_content"]('<p>a</p><div class="arithmatex">\\[\n\\sum_i w_i &lt; 1\n\\]</div>', page=PAGE)
    assert made.startswith('<p>a</p><div class="arithmatex" data-search-exclude><span class="katex-display">')
    assert "<munder><mo>∑</mo><mi>i</mi></munder>" in made
    assert '<annotation encoding="application/x-tex">\\sum_i w_i &lt; 1</annotation>' in made


def test_an_equation_in_a_line_stays_in_it() -> None:
    made = MADE["on_page_content"]('<p>for <span class="arithmatex">\\(x_1\\)</span></p>', page=PAGE)
    assert "katex-display" not in made
    assert "<msub><mi>x</mi><mn>1</mn></msub>" in made


def test_what_katex_does_not_know_names_page_and_word() -> None:
    with pytest.raises(ValueError, match=re.escape("reference/methods/ties.md: KaTeX does not understand '\\\\foo x'")):
        MADE["on_page_content"]('<div class="arithmatex">\\[\\foo x\\]</div>', page=PAGE)


def test_every_font_of_the_style_is_there() -> None:
    named = set(re.findall(r"url\(fonts/([\w-]+\.woff2)\)", (DOCS / "katex" / "katex.min.css").read_text()))
    assert named == {path.name for path in (DOCS / "katex" / "fonts").iterdir()}
    assert len(named) == 20
