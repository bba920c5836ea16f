"""Which documents of a harness's task are for training, validation and reporting; none is two of these."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pico_language import FOLLOWS, write_language_model, write_language_task
from smelt.prepare.evaluate import evaluate
from smelt.search.tune import tune
from smelt.tasks.documents import Documents, shared
from smelt.tasks.language import library_task as library
from smelt.tasks.language.library_splits import LibraryName
from smelt.tasks.registry import find_task
from smelt.tasks.task import TaskError

ANSWERS = {
    "train": [("a", "b"), ("c", "d"), ("e", "f")],
    "validation": [("a", "b"), ("e", "f")],
    "test": [("a", "b"), ("c", "d"), ("e", "f"), ("g", "g")],
}
CONFIG: dict[str, Any] = {
    "dataset_path": "json",
    "output_type": "multiple_choice",
    "doc_to_text": "{{prompt}}",
    "doc_to_choice": "{{choices}}",
    "doc_to_target": "{{label}}",
    "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    "metadata": {"version": 1.0},
}


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A library of tasks over one data set of three splits: `named` names all of them, others fewer."""
    from lm_eval.tasks import TaskManager

    folder = tmp_path / "shelf"
    folder.mkdir()
    made = {split: write_language_task(tmp_path / split, answers) for split, answers in ANSWERS.items()}
    files = {split: str(place / "test.jsonl.gz") for split, place in made.items()}
    splits = {"training_split": "train", "validation_split": "validation", "test_split": "test"}
    tasks = {"named": splits, "silent": {"test_split": "test"}, "valued": {"validation_split": "validation"}}
    for name, own in tasks.items():
        content = {"task": name, **CONFIG, "dataset_kwargs": {"data_files": files}, **own}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    (folder / "all.yaml").write_text(yaml.safe_dump({"group": "everything", "task": ["named", "silent"]}))
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    monkeypatch.setattr(library, "_manager", lambda: manager)
    for cached in (library._parts, library._configs):
        cached.cache_clear()
    yield folder
    for cached in (library._parts, library._configs):
        cached.cache_clear()


def prompts(name: str, split: str) -> list[str]:
    return [prompt for prompt, _ in library.lm_eval_task(name).pairs(split)]


def test_the_librarys_own_splits_are_train_val_and_test(shelf: Path) -> None:
    assert find_task("lm-eval:named").splits == ("train", "val", "test")
    assert [prompts("named", split) for split in ("train", "val", "test")] == [
        ["a", "c", "e"], ["a", "e"], ["a", "c", "e", "g"],
    ]  # fmt: skip


def test_a_validation_split_that_the_library_reports_on_is_the_test(shelf: Path) -> None:
    assert find_task("lm-eval:valued").splits == ("test",)
    assert prompts("valued", "test") == ["a", "e"]


def test_a_split_of_the_data_set_is_named_for_validation(shelf: Path) -> None:
    assert find_task("lm-eval:silent#validation").splits == ("val", "test")
    assert prompts("silent#validation", "val") == ["a", "e"]
    assert prompts("silent#validation", "test") == ["a", "c", "e", "g"]


def test_documents_for_validation_are_taken_out_of_the_test(shelf: Path) -> None:
    assert prompts("silent#test[:1]", "val") == ["a"]
    assert prompts("silent#test[:1]", "test") == ["c", "e", "g"]
    assert prompts("silent#test[1:3]", "val") == ["c", "e"]
    assert prompts("silent#test[1:3]", "test") == ["a", "g"]


def test_a_test_that_is_all_for_validation_has_nothing_to_report(shelf: Path) -> None:
    task = find_task("lm-eval:silent#test")
    assert task.splits == ("val",)
    with pytest.raises(TaskError, match="no split named 'test'"):
        task.check_split("test")


def test_without_a_validation_split_the_message_says_how_to_name_one(shelf: Path) -> None:
    said = r"names no validation split of it \(it has: test\).*lm-eval:silent#test\[:200\]"
    with pytest.raises(TaskError, match=said):
        find_task("lm-eval:silent").check_split("val")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("silent#", "after # comes a split of the data set"),
        ("silent#test[3:2]", "holds no document"),
        ("silent#validaton", r"no split of json named 'validaton' \(did you mean 'validation'\?\)"),
        ("silent#test[9:]", "`val` holds no document; test of json has 4"),
    ],
)
def test_what_names_no_documents_is_refused(shelf: Path, name: str, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        library.lm_eval_task(name).harness_tasks("val")


def test_names_hold_a_metric_and_documents() -> None:
    assert LibraryName.read("gsm8k@acc#test[:200]") == LibraryName("gsm8k", "acc", Documents("", None, "test", 0, 200))
    assert LibraryName.read("gsm8k") == LibraryName("gsm8k")


def test_shared_documents_are_named(shelf: Path) -> None:
    first, rest = find_task("lm-eval:silent#test[:2]"), find_task("lm-eval:silent#test[2:]")
    whole = find_task("lm-eval:everything")
    assert shared([(first, "val")], [(rest, "val")]) == []
    assert shared([(first, "val")], [(first, "test")]) == []
    assert shared([(first, "val")], [(whole, "test")]) == [
        "`val` of silent#test[:2] and `test` of everything have documents in common (json, test[:2])"
    ]


def test_settings_are_chosen_on_documents_of_a_harness_task(shelf: Path, tmp_path: Path) -> None:
    base, up = (write_language_model(tmp_path / name, FOLLOWS[name]) for name in ("base", "up"))
    recipe = {
        "pool": {"base": str(base), "models": {"up": str(up)}},
        "merge": [{"task_arithmetic": {"scale": 0.1}}],
        "tune": {"task_arithmetic.scale": [0.1, 0.5]},
        "include": ["model.layers.*"],
    }
    found = tune(recipe, tasks="lm-eval:silent#test[:2],lm-eval:named", out=tmp_path / "tuned")
    assert found.values == {"task_arithmetic.scale": 0.5}  # below a third the base's answers stay
    assert found.value == pytest.approx((2 / 2 + 1 / 2) / 2)
    assert found.tasks == ("silent#test[:2]", "named")


def test_a_limit_is_one_of_each_part_of_a_group(shelf: Path) -> None:
    group = find_task("lm-eval:everything#validation")
    assert group.number_asked("val", 1, None) == 2  # type: ignore[arg-type]
    assert group.number_asked("val", None, None) == 4  # type: ignore[arg-type]


def test_a_row_says_which_documents_it_is_about(shelf: Path, tmp_path: Path) -> None:
    up = write_language_model(tmp_path / "up", FOLLOWS["up"])
    (row,) = evaluate(str(up), "lm-eval:silent#test[:1]", split="test")
    assert (row.task, row.split, row.n, row.correct) == ("silent#test[:1]", "test", 3, 2)
