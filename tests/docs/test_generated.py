"""What the documentation says of methods, recipe keys, flags and JSON is what the code has."""

from __future__ import annotations

import dataclasses
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from smelt.cli.app import app
from smelt.engine.describe import PlanReport
from smelt.engine.manifest import Verification
from smelt.engine.run import Summary
from smelt.recipe.schema import Recipe
from smelt.testing import LAWS

DOCS = Path(__file__).parents[2] / "docs"


def test_method_pages_are_current() -> None:
    fresh = runpy.run_path(str(DOCS / "generate.py"))["pages"]()
    committed = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "methods").glob("*.md")}
    stale = sorted(name for name in fresh.keys() | committed.keys() if fresh.get(name) != committed.get(name))
    assert not stale, f"run `python docs/generate.py`; not current: {', '.join(stale)}"


def test_every_recipe_key_is_explained() -> None:
    text = (DOCS / "recipes.md").read_text()
    assert [key for key in Recipe.model_fields if f"| `{key}` |" not in text] == []


def test_every_flag_is_explained() -> None:
    import typer

    text = (DOCS / "commands.md").read_text()
    commands: Any = typer.main.get_command(app)
    for name, command in commands.commands.items():
        section = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
        assert section, f"commands.md has no section on {name}"
        flags = [flag for p in command.params for flag in p.opts if flag.startswith("--") and flag != "--help"]
        assert [flag for flag in flags if f"`{flag}" not in section[1]] == [], name


@pytest.mark.parametrize("record", [Summary, PlanReport, Verification])
def test_every_json_key_is_explained(record: type) -> None:
    text = (DOCS / "commands.md").read_text()
    assert [field.name for field in dataclasses.fields(record) if f"| `{field.name}` |" not in text] == []


def test_every_law_is_explained() -> None:
    text = (DOCS / "write-a-method.md").read_text()
    assert [law for law in LAWS if f"| `{law}` |" not in text] == []


def test_every_decision_is_listed() -> None:
    text = (DOCS / "adr" / "index.md").read_text()
    assert [path.name for path in (DOCS / "adr").glob("0*.md") if f"({path.name})" not in text] == []
