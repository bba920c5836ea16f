"""Fill the marked blocks of the pages: flags, FusionBench's names, the numbers of results/, examples.

A block is what stands between `<!-- NAME: ... -->` and `<!-- /NAME -->`. Each maker is a file beside this one with a
function `blocks()`: {page: {block: text}}. One that draws has `files()` too: {path: text}, whole files such as figures.
Examples are named by a comment before a block of code (examples.py).
tests/docs/test_generated.py holds that every page is current.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
MAKERS = (
    "flags",
    "fusionbench",
    "clip8",
    "clip8_sizes",
    "zoo",
    "packs",
    "quantised",
    "suites",
    "neulig",
    "hub",
    "hub_sentences",
    "llm5",
    "llm5_words",
    "llm5_bases",
    "llm5_search",
    "mllm10",
    "harm",
    "figures",
    "speed",
    "roofline",
    "matrix",
    "parity",
    "which_method",
)
NOT_PAGES = ("examples/", "reference/api/", "reference/methods/")
"""What examples hold, and the pages that methods.py writes whole."""


def fill(text: str, blocks: dict[str, str]) -> str:
    """The page with these blocks as they should be. A block that the page lacks is an error."""
    for name, content in blocks.items():
        marked = rf"(<!-- {re.escape(name)}:[^>]*-->\n).*?(<!-- /{re.escape(name)} -->)"
        text, found = re.subn(marked, lambda m, c=content: f"{m[1]}{c}\n{m[2]}", text, flags=re.S)
        if found != 1:
            raise ValueError(f"the page has {found} blocks named {name!r} instead of one")
    return text


def pages() -> dict[str, str]:
    """Every page that has blocks and every figure, as it should be."""
    fresh: dict[str, str] = {}
    for maker in MAKERS:
        made = run_maker(maker)
        for page, blocks in made["blocks"]().items():
            fresh[page] = fill(fresh.get(page) or (DOCS / page).read_text(encoding="utf-8"), blocks)
        fresh |= made["files"]() if "files" in made else {}
    show = run_maker("examples")["fill"]
    for path in DOCS.rglob("*.md"):
        page = path.relative_to(DOCS).as_posix()
        if not page.startswith(NOT_PAGES):
            fresh[page] = show(fresh.get(page) or path.read_text(encoding="utf-8"))
    return fresh


def run_maker(name: str) -> dict[str, Any]:
    """What a file of this folder defines."""
    return runpy.run_path(str(Path(__file__).with_name(f"{name}.py")))


def write() -> None:
    """Write them."""
    for page, text in pages().items():
        (DOCS / page).parent.mkdir(exist_ok=True)
        (DOCS / page).write_text(text, encoding="utf-8")
