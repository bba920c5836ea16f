from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from pico_language import write_language_task
from smelt.errors import CorruptFile, RecipeError
from smelt.files.remote_code import trusting
from smelt.suites.find import find_suite
from smelt.tasks.groups import GROUPS
from smelt.tasks.language.library_task import LmEvalTask, lm_eval_task
from smelt.tasks.language.task import LanguageTask
from smelt.tasks.registry import find_task, find_tasks, picture_tasks
from smelt.tasks.task import TaskError

TWO = [("a", "b"), ("c", "d")]


def changed(folder: Path, **words: object) -> Path:
    file = folder / "harness.yaml"
    content = yaml.safe_load(file.read_text()) | words
    file.write_text(yaml.safe_dump({key: value for key, value in content.items() if value is not None}))
    return folder


def test_a_folder_says_what_is_asked(tmp_path: Path) -> None:
    task = find_task(write_language_task(tmp_path / "letters", TWO, splits=("train", "test")))
    assert isinstance(task, LanguageTask)
    assert (task.name, task.version, task.domain, task.metric, task.chat) == ("letters", 1, "letters", "acc", False)
    assert task.splits == ("train", "test")
    assert task.count("train") == 2
    assert task.licence == "CC0-1.0"
    assert task.records("test")[1]["choices"] == ["d", "c"]


def test_pairs_are_plain_text_and_of_choices_the_right_one(tmp_path: Path) -> None:
    task = LanguageTask.load(write_language_task(tmp_path / "letters", TWO, doc_to_text="Q: {{prompt}}"))
    assert task.pairs("test") == [("Q: a", "b"), ("Q: c", "d")]


def test_an_answer_that_looks_like_a_list_stays_text(tmp_path: Path) -> None:
    words = {"output_type": "generate_until", "doc_to_choice": None, "doc_to_target": "{{answer}}"}
    folder = changed(write_language_task(tmp_path / "lists", [("a", "[1, 2]")]), **words)
    assert LanguageTask.load(folder).pairs("test") == [("a", "[1, 2]")]


def test_a_split_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    task = LanguageTask.load(write_language_task(tmp_path / "letters", TWO))
    with pytest.raises(TaskError, match=r"letters: no split named 'vall' \(there is: test\)"):
        task.check_split("vall")


def test_a_missing_data_file_is_named(tmp_path: Path) -> None:
    folder = write_language_task(tmp_path / "letters", TWO)
    (folder / "test.jsonl.gz").unlink()
    task = LanguageTask.load(folder)
    assert task.count("test") is None
    with pytest.raises(TaskError, match=r"letters/test: the data file .*test\.jsonl\.gz is not there"):
        task.records("test")


def test_data_that_are_not_json_lines_are_refused_with_their_line(tmp_path: Path) -> None:
    folder = changed(
        write_language_task(tmp_path / "letters", TWO), dataset_kwargs={"data_files": {"test": "test.jsonl"}}
    )
    (folder / "test.jsonl").write_text('{"prompt": "a"}\n{"prompt": \n')
    with pytest.raises(CorruptFile, match="line 2: not readable as JSON"):
        LanguageTask.load(folder).records("test")
    (folder / "test.jsonl").write_text("")
    with pytest.raises(TaskError, match="letters/test: holds no examples"):
        LanguageTask.load(folder).records("test")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"task": None}, "`task`, its name, is missing"),
        ({"metric_list": []}, "no first metric"),
        ({"metadata": {"version": "two"}}, "which is no number"),
        ({"dataset_kwargs": {"data_files": {"dev": "dev.jsonl"}}}, "no split named 'dev'"),
        ({"dataset_kwargs": None, "dataset_path": None}, "there are no data"),
        ({"dataset_kwargs": ["a"]}, r"`dataset_kwargs` is a table, .* got \['a'\]"),
        ({"dataset_kwargs": {"data_files": ["a"]}}, "`dataset_kwargs.data_files` is a table"),
        ({"dataset_kwargs": {"data_files": {"test": [1]}}}, r"data_files.test` is a file's name .* got \[1\]"),
        ({"dataset_kwargs": {"data_files": {"test": None}}}, r"data_files.test` is a file's name .* got None"),
        ({"dataset_kwargs": {"data_files": {1: "a"}}}, "no split named '1'"),
    ],
)
def test_faults_of_the_yaml_are_named(tmp_path: Path, words: dict[str, object], message: str) -> None:
    folder = changed(write_language_task(tmp_path / "letters", TWO), **words)
    with pytest.raises(TaskError, match=message):
        LanguageTask.load(folder)


def test_text_that_is_no_yaml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "harness.yaml").write_text("task: [unclosed")
    with pytest.raises(TaskError, match="not readable as YAML"):
        LanguageTask.load(tmp_path)


def test_a_word_that_the_harness_does_not_know_is_refused_when_the_task_is_prepared(tmp_path: Path) -> None:
    folder = changed(write_language_task(tmp_path / "letters", TWO), doc_to_txt="{{prompt}}")
    with pytest.raises(TaskError, match=r"no word of a language task named 'doc_to_txt' \(did you mean 'doc_to_text'"):
        LanguageTask.load(folder).harness_tasks("test")


def test_functions_come_from_a_file_beside_or_from_a_package(tmp_path: Path) -> None:
    folder = write_language_task(tmp_path / "letters", TWO)
    file = folder / "harness.yaml"
    (folder / "checks.py").write_text("def score(doc, results):\n    return {'acc': 1.0}\n")
    text = file.read_text()
    file.write_text(text + "process_results: !function checks.score\n")
    with trusting(True):
        (task,) = LanguageTask.load(folder).harness_tasks("test").values()
        assert task.config.process_results({}, []) == {"acc": 1.0}
        file.write_text(text + "process_results: !function json.dumps\n")
        (task,) = LanguageTask.load(folder).harness_tasks("test").values()
        assert task.config.process_results({"a": 1}) == '{"a": 1}'
        file.write_text(text + "process_results: !function json.dump5\n")
        with pytest.raises(TaskError, match="json has no function 'dump5'"):
            LanguageTask.load(folder).harness_tasks("test")
        file.write_text(text + "process_results: !function nowhere.score\n")
        with pytest.raises(TaskError, match="nowhere cannot be imported"):
            LanguageTask.load(folder).harness_tasks("test")


def test_a_yaml_may_include_another_but_no_circle(tmp_path: Path) -> None:
    folder = write_language_task(tmp_path / "letters", TWO)
    (folder / "harness.yaml").rename(folder / "common.yaml")
    (folder / "harness.yaml").write_text("include: common.yaml\ntask: other\n")
    task = LanguageTask.load(folder)
    assert (task.name, task.metric) == ("other", "acc")
    (folder / "harness.yaml").write_text("include: harness.yaml\n")
    with pytest.raises(TaskError, match="in a circle"):
        LanguageTask.load(folder)


def test_groups_of_language_have_their_domains_and_the_papers_tasks() -> None:
    assert len(GROUPS["llm5"]) == 10
    assert GROUPS["llm5-val"][0] == "instruction-val"
    names = [task.name for task in find_tasks("mergebench")]
    assert names[:2] == ["ifeval", "gsm8k_cot"]
    assert {"hellaswag_fr@acc_norm", "xstest", "wmt14-fr-en@bleu"} < set(names)
    suite = find_suite("mergebench")
    assert list(GROUPS["mergebench"]) == [*suite.tests, *suite.general]
    assert list(GROUPS["mergebench-val"]) == suite.validation


def test_a_task_of_the_library_is_known_by_its_prefix_and_metric() -> None:
    task = lm_eval_task("lm-eval:arc_multilingual@acc_norm")
    assert (task.name, task.metric, task.reference) == (
        "arc_multilingual@acc_norm",
        "acc_norm",
        "lm-eval:arc_multilingual@acc_norm",
    )
    assert find_task("lm-eval:ifeval").chat  # type: ignore[union-attr]
    assert lm_eval_task("gsm8k_cot").metric == ""


@pytest.mark.slow
def test_every_task_of_the_paper_is_in_the_library() -> None:
    from lm_eval.tasks import TaskManager

    known = TaskManager().all_tasks
    names = [task.library_name.task for task in find_tasks("mergebench") if isinstance(task, LmEvalTask)]
    assert [name for name in names if name not in known] == []


def test_a_language_task_is_refused_where_pictures_are_needed(tmp_path: Path) -> None:
    folder = write_language_task(tmp_path / "letters", TWO)
    with pytest.raises(RecipeError, match="letters is a language task; here a task of pictures is needed"):
        picture_tasks(str(folder))
