"""The API reference has every public name, and every parameter of a public function is explained."""

from __future__ import annotations

import importlib
import inspect
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import smelt

DOCS = Path(__file__).parents[2] / "docs"
MADE: dict[str, Any] = runpy.run_path(str(DOCS / "generators" / "api.py"))
MODULES = ("smelt", "smelt.analyse", "smelt.callbacks", "smelt.methods", "smelt.select", "smelt.testing")
FUNCTIONS = [
    pytest.param(function, id=f"{module}.{name}")
    for module in MODULES
    for name in importlib.import_module(module).__all__
    if inspect.isfunction(function := getattr(importlib.import_module(module), name))
]


def test_the_pages_are_current() -> None:
    fresh = MADE["pages"]()
    committed = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "reference" / "api").iterdir()}
    stale = sorted(name for name in fresh.keys() | committed.keys() if fresh.get(name) != committed.get(name))
    assert not stale, f"run `python docs/generate.py`; not current: {', '.join(stale)}"


def test_every_public_name_is_on_a_page() -> None:
    text = "".join(path.read_text() for path in (DOCS / "reference" / "api").iterdir())
    shown = set(re.findall(r"^::: (\S+)", text, re.MULTILINE))
    modules = {name for name in smelt.__all__ if inspect.ismodule(getattr(smelt, name))}
    names = {f"smelt.{name}" for name in {*smelt.__all__} - modules - {"__version__"}}
    for module in modules - {"methods"}:  # its decorators are on the page of plug-ins
        names |= {f"smelt.{module}.{name}" for name in getattr(smelt, module).__all__}
    assert names - shown == set()
    assert {"smelt.merge", "smelt.hub.Hub", "smelt.testing.check_stage", "smelt.RecipeError"} <= names


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_parameter_is_explained(function: Any) -> None:
    """In the docstring, or in the table of those that many functions share. Of one alone the sentence itself tells."""
    given = [one for one in inspect.signature(function).parameters.values() if one.kind != one.VAR_KEYWORD]
    said = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`]+`", function.__doc__ or ""))))
    missing = [one.name for one in given if one.name not in said and one.name not in MADE["SHARED"]]
    assert len(given) == 1 or not missing
