"""MergeBench's own setting by its own command, against a hub with its public names and small models and data."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from smelt.errors import RecipeError
from smelt.evaluation.row import Row, read_rows
from smelt.models.download import download
from smelt.prepare.evaluate import evaluate
from smelt.reporting.published import PublishedTable
from smelt.suites.find import find_suite, kind_of, suites
from smelt.suites.language.plan import LanguagePlan
from smelt.suites.language.suite import LanguageSuite
from smelt.suites.plan import BenchOptions
from smelt.suites.published import published_tables
from smelt.tasks.language import library_task as library
from smelt.tasks.language.library_splits import LibraryName
from smelt.tasks.registry import find_task
from stand_in_hub import StandInHub
from stand_in_hub.published.mergebench import BASES, add_mergebench
from stand_in_hub.server import TOKEN

pytest.importorskip("lm_eval")


FOLDERS = (
    "ifeval gsm8k hendrycks_math okapi humaneval mbpp lambada mmlu/default triviaqa coqa pubmedqa squadv2 translation"
)
FAST = ("--preset", "fast", "--executor", "inline", "--threads", "1")


@functools.cache
def some_of_the_library() -> Any:
    """The harness's index of the folders that are needed here: that of all its 14,000 files takes many seconds."""
    import lm_eval.tasks

    home = Path(lm_eval.tasks.__file__).parent
    return lm_eval.tasks.TaskManager(include_path=[home / name for name in FOLDERS.split()], include_defaults=False)


@pytest.fixture
def hub(stand_in: StandInHub, monkeypatch: pytest.MonkeyPatch) -> StandInHub:
    """The hub with MergeBench's content, and a login for what is gated."""
    if stand_in.contents.find("models", "MergeBench/Llama-3.1-8B_math") is None:
        add_mergebench(stand_in.contents)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(library, "_manager", some_of_the_library)
    monkeypatch.setattr("nltk.download", lambda *_, **__: False)  # its own server; no prompt here needs its data
    return stand_in


def fetch_models(base: str) -> None:
    """Have the small models on this machine, where they are known as they are: by their names they are large ones."""
    for ref in find_suite("mergebench", base).pool.refs.values():
        download(ref.removeprefix("hf:"))


def rows_of(folder: Path) -> list[Row]:
    return [row for row in read_rows(folder / "rows.jsonl") if isinstance(row, Row)]


def test_the_command_of_the_paper_gives_its_table_beside_ours(
    hub: StandInHub, cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fetch_models("Llama-3.1-8B")
    methods = "average,task_arithmetic,regmean"
    done = cli("bench", "mergebench", "--base", "Llama-3.1-8B", "--methods", methods, *FAST)
    assert done.code == 0, done.err
    folder = tmp_path / "mergebench-Llama-3.1-8B"
    rows = rows_of(folder)
    scores = {(row.entry, row.task): row.accuracy for row in rows if row.variant != "curve"}
    assert scores["task_arithmetic", "gsm8k_cot"] == 1.0  # 0.6 of a change that is twice as strong as the base
    assert scores["average", "gsm8k_cot"] == 0.0  # a fifth of it is not
    assert scores["pretrained", "squadv2"] == 0.5  # of two questions the one that has an answer
    assert scores["pretrained", "wmt14-fr-en@bleu"] == pytest.approx(1.0)
    assert scores["expert-coding", "humaneval_plus"] == 1.0
    assert {row.metric for row in rows if row.task == "xstest"} == {"right_refusal_by_rule"}
    tried = {(row.task, row.split) for row in rows if row.variant == "curve"}
    assert tried == {(name, "val") for name in ("ifeval_like", "lambada_openai@acc#test", "conala", "wildjailbreak")}
    budgets = {row.data_budget.split for row in rows if row.entry == "regmean"}
    assert budgets == {"train"}
    page = (folder / "report.html").read_text()
    assert "Table 16" in page
    assert "48.7" in page  # the printed average of task arithmetic
    assert "refusal by rule" in page


def test_settings_are_chosen_on_a_harness_task_that_names_its_validation_split(
    hub: StandInHub, cli: Callable[..., Any], tmp_path: Path
) -> None:
    recipe = {
        "pool": {"base": "hf:google/gemma-2-2b", "models": {"maths": "hf:MergeBench/gemma-2-2b_math"}},
        "merge": [{"task_arithmetic": {"scale": 0.3}}],
        "tune": {"task_arithmetic.scale": [0.3, 0.6]},
        "include": ["model.layers.*"],
    }
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe))
    refused = cli("tune", path, "--tasks", "lm-eval:mmlu_stem", "--out", tmp_path / "tuned")
    assert refused.code == 2
    assert "lm-eval:mmlu_stem: the library names no validation split of it (it has: test)" in refused.err
    words = ["--tasks", "lm-eval:mmlu_anatomy#validation", "--out", tmp_path / "tuned"]
    done = cli("tune", path, *words)
    assert done.code == 0, done.err
    (budget,) = {json.dumps(row.data_budget.model_dump()) for row in rows_of(tmp_path / "tuned")}
    assert json.loads(budget) == {"split": "val", "images": 1, "labels": 1}


def test_the_papers_own_choice_of_mmlu_is_refused_as_it_is_reported_too(hub: StandInHub) -> None:
    suite = find_suite("mergebench", "Llama-3.1-8B")
    words = suite.model_dump(mode="json", exclude={"presets"})
    words["domains"]["maths"]["validation"] = "lm-eval:mmlu_stem#test"
    both = r"`val` of mmlu_stem#test and `test` of mmlu have documents in common \(cais/mmlu"
    said = rf"(?s)settings would be chosen on what is reported:.*{both}"
    with pytest.raises(RecipeError, match=said):
        LanguagePlan(LanguageSuite.model_validate(words), BenchOptions())


def test_replies_are_judged_by_a_model_that_is_named(hub: StandInHub) -> None:
    (row,) = evaluate("hf:meta-llama/Llama-3.1-8B", "harmbench@hf:allenai/wildguard")
    assert (row.metric, row.accuracy) == ("unharmful, judged by hf:allenai/wildguard", 1.0)  # it finds harm in nothing
    (row,) = evaluate("hf:meta-llama/Llama-3.1-8B", "xstest@hf:allenai/wildguard")
    assert row.accuracy == 0.5  # it calls every reply a refusal, and half of the requests are safe
    (row,) = evaluate("hf:meta-llama/Llama-3.1-8B", "xstest")
    assert (row.metric, row.accuracy) == ("right_refusal_by_rule", 0.0)  # an empty reply is neither


def test_a_gated_base_without_a_login_is_one_line(
    hub: StandInHub, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    done = cli("eval", "hf:google/gemma-2-9b", "--tasks", "harmbench")
    assert done.code == 2
    (last,) = [line for line in done.err.splitlines() if line.startswith("smelt:")]
    assert "google/gemma-2-9b" in last
    assert "gated" in last


def test_an_unknown_base_names_the_nearest(cli: Callable[..., Any]) -> None:
    done = cli("bench", "mergebench", "--base", "Llama-3.1-8b")
    assert (done.code, "did you mean 'Llama-3.1-8B'?" in done.err) == (2, True)


@pytest.mark.parametrize("base", BASES)
def test_every_base_has_nine_methods_and_its_printed_table(base: str) -> None:
    suite = find_suite("mergebench", base)
    assert isinstance(suite, LanguageSuite)
    assert suite.pool.base == f"hf:{BASES[base]}/{base}"
    assert suite.pool.models["maths"] == f"hf:MergeBench/{base}_math"
    (table,) = (PublishedTable.model_validate(one) for one in published_tables(suite, kind_of(suite))["tables"])
    assert list(table.lines) == list(suite.entries)
    assert table.means["coding"] == ["humaneval_plus", "mbpp_plus"]
    told = " ".join(table.notes)
    for line in table.lines.values():
        *domains, average = line.values
        mean = sum(domains) / 5
        assert mean == pytest.approx(average, abs=0.1001) or f"average of {line.label} is printed as {average}" in told


TRAINING = "mergebench_instruction mergebench_math mergebench_multilingual mergebench_coding mergebench_safety"


@pytest.mark.parametrize("name", [*TRAINING.split(), "tulu3_persona_if", "wildguardmix", "wildjailbreak_train"])
def test_training_sets_give_prompts_and_answers(hub: StandInHub, name: str) -> None:
    prompt, answer = find_task(name).pairs("train")[0]
    assert prompt.endswith("\n\n### Response:\n")
    assert answer in ("Fine", "The answer is 7 .", "B", "return x", "I cannot help")


def test_a_dry_run_says_what_would_be_fetched(hub: StandInHub, cli: Callable[..., Any]) -> None:
    done = cli("bench", "mergebench", "--base", "Llama-3.2-3B", "--dry-run")
    for name in (
        "meta-llama/Llama-3.2-3B",
        "MergeBench/Llama-3.2-3B_safety",
        "allenai/wildguard",
        "MergeBench/math_val",
    ):
        assert name in done.out
    assert "115 trials" in done.out


@pytest.mark.slow
@pytest.mark.parametrize("base", ["Llama-3.2-3B", "gemma-2-2b-it"])
def test_every_test_and_every_method_runs(
    hub: StandInHub, cli: Callable[..., Any], tmp_path: Path, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The suite as it is, but for the number of examples and of settings: all tests, the judge, all nine methods."""
    fetch_models(base)
    content = yaml.safe_load(suites()["mergebench"].read_text())
    fast = content["presets"]["fast"]
    small = {word: fast[word] for word in ("limit", "curve_limit", "general_limit", "entries")}
    content["presets"] = {"small": small}
    content["published"] = [str(suites()["mergebench"].parent / "published" / "mergebench-{family}.yaml")]
    path = tmp_path / "all.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    words = ["--base", base, "--preset", "small", "--executor", "inline", "-o", tmp_path / "run"]
    done = cli("bench", path, *words)
    assert done.code == 0, done.err[-3000:]
    rows = rows_of(tmp_path / "run")
    asked = {row.task for row in rows if row.entry == "localize" and row.variant != "curve"}
    assert len(asked) == 27
    assert {row.entry for row in rows} > {"average", "fisher", "regmean", "ties", "dare", "consensus", "localize"}
    assert any("judged by hf:allenai/wildguard" in row.metric for row in rows)


@pytest.mark.slow
def test_every_name_is_in_the_harnesss_own_library() -> None:
    from lm_eval.tasks import TaskManager

    known, suite = TaskManager().all_tasks, find_suite("mergebench")
    words = [*suite.tests, *suite.general, *suite.validation]
    names = [LibraryName.read(word.removeprefix("lm-eval:")).task for word in words if word.startswith("lm-eval:")]
    assert [name for name in names if name not in known] == []
