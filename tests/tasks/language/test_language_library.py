from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pico_language import FOLLOWS, write_language_model, write_language_task
from smelt.evaluation.evaluate import evaluate_model
from smelt.prepare.evaluate import evaluate
from smelt.tasks.language import library_task as library
from smelt.tasks.task import TaskError

TASK = {
    "dataset_path": "json",
    "output_type": "multiple_choice",
    "doc_to_text": "{{prompt}}",
    "doc_to_choice": "{{choices}}",
    "doc_to_target": "{{label}}",
    "test_split": "test",
    "metric_list": [{"metric": name, "aggregation": "mean", "higher_is_better": True} for name in ("acc", "acc_norm")],
    "metadata": {"version": 2.0},
}


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A library of three tasks: two parts of a group with data, and one whose data set is not there."""
    from lm_eval.tasks import TaskManager

    folder = tmp_path / "shelf"
    folder.mkdir()
    for name, answers in {"one": [("a", "b"), ("c", "d")], "two": [("e", "f"), ("a", "b")]}.items():
        data = write_language_task(tmp_path / name, answers)
        files = {"data_files": {"test": str(data / "test.jsonl.gz")}}
        content = {"task": f"shelf_{name}", "dataset_kwargs": files, **TASK}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    (folder / "gone.yaml").write_text(
        yaml.safe_dump({"task": "shelf_gone", **TASK, "dataset_path": "nobody/has-this-data-set"})
    )
    (folder / "both.yaml").write_text(yaml.safe_dump({"group": "shelf_both", "task": ["shelf_one", "shelf_two"]}))
    for place in ("huggingface_hub.constants", "datasets.config"):
        monkeypatch.setattr(f"{place}.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    monkeypatch.setattr(library, "_manager", lambda: manager)
    library._parts.cache_clear()
    yield folder
    library._parts.cache_clear()


@pytest.fixture
def up(tmp_path: Path) -> Path:
    return write_language_model(tmp_path / "up", FOLLOWS["up"])


def test_a_task_of_the_library_is_asked_by_its_name_and_metric(shelf: Path, up: Path) -> None:
    (row,) = evaluate(str(up), "lm-eval:shelf_one")
    assert (row.task, row.task_version, row.metric, row.n, row.accuracy) == ("shelf_one", 2, "acc", 2, 1.0)
    assert "--tasks lm-eval:shelf_one" in row.command
    (row,) = evaluate(str(up), "lm-eval:shelf_one@acc_norm")
    assert row.metric == "acc_norm"


def test_a_group_is_the_mean_over_all_its_examples(shelf: Path, up: Path) -> None:
    (row,) = evaluate(str(up), "lm-eval:shelf_both")
    assert (row.n, row.correct) == (4, 3)


def test_pairs_are_those_of_one_task_and_not_of_a_group(shelf: Path) -> None:
    assert library.lm_eval_task("shelf_one").pairs("test") == [("a", "b"), ("c", "d")]
    assert library.lm_eval_task("shelf_one").delimiter == " "
    with pytest.raises(TaskError, match="shelf_both is a group of 2 tasks; take one of them, such as shelf_one"):
        library.lm_eval_task("shelf_both").pairs("test")


def test_the_word_that_allows_code_is_there_only_while_a_task_is_loaded(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = "HF_ALLOW_CODE_EVAL"
    for before in (None, "0"):
        monkeypatch.delenv(word, raising=False) if before is None else monkeypatch.setenv(word, before)
        library._parts.cache_clear()
        library.lm_eval_task("shelf_one").pairs("test")
        assert os.environ.get(word) == before


def test_data_that_cannot_be_loaded_are_named_and_the_others_are_asked(shelf: Path, up: Path) -> None:
    done = evaluate_model(str(up), "lm-eval:shelf_gone,lm-eval:shelf_one,lm-eval:shelf_onne")
    assert [row.task for row in done.rows] == ["shelf_one"]
    gone, unknown = done.failures
    assert "lm-eval:shelf_gone: its data set (nobody/has-this-data-set) is not in the local cache" in str(gone.error)
    assert "no task of the lm-evaluation-harness named 'shelf_onne' (did you mean 'shelf_one'?)" in str(unknown.error)


def test_a_metric_that_a_task_does_not_have_is_refused(shelf: Path, up: Path) -> None:
    with pytest.raises(TaskError, match="its scoring gives no 'bleu', which is its score; it gives: acc, acc_norm"):
        evaluate(str(up), "lm-eval:shelf_one@bleu")


@pytest.mark.parametrize("name", ["crux", "mbpp_own"])
def test_a_task_that_would_run_programs_outside_the_sandbox_is_refused(shelf: Path, name: str) -> None:
    content = yaml.safe_load((shelf / "one.yaml").read_text()) | {"task": name, "unsafe_code": True}
    own = "process_results: !function own.judge\n" if name == "mbpp_own" else ""
    (shelf / "own.py").write_text("def judge(doc, results): return {'acc': 1.0}\n")
    (shelf / "unsafe.yaml").write_text(yaml.safe_dump(content) + own)
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(shelf), include_defaults=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "_manager", lambda: manager)
        with pytest.raises(
            TaskError, match=f"lm-eval:{name}: runs what a model wrote by functions of its own, outside"
        ):
            library.lm_eval_task(name).pairs("test")


def test_programs_run_in_the_sandbox_and_pass_or_not() -> None:
    programs: list[Any] = [["def f(x): return x + 1"], ["def f(x): return x"], ["def f(x):\n while True: pass"]]
    tests = ["assert f(1) == 2"] * 2 + ["import sys; sys.exit(0)\nassert f(1) == 2"]
    assert library.passes_in_sandbox(tests, programs) == pytest.approx(1 / 3)
