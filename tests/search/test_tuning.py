"""Studies from start to end, on models whose scores are known beforehand (pico_study.py)."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import smelt
from pico_study import HIGH, LOW, SCALES, tasks, write_recipe
from smelt.errors import RecipeError, SmeltError
from smelt.evaluation.row import read_rows
from smelt.recipe.read import read_recipe
from smelt.search.space import recipe_at
from smelt.search.tune import Tuned, _command, tune

Run = Callable[..., Tuned]
SCALE = "task_arithmetic.scale"


def test_a_grid_is_tried_whole_and_of_equals_the_first_value_is_the_best(whole: Tuned) -> None:
    assert {trial.values[SCALE]: trial.scores for trial in whole.trials} == {
        scale: LOW if scale < 0.5 else HIGH for scale in SCALES
    }
    assert (whole.values, whole.value) == ({SCALE: 0.6}, pytest.approx(2 / 3))
    assert (whole.computed, whole.untried) == (5, 0)
    assert {trial.state for trial in whole.trials} == {"complete"}


def test_settings_that_are_as_good_as_the_best_are_told(whole: Tuned) -> None:
    """From 0.6 on all scales score the same, so that this data does not decide between them."""
    same = [{SCALE: scale} for scale in SCALES if scale >= 0.5 and scale != 0.6]
    assert sorted(whole.equals, key=str) == sorted(same, key=str)
    assert whole.to_json()["equals"] == whole.equals
    told = next(line for line in str(whole).splitlines() if "the same" in line)
    assert f"{len(same)} other settings score the same: " in told
    assert "The first value that is listed was taken" in told


def test_a_scale_is_tuned_without_its_stage(study: Run) -> None:
    assert study({"tune": {"scale": [0.2, 0.9]}}).values == {SCALE: 0.9}


def test_the_first_of_a_list_is_not_the_smallest(study: Run) -> None:
    assert study({"tune": {SCALE: [0.2, 0.9, 0.7, 0.8]}}).values == {SCALE: 0.9}


def test_the_best_recipe_is_written_without_tune_and_merges_from_where_it_lies(
    whole: Tuned, pico: Path, tmp_path: Path
) -> None:
    found = whole
    content = yaml.safe_load(found.recipe_file.read_text())
    assert content["merge"] == [{"task_arithmetic": {"scale": 0.6}}]
    assert "tune" not in content
    assert read_recipe(found.recipe_file)[0] == found.best
    smelt.merge(found.recipe_file, out=tmp_path / "merged")
    (row,) = [
        row for row in read_rows(found.folder / "rows.jsonl") if row.setting[SCALE] == 0.6 and row.task == "first"
    ]
    (again,) = smelt.evaluate(str(tmp_path / "merged"), tasks=tasks(pico)[0], split="val", limit=5)
    assert (again.accuracy, again.model_hash) == (row.accuracy, row.model_hash)


def test_every_trial_leaves_rows_costs_and_a_line_of_the_table(whole: Tuned) -> None:
    found = whole
    rows = read_rows(found.folder / "rows.jsonl")
    assert len(rows) == 15
    assert {(row.variant, row.split, row.n, row.model, row.entry) for row in rows} == {
        ("curve", "val", 5, "merged", "task_arithmetic")
    }
    assert {tuple(row.data_budget.model_dump().values()) for row in rows} == {("val", 15, 15)}
    assert {row.recipe_hash for row in rows} == {trial.recipe_hash for trial in found.trials}
    assert all(trial.merge_seconds > 0 and trial.evaluate_seconds > 0 for trial in found.trials)
    with open(found.folder / "trials.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [(line["state"], float(line[SCALE]), float(line["first"])) for line in table] == [
        ("complete", trial.values[SCALE], trial.scores["first"]) for trial in found.trials
    ]
    assert all(float(line["evaluate_seconds"]) > 0 for line in table)


def test_a_finished_study_computes_nothing(
    study: Run, whole: Tuned, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (copied / "rows.jsonl").read_bytes()
    monkeypatch.setattr("smelt.prepare.repeated_merges.RepeatedMerges.at", None)
    lines: list[str] = []
    again = study(limit=5, tell=lines.append)
    assert (again.computed, lines, again.values, again.trials) == (0, [], whole.values, whole.trials)
    assert (copied / "rows.jsonl").read_bytes() == before


def test_a_study_goes_on_until_its_trials_are_reached_as_if_it_had_not_stopped(study: Run, whole: Tuned) -> None:
    parts = [study(trials=trials, limit=5) for trials in (1, 3, 9)]
    assert [part.computed for part in parts] == [1, 2, 2]
    assert [part.untried for part in parts] == [4, 2, 0]
    assert [trial.values for trial in parts[-1].trials] == [trial.values for trial in whole.trials]
    assert parts[-1].values == whole.values


def test_a_study_that_is_interrupted_keeps_what_is_finished_and_begins_the_rest_again(
    study: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from smelt.prepare.repeated_merges import RepeatedMerges

    real, count = RepeatedMerges.at, iter(range(99))

    def third_time(self: RepeatedMerges, recipe: Any, **words: Any) -> Any:
        if next(count) == 2:
            raise KeyboardInterrupt
        return real(self, recipe, **words)

    monkeypatch.setattr(RepeatedMerges, "at", third_time)
    with pytest.raises(KeyboardInterrupt):
        study()
    found = study()
    assert found.computed == 3
    assert [trial.state for trial in found.trials].count("failed") == 1
    assert found.trials[2].error == "interrupted"
    assert found.trials[3].values == found.trials[2].values


def test_a_setting_that_fails_is_recorded_and_the_others_go_on(study: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from smelt.prepare.repeated_merges import RepeatedMerges

    real = RepeatedMerges.at

    def fussy(self: RepeatedMerges, recipe: Any, **words: Any) -> Any:
        if recipe.merge[0].parameters["scale"] == 0.6:
            raise SmeltError("not this one")
        return real(self, recipe, **words)

    monkeypatch.setattr(RepeatedMerges, "at", fussy)
    lines: list[str] = []
    found = study(tell=lines.append)
    assert found.values == {SCALE: 0.8}
    assert [trial.error for trial in found.trials if trial.state == "failed"] == ["not this one"]
    assert sum("failed: not this one" in line for line in lines) == 1
    monkeypatch.setattr(RepeatedMerges, "at", real)
    assert study().values == {SCALE: 0.6}  # what failed is tried again by the next run


def test_where_every_setting_fails_the_error_is_the_studys(study: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any, recipe: Any, **words: Any) -> Any:
        raise RecipeError("never")

    monkeypatch.setattr("smelt.prepare.repeated_merges.RepeatedMerges.at", refuse)
    lines: list[str] = []
    with pytest.raises(RecipeError, match="never"):
        study(tell=lines.append)
    assert len(lines) == 3  # of five: by then it is clear


def test_hopeless_trials_are_stopped_recorded_as_such_and_the_best_is_the_same(study: Run, tmp_path: Path) -> None:
    scales = [0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.7, 0.8, 0.9]
    pruned = study({"tune": {SCALE: scales}}, seed=1)
    whole = study({"tune": {SCALE: scales}}, seed=1, prune=False, out=tmp_path / "whole")
    assert (pruned.values, pruned.value) == (whole.values, whole.value)
    assert {trial.state for trial in whole.trials} == {"complete"}
    stopped = [trial for trial in pruned.trials if trial.state == "pruned"]
    assert stopped
    assert all(trial.scores == {"first": 0.0, "second": 0.0} for trial in stopped)
    assert all(trial.values[SCALE] < 0.5 for trial in stopped)
    assert all(trial.state == "complete" for trial in pruned.trials[:4])


def test_several_words_are_combined_and_words_and_numbers_may_mix(study: Run) -> None:
    grid = {"ties.merge": ["sum", "mean"], "ties.scale": [0.25, 0.75], "ties.density": [1.0]}
    found = study({"merge": "ties", "tune": grid})
    assert len({json.dumps(trial.values, sort_keys=True) for trial in found.trials}) == len(found.trials) == 4
    assert found.values == {"ties.merge": "sum", "ties.scale": 0.75, "ties.density": 1.0}


def test_tables_are_tuned_one_after_the_other_each_at_the_best_before(study: Run) -> None:
    phases = [{"task_arithmetic.weights.plain": [0.5, 3.0]}, {SCALE: [0.1, 0.2, 0.3]}]
    found = study({"merge": {"task_arithmetic": {"scale": 0.3}}, "tune": phases}, prune=False)
    first, second = ([trial for trial in found.trials if trial.phase == phase] for phase in (0, 1))
    assert {trial.values["task_arithmetic.weights.plain"]: trial.scores for trial in first} == {0.5: LOW, 3.0: HIGH}
    assert {trial.values["task_arithmetic.weights.plain"] for trial in second} == {3.0}
    assert {trial.values[SCALE]: trial.scores for trial in second} == {0.1: LOW, 0.2: HIGH, 0.3: HIGH}
    assert found.best.merge[0].parameters["weights"] == {"plain": 3.0}


def test_without_a_tune_word_the_shipped_grid_is_used(study: Run) -> None:
    found = study({"tune": None}, trials=2)
    assert {trial.values[SCALE] for trial in found.trials} <= {number / 10 for number in range(1, 11)}
    assert (len(found.trials), found.untried) == (2, 8)


def test_a_range_is_searched_by_tpe_the_same_way_whenever_it_was_stopped(
    study: Run, pico: Path, tmp_path: Path
) -> None:
    tuned, one = {"tune": {SCALE: {"low": 0.0, "high": 1.0}}}, tasks(pico)[:1]
    whole = study(tuned, trials=12, tasks=one, out=tmp_path / "whole")  # ten at random, then by what they showed
    study(tuned, trials=5, tasks=one)
    parts = study(tuned, trials=12, tasks=one)
    points = [trial.values[SCALE] for trial in whole.trials]
    assert [trial.values[SCALE] for trial in parts.trials] == points
    assert len(set(points)) == 12
    assert whole.value == 1.0
    assert whole.values == {SCALE: min(trial.values[SCALE] for trial in whole.trials if trial.accuracy == 1.0)}
    other = study(tuned, trials=2, tasks=one, seed=1, out=tmp_path / "other")
    assert [trial.values[SCALE] for trial in other.trials] != points[:2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"limit": 3}, "was begun with limit 5 instead of 3"),
        ({"seed": 5}, "was begun with seed 0 instead of 5"),
        ({"prune": False}, "was begun with prune True instead of False"),
        ({"recipe": {"tune": {SCALE: [0.1]}}}, "was begun with tune"),
        ({"recipe": {"seed": 3}}, "was begun with recipe"),
    ],
)
def test_a_folder_of_another_study_is_refused(study: Run, copied: Path, words: dict[str, Any], said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        study(**{"limit": 5, **words})


def test_force_begins_anew(study: Run, copied: Path) -> None:
    assert (study(trials=1, seed=3, force=True).computed, len(study(trials=1, seed=3).trials)) == (1, 1)


def test_other_tasks_are_another_study(study: Run, pico: Path, copied: Path) -> None:
    with pytest.raises(RecipeError, match="another second among the tasks"):
        study(limit=5, tasks=[tasks(pico)[0], tasks(pico)[2]])


def test_a_study_file_of_something_else_is_refused(study: Run, copied: Path) -> None:
    study(seed=9, trials=1, force=True)
    mine = (copied / "study.db").read_bytes()
    study(seed=8, trials=1, force=True)
    (copied / "study.db").write_bytes(mine)
    with pytest.raises(RecipeError, match=r"study\.db is the study of something else"):
        study(seed=8, trials=1)
    (copied / "study.db").write_bytes(b"no database" * 99)
    with pytest.raises(SmeltError, match="not a study that can be read"):
        study(seed=8, trials=1)


def test_test_pictures_are_never_tuned_on(study: Run, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="settings are not chosen on `test`"):
        study(split="test")
    with pytest.raises(RecipeError, match="no split named 'vall'"):
        study(split="vall")
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"recipe": {"lora": 4}}, "lora: a study evaluates whole models"),
        ({"trials": 0}, "trials: at least 1, got 0"),
        ({"sampler": "tpee"}, "sampler: is grid, tpe or random, got 'tpee'"),
        ({"sampler": "grid", "recipe": {"tune": {SCALE: {"low": 0, "high": 1}}}}, "is a range: give it a step"),
        ({"recipe": {"tune": None, "merge": "karcher"}}, "nothing to tune"),
    ],
)
def test_what_cannot_be_tuned_is_refused_before_anything_is_written(
    study: Run, tmp_path: Path, words: dict[str, Any], said: str
) -> None:
    with pytest.raises(RecipeError, match=said):
        study(**words)
    assert not (tmp_path / "study").exists()


def test_other_processes_find_the_same(study: Run, whole: Tuned) -> None:
    there = study(limit=5, workers=2)
    assert (there.values, there.value, there.computed) == (whole.values, whole.value, 5)
    assert sorted(trial.values[SCALE] for trial in there.trials) == SCALES
    hashes = [
        {(row.recipe_hash, row.task): (row.model_hash, row.accuracy) for row in read_rows(one.folder / "rows.jsonl")}
        for one in (whole, there)
    ]
    assert hashes[0] == hashes[1]


def test_a_recipe_in_memory_is_tuned_too(pico: Path, tmp_path: Path) -> None:
    recipe, _ = read_recipe(write_recipe(pico))
    rooted = recipe.model_copy(
        update={
            "pool": recipe.pool.model_copy(
                update={"base": str(pico / "models/base"), "models": {"plain": str(pico / "models/plain")}}
            )
        }
    )
    found = tune(rooted, tasks=tasks(pico), out=tmp_path / "study", trials=2)
    assert recipe_at(rooted, found.values).merge == found.best.merge


def test_a_command_says_where_and_in_what_format_a_study_ran_unless_that_is_usual() -> None:
    usual = {"split": "val", "limit": None, "device": "cpu", "dtype": "float32"}
    plain = "smelt tune 'my recipe.yaml' --tasks first,second --split val"
    assert _command("my recipe.yaml", ["first", "second"], usual) == plain
    words = {**usual, "limit": 8, "device": "cuda", "dtype": "bfloat16"}
    assert _command("my recipe.yaml", ["first", "second"], words) == (
        f"{plain} --limit 8 --device cuda --dtype bfloat16"
    )
