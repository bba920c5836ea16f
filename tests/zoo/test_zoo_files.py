"""The distribution holds exactly the files of its lock, and stays small enough to be cloned."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

import smelt_zoo
from smelt.evaluate.row import Row, read_rows

HOME = Path(smelt_zoo.__file__).parent
LOCK = json.loads((HOME / "lock.json").read_text())
ROWS = Path(__file__).parents[2] / "results" / "clip8" / "rows.jsonl"
TASKS = "photos digits clothing sketches emoji flags letters icons".split()


def test_nothing_is_missing_and_nothing_is_there_that_the_lock_does_not_name() -> None:
    files = {
        p.relative_to(HOME).as_posix() for part in ("models", "tasks") for p in (HOME / part).rglob("*") if p.is_file()
    }
    assert files == LOCK.keys()


@pytest.mark.parametrize("name", sorted({str(Path(name).parent) for name in LOCK}))
def test_every_file_of_a_folder_has_the_hash_of_the_lock(name: str) -> None:
    for file, digest in LOCK.items():
        if str(Path(file).parent) == name:
            assert hashlib.sha256((HOME / file).read_bytes()).hexdigest() == digest, file


def test_files_stay_below_16_mb_and_the_whole_below_80() -> None:
    sizes = {name: (HOME / name).stat().st_size for name in LOCK}
    assert max(sizes.values()) < 16e6
    assert sum(sizes.values()) < 80e6


def test_the_models_are_a_base_and_an_expert_for_each_task() -> None:
    assert set(smelt_zoo.tasks()) == set(TASKS)
    assert set(smelt_zoo.models()) == {"clip-tiny", *(f"clip-tiny-{task}" for task in TASKS)}


@pytest.mark.parametrize("name", [*smelt_zoo.models(), *smelt_zoo.tasks()])
def test_every_folder_has_a_card_with_its_licence(name: str) -> None:
    folder = {**smelt_zoo.models(), **smelt_zoo.tasks()}[name]
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "licence" in card
    assert "\n|---|" in card  # accuracies, or the size of the splits


@pytest.mark.parametrize("name", smelt_zoo.models())
def test_the_accuracies_of_a_card_are_those_of_the_suites_rows(name: str) -> None:
    """Up to the last digit: the rows may come from another device, where a picture in a thousand tips over."""
    entry = f"expert-{name.removeprefix('clip-tiny-')}" if name != "clip-tiny" else "pretrained"
    rows = [row for row in read_rows(ROWS) if isinstance(row, Row) and (row.entry, row.variant) == (entry, "reference")]
    card = (smelt_zoo.models()[name] / "README.md").read_text(encoding="utf-8")
    table = {task: float(value) for task, value in re.findall(r"^\| (\w+) \| ([\d.]+) \|", card, re.MULTILINE)}
    assert table == pytest.approx({row.task: 100 * row.accuracy for row in rows}, abs=0.16)
    assert list(table) == TASKS


def test_the_notice_names_every_package_that_went_in() -> None:
    root = HOME.parents[1]
    sources = json.loads((root / "build" / "sources.json").read_text())
    notice = (root / "NOTICE").read_text(encoding="utf-8")
    assert [name for name, entry in sources.items() if f"- {name} {entry['version']} " not in notice] == []
