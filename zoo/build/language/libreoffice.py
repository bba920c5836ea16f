"""Paragraphs of LibreOffice's help in four languages, aligned by page and paragraph id (Debian's libreoffice-help-*).

One division of the pages into train, val and test serves every domain, so that no domain trains on another's test pages.
Pages embed each other's paragraphs: a text that occurs on pages of several parts belongs to the strictest (test, val, train).
"""

from __future__ import annotations

import functools
import hashlib
import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import fetch

FOLDERS = {"en": "en-US", "de": "de", "es": "es", "fr": "fr"}
PARTS = ("test", "val", "train")
_PLAIN = {"paragraph", "listitem", "listiteminlist", "tablecontentintable", "warning", "note", "tip"}
_ODD = re.compile(r"[=<>{}\[\]\\|~^_#$*\u2192\u25a0\u25b8]|https?:|www\.|\bSub\b|\bDim\b|\.\w+\.")


def _home(language: str) -> Path:
    package = fetch.package("libreoffice-help-" + ("en-us" if language == "en" else language))
    return package / "usr" / "share" / "libreoffice" / "help" / FOLDERS[language] / "text"


@functools.cache
def pages(language: str) -> dict[str, dict[str, str]]:
    """Page → paragraph id → text, of every page in one language; code and what differs between systems is left out."""
    from lxml import html

    home, found = _home(language), {}
    for path in sorted(home.rglob("*.html")):
        tree = html.fromstring(path.read_text(encoding="utf-8"))
        texts: dict[str, str] = {}
        for element in tree.xpath("//p[@id]"):
            text = " ".join(element.text_content().split())
            odd = element.xpath("ancestor-or-self::pre|.//code|.//img|.//span[@class='switchinline']")
            if element.get("class") in _PLAIN and text and not odd:
                texts.setdefault(element.get("id"), text)
        found[str(path.relative_to(home))] = texts
    return found


@functools.cache
def headings() -> dict[str, str]:
    """Page → its English title; none that is long, no plain words, or that pages of several parts have."""
    from lxml import html

    found: dict[str, str] = {}
    for page in pages("en"):
        titles = html.fromstring((_home("en") / page).read_text(encoding="utf-8")).xpath("//h1")
        text = " ".join(titles[0].text_content().split()) if titles else ""
        if 0 < len(text.split()) <= 7 and text.replace(" ", "").isalpha():
            found[page] = text
    parts: dict[str, set[str]] = {}
    for page, text in found.items():
        parts.setdefault(core(text), set()).add(part_of_page(page))
    return {page: text for page, text in found.items() if len(parts[core(text)]) == 1}


def part_of_page(page: str) -> str:
    """train, val or test; 8 % of the pages are for tests and 5 % for validation."""
    share = int.from_bytes(hashlib.sha256(page.encode()).digest()[:4], "big") / 2**32
    return "test" if share < 0.08 else "val" if share < 0.13 else "train"


def core(text: str) -> str:
    """What two texts share that differ only in case, digits, spaces and punctuation."""
    return "".join(letter for letter in text.lower() if letter.isalpha())


@functools.cache
def part_of_text() -> dict[str, str]:
    """The core of every English text → its part, the strictest of the pages that it stands on."""
    found: dict[str, str] = {}
    for page, texts in pages("en").items():
        part = part_of_page(page)
        for text in texts.values():
            key = core(text)
            if key not in found or PARTS.index(part) < PARTS.index(found[key]):
                found[key] = part
    return found


def usable(text: str, low: int, high: int) -> bool:
    """Is it prose of that many words?"""
    words = text.split()
    letters = sum(letter.isalpha() or letter == " " for letter in text)
    return low <= len(words) <= high and letters >= 0.9 * len(text) and not _ODD.search(text)


def english(part: str, low: int, high: int) -> dict[str, list[tuple[str, str]]]:
    """Page → (paragraph id, text) of one part: whole sentences, each text once."""
    seen: set[str] = set()
    found: dict[str, list[tuple[str, str]]] = {}
    for page, texts in pages("en").items():
        for name, text in texts.items():
            key = core(text)
            if part_of_text()[key] != part or part_of_page(page) != part or key in seen:
                continue
            if usable(text, low, high) and text[0].isupper() and text[-1] in ".!?":
                seen.add(key)
                found.setdefault(page, []).append((name, text))
    return found
