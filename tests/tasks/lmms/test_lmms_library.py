"""With the real lmms-eval, where it is installed: a library of small tasks with data in files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from smelt.evaluation.evaluate import TasksFailed, evaluate_model
from smelt.prepare.evaluate import evaluate
from smelt.tasks.task import TaskError
from smelt.testing.pico_llava import save_llava

pytest.importorskip("lmms_eval", reason="lmms-eval is not installed (see docs/how-to/multimodal.md)")

FUNCTIONS = """
from PIL import Image

def see(doc):
    return [Image.open(one) for one in doc["files"]]

def ask(doc, lmms_eval_specific_kwargs=None):
    return doc["question"] + (lmms_eval_specific_kwargs or {}).get("post_prompt", "")

def judge(doc, results):
    right = float(results[0] == doc["answer"])
    return {"exact_match": right, "pope_accuracy": {"score": right}, "strange": {"score": right}}

def choices(doc):
    return ["yes", "no"]

def count(results):
    return sum(one["score"] for one in results) / len(results)
"""

TASK: dict[str, Any] = {
    "dataset_path": "json",
    "test_split": "test",
    "output_type": "generate_until",
    "doc_to_visual": "!function words.see",
    "doc_to_text": "!function words.ask",
    "doc_to_target": "answer",
    "process_results": "!function words.judge",
    "generation_kwargs": {"max_new_tokens": 4},
    "lmms_eval_specific_kwargs": {"default": {"post_prompt": " One word."}},
    "metric_list": [
        {"metric": "exact_match", "aggregation": "mean", "higher_is_better": True},
        {"metric": "pope_accuracy", "aggregation": "!function words.count", "higher_is_better": True},
        {"metric": "strange", "aggregation": "!function words.count", "higher_is_better": True},
    ],
    "metadata": [{"version": 2.0}],
}


def write_task(folder: Path, name: str, **other: Any) -> None:
    text = yaml.safe_dump({"task": name, **TASK, **other})
    text = text.replace("'!function", "!function").replace("choices'", "choices")
    (folder / f"{name}.yaml").write_text(
        "\n".join(line.rstrip("'") if "!function" in line else line for line in text.split("\n"))
    )


def test_pictures_that_are_cut_off_are_refused_after_it_was_loaded_too() -> None:
    script = """
from PIL import ImageFile
from smelt.tasks.lmms.harness import lmms
lmms()
print(ImageFile.LOAD_TRUNCATED_IMAGES)
"""
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.split()[-1] == "False"


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A library: four questions with one or two pictures, their likelihoods, and a task whose data are not there."""
    from smelt.tasks.lmms import harness as library

    library.lmms()  # as Smelt loads it
    from lmms_eval.api.task import ConfigurableTask
    from lmms_eval.tasks import TaskManager
    from tenacity import stop_after_attempt

    folder = tmp_path / "shelf"
    folder.mkdir()
    (folder / "words.py").write_text(FUNCTIONS)
    for number in range(4):
        pixels = np.random.default_rng(number).integers(0, 256, (9, 9, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    records = [
        {"files": [str(tmp_path / f"{number}.png")] * (1 + number % 2), "question": "What?", "answer": "nothing"}
        for number in range(4)
    ]
    data = tmp_path / "test.jsonl"
    data.write_text("\n".join(map(json.dumps, records)))
    files = {"dataset_kwargs": {"data_files": {"test": str(data)}}}
    write_task(folder, "shelf_words", **files)
    choice = {"output_type": "multiple_choice", "doc_to_choice": "!function words.choices", "doc_to_target": "no"}
    write_task(folder, "shelf_choice", **files, **choice, process_results=None, metric_list=[{"metric": "acc"}])
    write_task(folder, "shelf_gone", dataset_path="nobody/has-this-data-set")
    for place in ("huggingface_hub.constants", "datasets.config"):
        monkeypatch.setattr(f"{place}.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(ConfigurableTask.download.retry, "stop", stop_after_attempt(1))
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    monkeypatch.setattr(library, "_manager", lambda: manager)
    library.parts.cache_clear()
    yield data
    library.parts.cache_clear()


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(save_llava(tmp_path / "llava"))


def answers_of(model: str, tasks: str) -> list[str]:
    (result,) = evaluate_model(model, tasks).results
    return [sample["answers"][0] for sample in result.samples]  # type: ignore[union-attr]


def test_a_task_of_the_library_gives_a_row_with_an_interval(shelf: Path, model: str) -> None:
    answers = answers_of(model, "lmms:shelf_words")
    records = [json.loads(line) for line in shelf.read_text().splitlines()]
    records[0]["answer"], records[2]["answer"] = answers[0], answers[2]  # two of four are right now
    shelf.write_text("\n".join(map(json.dumps, records)))
    from smelt.tasks.lmms import harness as library

    library.parts.cache_clear()
    (row,) = evaluate(model, "lmms:shelf_words")
    assert (row.task, row.task_version, row.metric, row.n, row.accuracy) == ("shelf_words", 2, "exact_match", 4, 0.5)
    assert 0.1 < row.low < 0.5 < row.high < 0.9
    assert "--tasks lmms:shelf_words" in row.command
    (counted,) = evaluate(model, "lmms:shelf_words@pope_accuracy", limit=2)
    assert (counted.metric, counted.n, counted.accuracy) == ("pope_accuracy", 2, 0.5)


def test_the_library_s_own_prompt_goes_into_the_chat_template(shelf: Path, model: str) -> None:
    (result,) = evaluate_model(model, "lmms:shelf_words", limit=1).results
    assert result.samples[0]["prompt"] == "What? One word."  # type: ignore[union-attr]


def test_choices_are_told_apart_by_their_likelihood(shelf: Path, model: str) -> None:
    (row,) = evaluate(model, "lmms:shelf_choice")
    assert (row.metric, row.n) == ("acc", 4)


def test_a_metric_that_is_no_mean_over_examples_is_refused(shelf: Path, model: str) -> None:
    with pytest.raises(TaskError, match=r"strange is no number for every example .*exact_match"):
        evaluate(model, "lmms:shelf_words@strange")


def test_a_metric_that_the_task_does_not_have_is_named_with_those_it_has(shelf: Path, model: str) -> None:
    with pytest.raises(TaskError, match="gives no 'f1', which is its score; it gives: exact_match, pope_accuracy"):
        evaluate(model, "lmms:shelf_words@f1")


def test_data_that_are_not_there_are_named_and_cost_that_task_only(shelf: Path, model: str) -> None:
    with pytest.raises(
        TaskError, match=r"lmms:shelf_gone: its data set \(nobody/has-this-data-set\) is not in the local cache"
    ):
        evaluate(model, "lmms:shelf_gone")
    with pytest.raises(TasksFailed, match="1 of 2 tasks could not be asked") as caught:
        evaluate(model, "lmms:shelf_words,lmms:shelf_gone")
    assert [row.task for row in caught.value.rows] == ["shelf_words"]


def test_an_unknown_name_is_answered_with_a_near_one(shelf: Path, model: str) -> None:
    with pytest.raises(TaskError, match=r"no task of lmms-eval named 'shelf_wrods' .did you mean 'shelf_words'"):
        evaluate(model, "lmms:shelf_wrods")


OPTIONS: dict[str, Any] = {"choices": ["cat", "dog"], "hint": "", "answer": 1}
VQA: dict[str, Any] = {"question_id": "1", "answers": ["dog"] * 10, "answer": "dog"}
COLUMNS: dict[str, dict[str, Any]] = {
    "ok_vqa_val2014": VQA,
    "textvqa_val": {**VQA, "ocr_tokens": []},
    "gqa": {"id": "1", "imageId": "1", "answer": "dog"},
    "mmmu_val": {
        "id": "validation_Art_1",
        "question_type": "multiple-choice",
        "options": "['cat', 'dog']",
        "answer": "B",
        **{f"image_{number}": None for number in range(2, 8)},
    },
    "vizwiz_vqa_val": {**VQA, "category": "other"},
    "vqav2_val": {**VQA, "answers": [{"answer": "dog"}] * 10, "question_type": "what", "answer_type": "other"},
    "pope": {"question_id": "1", "answer": "yes", "category": "random"},
    "ai2d": {"options": ["cat", "dog"], "answer": "1"},
    "scienceqa_img": OPTIONS,
    "seedbench": {
        **{f"choice_{letter}": word for letter, word in zip("abcd", ("cat", "dog", "cow", "hen"), strict=True)},
        "answer": "B",
        "data_type": "image",
        "question_id": "1",
    },
    "mmbench_en_dev_static": {
        "index": 1,
        "hint": "nan",
        "A": "cat",
        "B": "dog",
        "C": "nan",
        "D": "nan",
        "answer": "B",
        "source": "s",
        "split": "dev",
        "category": "c",
        "L2-category": "l",
    },
}
"""What a record of each set has besides a picture and a question."""


@pytest.mark.slow
def test_every_set_of_the_paper_can_be_asked_by_its_own_prompts_and_scoring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    from smelt.tasks.groups import GROUPS
    from smelt.tasks.lmms import harness as library

    names = (*GROUPS["uqmerge"], *GROUPS["uqmerge-in"])
    plain = [name.removeprefix("lmms:").partition("@")[0] for name in names]
    assert set(plain) == set(COLUMNS)
    library.parts.cache_clear()
    with library.quiet_lmms():
        configs = {name: library._manager()._get_config(name) for name in plain}
    by_place = {configs[name]["dataset_path"]: (name, configs[name]["test_split"]) for name in plain}

    def load(path: str, *_: Any, split: str | None = None, **__: Any) -> Any:
        name, own = by_place[path]
        picture = Image.fromarray(np.full((9, 9, 3), 80, dtype=np.uint8))
        field = {"mmmu_val": "image_1"}.get(name, "image")
        record = {"question": "What is it?", field: [picture] if name == "seedbench" else picture, **COLUMNS[name]}
        made = datasets.DatasetDict({own: datasets.Dataset.from_list([record, record])})
        return made[split] if split else made

    monkeypatch.setattr(datasets, "load_dataset", load)
    monkeypatch.setattr("lmms_eval.tasks.gqa.utils.load_dataset", load, raising=False)
    rows = evaluate(str(save_llava(tmp_path / "llava", max_position_embeddings=2048)), ",".join(names))
    library.parts.cache_clear()
    assert [row.task for row in rows] == [name.removeprefix("lmms:") for name in names]
    assert all(row.n == 2 and 0 <= row.low <= row.accuracy <= row.high <= 1 for row in rows)
