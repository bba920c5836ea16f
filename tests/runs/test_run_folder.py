"""A suite's folder: never two protocols in one table, never a row lost or computed twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from smelt.errors import CorruptFile, OutputError, RecipeError
from smelt.evaluation.row import CostRow, Row, read_rows
from smelt.recipe.read import read_recipe
from smelt.recipe.schema import Recipe
from smelt.runs.run_folder import RunFolder

WORDS = {"suite": "pico@1", "limit": 200, "dtype": "float32", "models": {"cars": "aa"}, "tasks": {"cars": "1"}}


def row(**words: Any) -> Row:
    known = {
        "entry": "ties",
        "variant": "published",
        "label": "TIES",
        "task": "cars",
        "task_version": 1,
        "split": "test",
        "n": 10,
        "correct": 5,
        "accuracy": 0.5,
        "low": 0.2,
        "high": 0.8,
        "loss": 1.0,
        "model": "merged",
        "model_hash": "00",
        "recipe_hash": "aa",
        "code": "1",
        "device": "cpu",
        "dtype": "float32",
        "command": "",
        "when": "2026-01-01T00:00:00+00:00",
    }
    return Row(**{**known, **words})


COST = CostRow(
    entry="ties",
    variant="published",
    merge_seconds=1,
    evaluate_seconds=1,
    peak_bytes=1,
    threads=1,
    device="cpu",
    code="1",
    command="",
    when="2026-01-01T00:00:00+00:00",
)


@contextmanager
def opened(path: Path, words: dict[str, Any] = WORDS, **how: Any) -> Iterator[RunFolder]:
    folder = RunFolder(path, words, **how)
    try:
        yield folder
    finally:
        folder.close()


def begin(path: Path, *rows: Row | CostRow) -> Path:
    """A folder in which these rows were written; the place of its rows."""
    with opened(path) as folder:
        folder.add(rows)
        return folder.rows_file


def test_rows_are_there_when_the_folder_is_opened_again(tmp_path: Path) -> None:
    begin(tmp_path / "new" / "out", row(), COST)
    with opened(tmp_path / "new" / "out") as again:
        assert again.rows == [row(), COST]
        assert again.has(row())


@pytest.mark.parametrize(
    "other",
    [
        {"entry": "tsv"},
        {"variant": "tuned"},
        {"task": "birds"},
        {"recipe_hash": "bb"},
        {"recipe_hash": None},
        {"part": "unseen"},
        {"corruption": "motion_blur@3"},
        {"level": "merged"},
        {"setting": {"density": 0.2}},
    ],
)
def test_a_row_is_an_entry_a_variant_a_task_and_a_recipe(tmp_path: Path, other: dict[str, Any]) -> None:
    begin(tmp_path, row(), COST)
    with opened(tmp_path) as folder:
        assert not folder.has(row(**other))
        assert folder.has(row(accuracy=0.25, when="2027-01-01T00:00:00+00:00"))


def test_points_of_a_path_differ_by_their_setting(tmp_path: Path) -> None:
    begin(tmp_path, row(entry="a..b", variant="path", setting={"t": 0.5}, recipe_hash=None))
    with opened(tmp_path) as folder:
        assert folder.has(row(entry="a..b", variant="path", setting={"t": 0.5}, recipe_hash=None))
        assert not folder.has(row(entry="a..b", variant="path", setting={"t": 0.75}, recipe_hash=None))


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"limit": None}, "limit 200 instead of None"),
        ({"suite": "pico@2"}, "suite pico@1 instead of pico@2"),
        ({"dtype": "bfloat16", "limit": 9}, "dtype float32 instead of bfloat16, limit 200 instead of 9"),
    ],
)
def test_a_folder_begun_with_other_words_is_refused(tmp_path: Path, other: dict[str, Any], said: str) -> None:
    begin(tmp_path, row())
    with pytest.raises(RecipeError, match=f"was begun with {said}; choose another folder or give force=True"):
        RunFolder(tmp_path, {**WORDS, **other})
    assert read_rows(tmp_path / "rows.jsonl") == [row()]  # the refusal changed nothing


def test_a_refusal_lets_the_folder_go(tmp_path: Path) -> None:
    begin(tmp_path, row())
    with pytest.raises(RecipeError, match="was begun with"):
        RunFolder(tmp_path, {**WORDS, "limit": 5})
    with opened(tmp_path) as folder:
        assert folder.rows == [row()]


def test_force_begins_anew_and_leaves_other_files_alone(tmp_path: Path) -> None:
    begin(tmp_path, row())
    (tmp_path / "notes.txt").write_text("mine")
    with opened(tmp_path, {**WORDS, "limit": 5}, force=True) as fresh:
        assert (fresh.rows, fresh.rows_file.exists()) == ([], False)
    assert json.loads((tmp_path / "run.json").read_text())["limit"] == 5
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_two_runs_do_not_write_to_one_folder(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(RecipeError, match="another run is writing there"):
        RunFolder(tmp_path, WORDS, force=True)
    begin(tmp_path, row())


def test_rows_of_something_else_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(row(entry="other").model_dump_json() + "\n")
    with pytest.raises(RecipeError, match="holds rows of something else"):
        RunFolder(tmp_path, WORDS)


def test_force_takes_no_folder_that_no_run_began(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(row(entry="other").model_dump_json() + "\n")
    (tmp_path / "models").mkdir()
    with pytest.raises(OutputError, match=r"no run\.json that Smelt wrote.*choose another folder"):
        RunFolder(tmp_path, WORDS, force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["models", "rows.jsonl"]


def test_a_torn_last_line_is_left_out_and_the_next_row_stands_whole(tmp_path: Path) -> None:
    file = begin(tmp_path, row(), row(task="birds"))
    whole = file.read_bytes()
    file.write_bytes(whole[:-40])
    with opened(tmp_path) as torn:
        assert torn.rows == [row()]
        assert not torn.has(row(task="birds"))
        torn.add([row(task="birds")])
        assert torn.has(row(task="birds"))
    assert file.read_bytes() == whole


def test_a_damaged_line_in_the_middle_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = begin(tmp_path, row())
    file.write_bytes(b"{broken\n" + file.read_bytes())
    with pytest.raises(CorruptFile, match=r"rows\.jsonl, line 1"):
        RunFolder(tmp_path, WORDS)


def test_damaged_words_are_an_error_that_names_the_way_out(tmp_path: Path) -> None:
    begin(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(RecipeError, match=r"run\.json: not readable as JSON \(.*\); choose another folder, or remove"):
        RunFolder(tmp_path, WORDS)


def test_a_file_in_the_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(OutputError, match="the folder cannot be made"):
        RunFolder(tmp_path / "out", WORDS)


def test_a_recipe_is_written_so_that_it_reads_back_equal(tmp_path: Path) -> None:
    pool = {"base": "zoo:b", "models": {"cars": "zoo:c", "birds": "zoo:d"}}
    recipe = Recipe.parse({"pool": pool, "merge": {"ties": {"density": 0.2}}, "include": ["vision_model.*"]})
    with opened(tmp_path) as folder:
        path = folder.write_recipe("ties", recipe)
    assert read_recipe(path)[0].hash == recipe.hash
