"""Stored results: found by what they are, never believed when damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from smelt.errors import OutputError
from smelt.jobs.job import Job
from smelt.jobs.store import ResultStore

JOB = Job("a.b:c", {"x": 1})


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    store = ResultStore(tmp_path / "deep" / "store")
    store.write(JOB, {"rows": [1, 2.5, None, "ä"]}, 3.0)
    return store


def test_a_result_lies_under_its_key_and_comes_back_equal(store: ResultStore) -> None:
    assert store.path(JOB) == store.folder / JOB.key[:2] / f"{JOB.key}.json"
    assert store.read(JOB) == ({"rows": [1, 2.5, None, "ä"]}, 3.0)
    assert store.read(Job("a.b:c", {"x": 2})) is None


def test_the_file_tells_what_was_called_with_what(store: ResultStore) -> None:
    content = json.loads(store.path(JOB).read_text())
    assert (content["call"], content["arguments"]) == ("a.b:c", {"x": 1})


def torn(text: str) -> str:
    return text[:-20]


def edited(text: str) -> str:
    return text.replace("2.5", "2.6")


def of_another_job(text: str) -> str:
    return text.replace(JOB.key, "0" * 64)


@pytest.mark.parametrize("damage", [torn, edited, of_another_job, lambda text: "", lambda text: "[]"])
def test_a_damaged_file_counts_as_missing_and_is_replaced(store: ResultStore, damage: Any) -> None:
    path = store.path(JOB)
    path.write_text(damage(path.read_text()))
    assert store.read(JOB) is None
    store.write(JOB, "new", 1.0)
    assert store.read(JOB) == ("new", 1.0)


def test_nothing_but_whole_files_is_left(store: ResultStore) -> None:
    assert [path.name for path in store.folder.rglob("*") if path.is_file()] == [f"{JOB.key}.json"]


def test_a_folder_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="the folder for results cannot be made"):
        ResultStore(tmp_path / "file" / "store")
