"""The loop of a language suite: numbers by hand, resuming, failures that cost their own cells, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

import smelt
from language_suite import ENTRIES, write_language_suite
from pico_language import write_language_task
from smelt.errors import RecipeError, SmeltError
from smelt.evaluation.row import CostRow, Row
from smelt.suites.language import units
from smelt.suites.merge_process import MergedModel
from smelt.suites.run import BenchResult

pytest.importorskip("lm_eval", reason="LM-EVAL IS NOT INSTALLED (pip install 'smelt[llm]')")
pytest.importorskip("optuna", reason="OPTUNA IS NOT INSTALLED (pip install 'smelt[tune]')")

ALL = {"up": 1.0, "up-more": 0.5, "down": 1.0, "still": 2 / 3}
"""A model that knows all three words: of g, h and a, which the general task wants repeated, it answers a with b."""


def merge_here(recipe: Path, out: Path, *, threads: int | None = None) -> MergedModel:
    """Stands for `merge_in_process`, without a process of its own."""
    smelt.merge(recipe, out=out, force=True, threads=threads)
    return MergedModel(out, 0.5, 1_000_000)


@pytest.fixture(scope="session")
def made_language(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, BenchResult, list[str]]:
    root, told = tmp_path_factory.mktemp("language"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMELT_CACHE", str(root / "cache"))
        patch.setattr("smelt.suites.language.units.merge_in_process", merge_here)
        suite = write_language_suite(root)
        return root, smelt.bench(suite, out=root / "out", executor="inline", tell=told.append), told


@pytest.fixture
def language(made_language: Any, monkeypatch: pytest.MonkeyPatch) -> BenchResult:
    monkeypatch.setattr("smelt.suites.language.units.merge_in_process", merge_here)
    return made_language[1]


@pytest.fixture
def suite(made_language: Any) -> Path:
    return made_language[0] / "pico-language.yaml"


@pytest.fixture
def copy(language: BenchResult, tmp_path: Path) -> Path:
    return Path(shutil.copytree(language.folder, tmp_path / "copy"))


@pytest.fixture
def changed(language: BenchResult, suite: Path, tmp_path: Path) -> Any:
    """`changed(general=[...])` writes the same suite with other words."""

    def write(**words: Any) -> Path:
        path = tmp_path / "changed.yaml"
        path.write_text(yaml.safe_dump({**yaml.safe_load(suite.read_text()), **words}, sort_keys=False))
        return path

    return write


def scores(done: Any, entry: str, variant: str, split: str = "test") -> dict[str, float]:
    rows = [row for row in done.rows if isinstance(row, Row) and (row.entry, row.variant) == (entry, variant)]
    return {row.task: row.accuracy for row in rows if row.split == split}


def costs(done: BenchResult) -> dict[str, CostRow]:
    return {row.entry: row for row in done.rows if isinstance(row, CostRow)}


def test_references_answer_as_they_were_made(language: BenchResult) -> None:
    assert scores(language, "pretrained", "reference") == {"up": 0, "up-more": 0, "down": 0, "still": 1}
    assert scores(language, "expert-up", "reference") == {"up": 1, "up-more": 0.5, "down": 0, "still": 2 / 3}
    assert scores(language, "expert-down", "reference") == {"up": 0, "up-more": 0, "down": 1, "still": 1}
    assert scores(language, "multitask", "reference") == ALL


def test_base_and_specialists_are_asked_the_validation_tasks_too(language: BenchResult) -> None:
    """So that the best single one is chosen on no test; the multi-task model is not chosen by anything."""
    assert scores(language, "pretrained", "reference", "val") == {"up-val": 0.5, "down-val": 0.5}
    assert scores(language, "expert-up", "reference", "val") == {"up-val": 1.0, "down-val": 0.5}
    assert scores(language, "expert-down", "reference", "val") == {"up-val": 0.5, "down-val": 1.0}
    assert scores(language, "multitask", "reference", "val") == {}
    row = next(row for row in language.rows if isinstance(row, Row) and row.split == "val")
    assert row.command.endswith("down-val --split val")


def test_the_setting_is_chosen_on_the_validation_tasks_and_reported_on_the_tests(language: BenchResult) -> None:
    """At 0.1 the merge repeats every word, which is right in one of two examples of each task; at 0.5 it knows all."""
    assert scores(language, "average", "published") == ALL
    assert scores(language, "task_arithmetic", "tuned") == ALL
    rows = [row for row in language.rows if isinstance(row, Row) and row.variant == "curve"]
    assert {(row.task, row.split, row.setting["task_arithmetic.scale"]): row.accuracy for row in rows} == {
        ("up-val", "val", 0.1): 0.5,
        ("down-val", "val", 0.1): 0.5,
        ("up-val", "val", 0.5): 1.0,
        ("down-val", "val", 0.5): 1.0,
    }
    chosen = next(row for row in language.rows if isinstance(row, Row) and row.variant == "tuned")
    assert chosen.setting == {"scale": 0.5}
    assert (chosen.data_budget.split, chosen.data_budget.images) == ("val", 4)


def test_costs_tell_what_merging_and_what_choosing_took(language: BenchResult) -> None:
    found = costs(language)
    assert found.keys() == {"average", "task_arithmetic"}
    assert (found["average"].trials, found["average"].validate_seconds) == (0, 0)
    assert found["task_arithmetic"].trials == 2
    assert found["task_arithmetic"].validate_seconds > 0
    assert (found["average"].merge_seconds, found["average"].peak_bytes) == (0.5, 1_000_000)


def test_the_report_is_told_which_task_belongs_to_which_domain(language: BenchResult) -> None:
    content = json.loads((language.folder / "analyses" / "language.json").read_text())
    assert content["domains"] == {"up": ["up", "up-more"], "down": ["down"]}
    assert content["general"] == ["still"]
    assert content["experts"] == {"up": "expert-up", "down": "expert-down"}
    assert content["validation"] == {"up": "up-val", "down": "down-val"}
    assert (content["base"], content["multitask"]) == ("pretrained", "multitask")
    assert content["entries"] == ["average", "task_arithmetic"]
    assert language.report.is_file()


def test_a_row_names_the_command_that_gives_it_again(language: BenchResult, suite: Path, tmp_path: Path) -> None:
    place = suite.parent / "tasks"
    row = next(row for row in language.rows if isinstance(row, Row) and row.variant == "tuned" and row.task == "down")
    told = f"{place / 'up'},{place / 'up-more'},{place / 'down'},{place / 'still'}"
    assert row.command == (
        f"smelt merge recipes/task_arithmetic.yaml -o task_arithmetic && smelt eval task_arithmetic --tasks {told}"
    )
    smelt.merge(language.folder / "recipes" / "task_arithmetic.yaml", out=tmp_path / "again")
    (again,) = smelt.evaluate(tmp_path / "again", [place / "down"])
    assert (again.accuracy, again.model_hash) == (row.accuracy, row.model_hash)


def test_models_are_thrown_away_unless_they_are_to_be_kept(language: BenchResult, suite: Path, tmp_path: Path) -> None:
    assert not list((language.folder / "models").glob("*/*"))
    words: dict[str, Any] = {"methods": ["average"], "preset": "fast", "keep_models": True}
    done = smelt.bench(suite, out=tmp_path / "kept", **words)
    assert (done.folder / "models" / "average" / "config.json").is_file()
    assert scores(done, "expert-up", "reference").keys() == {"up", "up-more"}  # the preset asks about its own alone
    assert scores(done, "expert-up", "reference", "val") == {}


def test_a_second_run_computes_nothing(
    language: BenchResult, suite: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**words: Any) -> None:
        raise AssertionError("something was computed")

    for name in units.__all__:
        monkeypatch.setattr(units, name, refuse)
    before, told = (copy / "rows.jsonl").read_bytes(), []
    assert smelt.bench(suite, out=copy, tell=told.append).computed == 0
    assert (copy / "rows.jsonl").read_bytes() == before
    assert len(told) == 6
    assert all(line.endswith("(there already)") for line in told)


def test_a_run_that_was_killed_goes_on_at_the_step_and_at_the_trial(
    language: BenchResult, suite: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of the last entry are gone; its study has both trials, so none is computed again."""
    lines = (copy / "rows.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["entry"] != "task_arithmetic"]
    (copy / "rows.jsonl").write_text("".join(kept))
    monkeypatch.setattr("smelt.search.trial.run_trial", None)
    done = smelt.bench(suite, out=copy)
    assert done.computed == 8
    assert scores(done, "task_arithmetic", "tuned") == ALL
    assert costs(done)["task_arithmetic"].trials == 2


def test_a_task_without_data_costs_its_own_cells(
    changed: Any, language: BenchResult, suite: Path, tmp_path: Path
) -> None:
    place = suite.parent / "tasks"
    empty = write_language_task(tmp_path / "empty", [("a", "b")])
    (empty / "test.jsonl.gz").unlink()
    told: list[str] = []
    words = {"general": [str(empty), str(place / "still")], "entries": {"average": ENTRIES["average"]}, "presets": {}}
    with pytest.raises(SmeltError, match="5 steps failed; the others are done") as failed:
        smelt.bench(changed(**words), out=tmp_path / "out", tell=told.append)
    assert "Model Soup, empty: empty/test: the data file" in str(failed.value)
    assert "test.jsonl.gz is not there" in str(failed.value)
    rows = [json.loads(line) for line in (tmp_path / "out" / "rows.jsonl").read_text().splitlines()]
    assert len([row for row in rows if row["entry"] == "average" and row["kind"] == "accuracy"]) == 4
    assert (tmp_path / "out" / "report.html").is_file()
    assert sum("FAILED" in line for line in told) == 5
    asked = json.loads((tmp_path / "out" / "analyses" / "language.json").read_text())
    assert asked["general"] == ["empty", "still"]  # a task that failed is missing in the table, not left out of it


def test_a_merge_that_fails_costs_its_line(
    language: BenchResult, suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(recipe: Path, out: Path, *, threads: int | None = None) -> MergedModel:
        if recipe.stem == "average":
            raise SmeltError("the disk is full")
        return merge_here(recipe, out, threads=threads)

    monkeypatch.setattr("smelt.suites.language.units.merge_in_process", broken)
    with pytest.raises(SmeltError, match="the disk is full"):
        smelt.bench(suite, out=tmp_path / "out", preset="fast")
    rows = [json.loads(line) for line in (tmp_path / "out" / "rows.jsonl").read_text().splitlines()]
    entries = {row["entry"] for row in rows}
    assert "average" not in entries
    assert "task_arithmetic" in entries


def test_without_tuning_entries_have_their_published_settings(
    language: BenchResult, suite: Path, tmp_path: Path
) -> None:
    """Scale 0.3 moves the answer by 0.9 of what is needed."""
    done = smelt.bench(suite, out=tmp_path / "out", methods=["task_arithmetic"], tune=False)
    assert scores(done, "task_arithmetic", "published") == {"up": 0, "up-more": 0, "down": 0, "still": 1}
    assert not (tmp_path / "out" / "tuning").exists()


@pytest.mark.slow
def test_steps_run_side_by_side_in_processes_of_their_own(language: BenchResult, suite: Path, tmp_path: Path) -> None:
    done = smelt.bench(suite, out=tmp_path / "out", executor="local", workers=2, preset="fast")
    assert scores(done, "task_arithmetic", "tuned").keys() == ALL.keys()
    assert costs(done)["average"].peak_bytes > 10_000_000  # of the real process


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"methods": ["averag"]}, "no method of the suite named 'averag' (did you mean 'average'?)"),
        ({"tasks": ["digits"]}, "no task of the suite named 'digits'"),
        ({"preset": "slow"}, "no preset named 'slow'"),
        ({"dtype": "float12"}, "float12"),
        ({"curv_limit": 3}, "no word of a suite named 'curv_limit' (did you mean 'curve_limit'?)"),
    ],
)
def test_unknown_words_are_refused_at_once(
    language: BenchResult, suite: Path, tmp_path: Path, words: dict[str, Any], said: str
) -> None:
    with pytest.raises(RecipeError) as refused:
        smelt.bench(suite, out=tmp_path / "out", **words)
    assert said in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_a_suite_that_names_a_task_of_pictures_is_refused(changed: Any, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="'mnist' is a task of pictures"):
        smelt.bench(changed(general=["mnist"]), out=tmp_path / "out")


def test_other_settings_in_the_same_folder_are_refused(changed: Any, copy: Path) -> None:
    other = {**ENTRIES["task_arithmetic"], "tune": {"task_arithmetic.scale": [0.1, 0.4]}}
    entries = {**ENTRIES, "task_arithmetic": other}
    with pytest.raises(RecipeError, match="another task_arithmetic among the entries"):
        smelt.bench(changed(entries=entries), out=copy)


def test_a_preset_is_a_word_of_language_suites_alone(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="preset: clip8 has none"):
        smelt.bench("clip8", out=tmp_path / "out", preset="fast")


def test_a_merge_that_looks_at_data_tells_what_each_of_both_held(
    changed: Any, language: BenchResult, suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look is this process's; the merge is said to have held 1 MB."""
    monkeypatch.setenv("SMELT_CACHE", str(tmp_path / "cache"))
    tasks = {name: str(suite.parent / "tasks" / name) for name in ("up", "down")}
    entries = {"fisher": {"label": "Fisher", "merge": "fisher", "data": {"tasks": tasks, "examples": 1}}}
    words: dict[str, Any] = {"executor": "inline", "limit": 1}
    done = smelt.bench(changed(entries=entries, presets={}), out=tmp_path / "out", **words)
    cost = costs(done)["fisher"]
    assert cost.peak_bytes == 1_000_000
    assert cost.most_bytes == max(cost.prepare_peak_bytes, 1_000_000)
    assert cost.prepare_peak_bytes > 10_000_000 or not Path("/proc/self/status").exists()
    row = next(row for row in done.rows if isinstance(row, Row) and row.entry == "fisher")
    assert row.command.startswith("smelt merge recipes/fisher.yaml -o fisher && smelt eval fisher --tasks ")


def test_a_command_says_where_data_was_looked_at_unless_that_is_the_cpu() -> None:
    assert units._merging("my fisher", "cpu") == ["smelt", "merge", "recipes/my fisher.yaml", "-o", "my fisher"]
    assert units._merging("fisher", "cuda")[-2:] == ["--data-device", "cuda"]
