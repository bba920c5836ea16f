"""The built site, read from disk in a browser: it fits a telephone, asks nobody else, and its search finds things.

SMELT_SITE_PICTURES=FOLDER keeps a picture of every page at 390 and at 1,280 pixels, to be looked at.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import Browser, open_browser

pytest.importorskip("mkdocstrings", reason="the site is built with the extra docs")
pytest.importorskip("material", reason="the site is built with the extra docs")

ROOT = Path(__file__).parents[2]
PICTURES = os.environ.get("SMELT_SITE_PICTURES")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, str(ROOT / "docs" / "fetch.py")], check=True)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    ran = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_scrolls_sideways_or_asks_another_server(site: Path, browser: Browser, width: int) -> None:
    browser.resize(width)
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 80
    wide, broken = [], []
    for page in pages:
        browser.open(page.as_uri())
        name = page.relative_to(site).as_posix()
        if browser.run("document.documentElement.scrollWidth") > width:
            wide.append(name)
        if browser.run("[...document.images].some(one => one.complete && !one.naturalWidth)"):
            broken.append(name)
        if browser.run("document.querySelectorAll('.katex-error').length"):
            broken.append(f"{name}: an equation")
        if PICTURES:
            browser.picture(Path(PICTURES) / f"{name.replace('/', '-')}-{width}.png")
    assert wide == []
    assert broken == []
    assert [url for url in browser.asked if not url.startswith(("file:", "data:", "about:", "blob:"))] == []


def test_the_search_works_on_a_site_that_is_read_from_disk(site: Path, browser: Browser) -> None:
    browser.resize(1280)
    browser.open((site / "index.html").as_uri())
    browser.wait_for("document.querySelector('.md-search').getBoundingClientRect().width > 0")
    browser.run("document.querySelector('[data-md-component=search-query]').focus()")
    browser.call("Input.insertText", text="TIES")
    found = browser.wait_for(
        "[...document.querySelectorAll('.md-search-result__item a')].map(one => one.getAttribute('href')).join(' ')"
    )
    assert "reference/methods/ties.html" in found
