from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pico_clip import colour_clip, save_clip, write_task
from smelt.evaluation.row import read_rows


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save_clip(colour_clip(), tmp_path / "model")


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return write_task(tmp_path / "colours", counts={"red": 5, "green": 3, "blue": 2}, classes=["green", "red", "blue"])


def test_the_table_shows_accuracy_and_interval(cli: Any, model: Path, task: Path) -> None:
    ran = cli("eval", model, "--tasks", task, "--quiet")
    assert (ran.code, ran.out) == (0, "")
    ran = cli("eval", model, "--tasks", task)
    assert ran.code == 0
    assert "20.0" in ran.out  # two of ten
    assert "5.7 to 51.0" in ran.out
    assert "colours: 20.0 %, 10 pictures" in ran.err


def test_two_tasks_have_an_average(cli: Any, model: Path, task: Path, tmp_path: Path) -> None:
    right = write_task(tmp_path / "right")
    ran = cli("eval", model, "--tasks", f"{task},{right}")
    assert "average" in ran.out
    assert "60.0" in ran.out


def test_json_holds_the_rows_and_the_confusion(cli: Any, model: Path, task: Path, tmp_path: Path) -> None:
    ran = cli("eval", model, "--tasks", task, "--json", "--confusion", "-o", tmp_path / "rows.jsonl")
    content = json.loads(ran.out)
    assert ran.err == ""
    assert content["rows"][0]["accuracy"] == content["average"]["accuracy"] == 0.2
    assert content["confusion"]["colours"]["matrix"] == [[0, 5, 0], [3, 0, 0], [0, 0, 2]]
    assert [row.model_dump() for row in read_rows(tmp_path / "rows.jsonl")] == content["rows"]


def test_the_confusion_matrix_can_be_read(cli: Any, model: Path, task: Path) -> None:
    ran = cli("eval", model, "--tasks", task, "--confusion")
    assert "true class by row" in ran.out
    (line,) = (line for line in ran.out.splitlines() if "0 green" in line)
    assert line.split() == ["0", "green", "·", "5", "·", "0"]


def test_many_classes_list_the_commonest_mistakes(cli: Any, model: Path, tmp_path: Path) -> None:
    more = [f"thing {number}" for number in range(20)]
    task = write_task(tmp_path / "many", classes=["green", "red", "blue", *more])
    ran = cli("eval", model, "--tasks", task, "--confusion")
    assert "many: the commonest mistakes" in ran.out
    (line,) = (line for line in ran.out.splitlines() if line.split()[:2] == ["green", "red"])
    assert line.split() == ["green", "red", "10"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tasks", "eurosta"], "no task named 'eurosta' (did you mean 'eurosat'?)"),
        (["--split", "tset"], "no split named 'tset' (did you mean 'test'?)"),
        (["--dtype", "int4"], "a model computes in float32, bfloat16 or float16, got 'int4'"),
        (["--text-from", "nowhere"], "there is no model at 'nowhere'"),
    ],
)
def test_a_wrong_word_is_a_clear_error(cli: Any, model: Path, task: Path, words: list[str], message: str) -> None:
    ran = cli("eval", model, "--tasks", task, *words)
    assert ran.code == 2
    assert message in ran.err


def test_a_model_that_is_not_there_is_a_clear_error(cli: Any, task: Path) -> None:
    ran = cli("eval", "modle", "--tasks", task)
    assert (ran.code, "there is no model at 'modle'" in ran.err) == (2, True)
