"""What the documentation says of methods, recipe keys, flags and JSON is what the code has."""

from __future__ import annotations

import dataclasses
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from smelt.engine.convert.pack import PackSummary
from smelt.engine.merge import Summary
from smelt.engine.plan.describe import PlanReport
from smelt.engine.sink.verify import Verification
from smelt.evaluation.row import CostRow, Row
from smelt.formats.packs.note import DeltaNote
from smelt.models.families.family import Classifier, Family
from smelt.models.families.network import Encoder, Network
from smelt.recipe.schema import Recipe
from smelt.tasks.pictures.task import PictureTask
from smelt.testing import LAWS

DOCS = Path(__file__).parents[2] / "docs"


def test_method_pages_are_current() -> None:
    fresh = runpy.run_path(str(DOCS / "generators" / "methods.py"))["pages"]()
    committed = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "reference" / "methods").glob("*.md")}
    stale = sorted(name for name in fresh.keys() | committed.keys() if fresh.get(name) != committed.get(name))
    assert not stale, f"run `python docs/generate.py`; not current: {', '.join(stale)}"


def test_every_recipe_key_is_explained() -> None:
    text = (DOCS / "reference" / "recipes.md").read_text()
    assert [key for key in Recipe.model_fields if f"| `{key}` |" not in text] == []


def test_marked_blocks_are_current() -> None:
    fresh = runpy.run_path(str(DOCS / "generators" / "pages.py"))["pages"]()
    there = {page: (DOCS / page).read_text(encoding="utf-8") for page in fresh if (DOCS / page).is_file()}
    stale = sorted(page for page, text in fresh.items() if text != there.get(page))
    assert not stale, f"run `python docs/generate.py`; not current: {', '.join(stale)}"
    drawn = {f"results/figures/{path.name}" for path in (DOCS / "results" / "figures").iterdir()}
    assert drawn <= fresh.keys(), "a figure that nothing draws any more"


def test_every_command_has_a_section_with_its_flags() -> None:
    text = (DOCS / "reference" / "commands.md").read_text()
    for name, command in runpy.run_path(str(DOCS / "generators" / "flags.py"))["commands"]():
        section = re.search(rf"^###? {name}\n(.*?)(?=^###? |\Z)", text, re.DOTALL | re.MULTILINE)
        assert section, f"commands.md has no section on {name}"
        flags = [flag for p in command.params for flag in p.opts if flag.startswith("--") and flag != "--help"]
        assert [flag for flag in flags if f"`{flag}`" not in section[1]] == [], name
        assert [p.name for p in command.params if not p.help and "--help" not in p.opts] == [], f"{name}: no help text"


@pytest.mark.parametrize("record", [Summary, PlanReport, Verification, PackSummary])
def test_every_json_key_is_explained(record: type) -> None:
    text = (DOCS / "reference" / "commands.md").read_text()
    assert [field.name for field in dataclasses.fields(record) if f"| `{field.name}` |" not in text] == []


@pytest.mark.parametrize("record", [Row, CostRow, PictureTask])
def test_every_field_of_a_row_and_key_of_a_task_is_explained(record: Any) -> None:
    text = (DOCS / "how-to" / "evaluation.md").read_text()
    assert [field for field in record.model_fields if f"| `{field}` |" not in text] == []


@pytest.mark.parametrize("protocol", [Family, Classifier, Network, Encoder])
def test_every_part_of_a_family_is_explained(protocol: type) -> None:
    text = (DOCS / "how-to" / "write-a-family.md").read_text()
    parts = [name for name in vars(protocol) if not name.startswith("_")]
    assert parts
    assert [name for name in parts if f"| `{name}` |" not in text] == []


def test_every_key_of_a_pack_is_explained() -> None:
    text = (DOCS / "how-to" / "packs.md").read_text().partition("| key of `delta.json` |")[2]
    assert [key for key in DeltaNote.model_fields if f"`{key}`" not in text] == []


def test_every_law_is_explained() -> None:
    text = (DOCS / "how-to" / "write-a-method.md").read_text()
    assert [law for law in LAWS if f"| `{law}` |" not in text] == []


def test_every_decision_is_listed() -> None:
    text = (DOCS / "adr" / "index.md").read_text()
    assert [path.name for path in (DOCS / "adr").glob("0*.md") if f"({path.name})" not in text] == []
