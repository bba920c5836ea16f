from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import smelt
import smelt.evaluation
from pico_clip import colour_clip, random_clip, save_clip, write_task
from smelt.errors import RecipeError
from smelt.evaluation.evaluate import evaluate_model
from smelt.evaluation.row import read_rows
from smelt.prepare.evaluate import evaluate


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save_clip(colour_clip(), tmp_path / "colour-model")


def test_the_room_is_the_call(tmp_path: Path, model: Path) -> None:
    task = write_task(tmp_path / "colours")
    (row,) = smelt.evaluate(model, task)
    assert (row.accuracy, row.entry, row.variant, row.task, row.n) == (1.0, "colour-model", "single", "colours", 30)
    assert (row.low, row.high) == (pytest.approx(0.886, abs=1e-3), 1.0)


def test_rows_are_appended_to_a_file(tmp_path: Path, model: Path) -> None:
    task, out = write_task(tmp_path / "colours"), tmp_path / "rows.jsonl"
    rows = evaluate(model, task, out=out) + evaluate(model, task, split="val", limit=6, out=out)
    assert read_rows(out) == rows
    assert [(row.split, row.n) for row in rows] == [("test", 30), ("val", 6)]


def test_a_row_says_how_to_make_it_again(tmp_path: Path, model: Path, cli: Any) -> None:
    task = write_task(tmp_path / "a task", name="colours")
    (row,) = evaluate(model, task, split="val", limit=12, dtype="bfloat16")
    words = shlex.split(row.command)
    assert words[:3] == ["smelt", "eval", str(model)]
    assert dict(zip(words[3::2], words[4::2], strict=True)) == {
        "--tasks": str(task),
        "--split": "val",
        "--limit": "12",
        "--dtype": "bfloat16",
    }
    (again,) = json.loads(cli(*words[1:], "--json").out)["rows"]
    assert {**again, "when": ""} == {**row.model_dump(), "when": ""}


def test_the_hash_is_the_models_and_not_the_files(tmp_path: Path) -> None:
    task, model = write_task(tmp_path / "colours"), random_clip()
    saved = evaluate(save_clip(model, tmp_path / "a"), task)[0]
    model.save_pretrained(tmp_path / "b", max_shard_size="2KB")
    in_shards = evaluate(tmp_path / "b", task, text_from=tmp_path / "a")[0]
    in_memory = evaluate(model, task, text_from=tmp_path / "a")[0]
    other = evaluate(save_clip(random_clip(1), tmp_path / "c"), task)[0]
    assert saved.model_hash == in_shards.model_hash == in_memory.model_hash != other.model_hash


def test_a_merged_model_carries_its_recipe_into_the_row(tmp_path: Path) -> None:
    for seed in range(3):
        save_clip(random_clip(seed), tmp_path / str(seed))
    models = {"one": str(tmp_path / "1"), "two": str(tmp_path / "2")}
    smelt.merge(models, base=str(tmp_path / "0"), method="task_arithmetic", scale=0.3, out=tmp_path / "merged")
    (row,) = evaluate(tmp_path / "merged", write_task(tmp_path / "colours"))
    assert row.recipe is not None
    assert row.recipe["merge"] == [{"task_arithmetic": {"scale": 0.3}}]
    assert row.recipe_hash


def test_other_words_go_into_the_row(tmp_path: Path, model: Path) -> None:
    (row,) = evaluate(model, write_task(tmp_path / "colours"), suite="clip8", label="Colours", seed=3)
    assert (row.suite, row.label, row.seed) == ("clip8", "Colours", 3)


def test_a_misspelt_word_is_refused(tmp_path: Path, model: Path) -> None:
    with pytest.raises(RecipeError, match=r"'limt' \(did you mean 'limit'\?\)"):
        evaluate(model, write_task(tmp_path / "colours"), limt=3)


def test_an_evaluation_averages_over_tasks_not_pictures(tmp_path: Path, model: Path) -> None:
    right = write_task(tmp_path / "right")
    wrong = write_task(tmp_path / "wrong", counts={"red": 1, "green": 1, "blue": 0}, classes=["green", "red", "blue"])
    done = evaluate_model(model, [right, wrong])
    (average,) = done.averages
    assert average.accuracy == 0.5
    assert average.loss == pytest.approx((done.rows[0].loss + done.rows[1].loss) / 2)
