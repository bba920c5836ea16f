"""Modules that docstrings and comments name exist, under the paths that they are named by."""

from __future__ import annotations

import ast
import re
import tokenize
from pathlib import Path

import pytest

import smelt

HOME = Path(smelt.__file__).parent
FILES = sorted(HOME.rglob("*.py"))
ROOMS = {path.stem for path in HOME.iterdir() if (path.is_dir() or path.suffix == ".py") and path.stem[0] != "_"}
DOTTED = re.compile(r"\bsmelt((?:\.[a-z_]\w*)+)")
IN_CODE = re.compile(r"`([a-z_]\w*(?:\.[a-z_]\w*)+)`")
PATHS = re.compile(r"(?<![\w.*{$<-])((?:[\w-]+/)*[\w-]+\.(?:py|c|h))\b(?!\()")
ENDINGS = {"id", "json", "yaml"}
GROUPS = {name for path in FILES for name in re.findall(r"\"smelt\.(\w+)\"", path.read_text())}
"""Names of entry points, `smelt.families`, which are written like modules."""
FOREIGN = {"setup.py", "conftest.py", "program.py", "convert_hf_to_gguf.py"}
"""Names of files that are not Smelt's: of a user's folder, of a model's, of what a sandbox runs."""


def told(path: Path) -> list[str]:
    """The docstrings of a module, its classes, functions and attributes, and its comments."""
    source = path.read_text()
    texts = [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and ("\n" in node.value or " " in node.value)
    ]
    with path.open("rb") as stream:
        texts += [token.string for token in tokenize.tokenize(stream.readline) if token.type == tokenize.COMMENT]
    return texts


def is_there(parts: list[str]) -> bool:
    """Whether smelt.a.b.c is a module, or something that a module defines."""
    place = HOME
    for number, part in enumerate(parts):
        if (place / part).is_dir():
            place = place / part
        else:
            module = place / f"{part}.py"
            rest = parts[number + 1 :] if module.is_file() else parts[number:]
            source = module if module.is_file() else place / "__init__.py"
            return not rest or re.search(rf"\b{re.escape(rest[0])}\b", source.read_text()) is not None
    return True


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(HOME).as_posix())
def test_modules_named_in_the_source_exist(path: Path) -> None:
    missing = set()
    for text in told(path):
        for found in DOTTED.findall(text):
            if found[1:] not in GROUPS and not is_there(found[1:].split(".")):
                missing.add(f"smelt{found}")
        for found in IN_CODE.findall(text):
            room, *rest = found.split(".")
            if room in ROOMS and rest[-1] not in ENDINGS and not is_there([room, *rest]):
                missing.add(found)
        for found in PATHS.findall(text):
            short = found.removeprefix("src/").removeprefix("smelt/")
            places = [path.parent / short, HOME / short, HOME.parents[1] / found, *HOME.rglob(short)]
            if found not in FOREIGN and not any(place.is_file() for place in places):
                missing.add(found)
    assert not missing


PAGES = [
    page
    for page in [*(HOME.parents[1] / "docs").rglob("*.md"), *HOME.parents[1].glob("*.md")]
    if page.name not in ("log.md", "CHANGELOG.md") and not page.name.startswith(("0001", "0017", "0020", "0022"))
]
IN_PAGES = re.compile(
    r"`((?:src/smelt/|smelt/|tests/)?(?:[\w-]+/)+[\w-]+\.(?:py|c|h|yaml)|(?:src/smelt|tests)/[\w/-]+)`"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_in_the_documents_exist(page: Path) -> None:
    missing = set()
    for found in IN_PAGES.findall(page.read_text()):
        places = [HOME.parents[1] / found, HOME / found, HOME.parent / found, page.parent / found]
        places += [HOME.parents[1] / room / found for room in ("docs", "docs/examples", "zoo", "zoo/build")]
        if not any(place.exists() for place in places):
            missing.add(found)
    assert not missing
