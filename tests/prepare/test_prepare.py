"""From a recipe that needs data to one that does not, and what of it every later row tells."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import smelt
from pico_clip import random_clip, save_clip, write_task
from smelt.errors import RecipeError
from smelt.prepare.prepare import check_recipe, needs_data, prepare
from smelt.recipe.schema import DataBudget, Recipe


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("prepare")
    for seed, name in enumerate(("base", "one", "two")):
        save_clip(random_clip(seed), root / name)
    write_task(root / "tasks" / "one")
    write_task(root / "tasks" / "two")
    return root


@pytest.fixture
def room(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("smelt_zoo.tasks", lambda: {path.name: path for path in (models / "tasks").iterdir()})
    monkeypatch.setenv("SMELT_CACHE", str(tmp_path / "cache"))
    return tmp_path


def recipe(models: Path, merge: Any, **words: Any) -> Recipe:
    pool = {"base": str(models / "base"), "models": {name: str(models / name) for name in ("one", "two")}}
    return Recipe.parse({"pool": pool, "merge": merge, "include": ["vision_model.*"], **words})


SEEN = {"split": "val", "examples": 24}


@pytest.mark.parametrize(
    ("merge", "labels"),
    [
        ({"regmean": {"ridge": 0.01}}, 0),
        ({"regmean_pp": {"ridge": 0.01}}, 0),
        ({"fisher": {}}, 0),
        ({"adamerging": {"steps": 1, "batch": 4}}, 0),
        ({"adamerging": {"steps": 1, "batch": 4, "loss": "labels"}}, 48),
    ],
)
def test_what_was_used_goes_with_the_model_from_the_recipe_to_the_row(
    models: Path, room: Path, merge: Any, labels: int
) -> None:
    wanted = recipe(models, merge, data=SEEN)
    assert needs_data(wanted)
    prepared = prepare(wanted)
    assert prepared.recipe is not None
    assert not needs_data(prepared.recipe)
    assert prepared.recipe.looked_at == DataBudget(split="val", images=48, labels=labels)
    smelt.merge(wanted, out=room / "merged")
    (row,) = smelt.evaluate(str(room / "merged"), "one")
    assert row.data_budget == DataBudget(split="val", images=48, labels=labels)


def test_a_mixture_tells_too_and_one_whose_routers_were_loaded_does_not_know(models: Path, room: Path) -> None:
    wanted = recipe(models, {"wemoe": {"steps": 1, "batch": 4}}, data=SEEN)
    prepared = prepare(wanted, save=room / "routers.pt")
    (row,) = smelt.evaluate(prepared.model, "one")
    assert (row.way, row.data_budget) == ("mix", DataBudget(split="val", images=48))
    again = prepare(wanted, learned=room / "routers.pt")
    (other,) = smelt.evaluate(again.model, "one")
    assert other.data_budget == DataBudget(split="not known")
    assert other.loss == pytest.approx(row.loss, abs=1e-6)


def test_the_seed_of_a_recipe_reaches_the_labels_that_are_drawn(models: Path, room: Path) -> None:
    from smelt.formats.statistics import open_statistics

    data = {**SEEN, "estimator": "sampled"}
    found = [prepare(recipe(models, "fisher", data=data, seed=seed)).recipe for seed in (0, 5)]
    notes = [open_statistics(one.statistics["one"]).note.estimator for one in found if one]
    assert notes == ["sampled/0", "sampled/5"]


@pytest.mark.parametrize(
    ("merge", "words", "said"),
    [
        ("task_arithmetic", {"data": SEEN}, "data: task_arithmetic looks at none; leave it out"),
        ("adamerging", {"data": {**SEEN, "estimator": "exact"}}, "data.estimator is about the Fisher information"),
        ("regmean", {"data": {**SEEN, "batch": 4}}, "data.batch is about the Fisher information"),
        ({"regmean_pp": {"redaction": 1}}, {"data": SEEN}, "no parameter 'redaction' .did you mean 'reduction'"),
        ("regmean", {"data": {"tasks": {"won": "one"}}}, "no model named 'won'"),
        ({"adamerging": {"level": "layers"}}, {"data": SEEN}, "level"),
    ],
)
def test_words_that_nothing_reads_and_names_that_are_not_there_are_refused(
    models: Path, room: Path, merge: Any, words: Any, said: str
) -> None:
    with pytest.raises(RecipeError, match=said):
        check_recipe(recipe(models, merge, **words))
    with pytest.raises(RecipeError, match=said):
        smelt.merge(recipe(models, merge, **words))


def test_a_model_without_a_task_of_its_name_is_refused_with_the_way_out(models: Path, room: Path) -> None:
    pool = {"base": str(models / "base"), "models": {"nobody": str(models / "one")}}
    wanted = Recipe.parse({"pool": pool, "merge": "regmean", "data": SEEN})
    with pytest.raises(RecipeError, match=r"no data for 'nobody'.*`data=\{'tasks': \{'nobody': 'TASK'\}\}`"):
        smelt.merge(wanted)


def test_an_output_that_exists_is_refused_before_anything_is_learned(
    models: Path, room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (room / "out").mkdir()
    (room / "out" / "mine.txt").write_text("mine")
    monkeypatch.setattr("smelt.prepare.prepare", lambda *_, **__: pytest.fail("data was looked at"))
    with pytest.raises(smelt.SmeltError, match="out"):
        smelt.merge(recipe(models, "adamerging", data=SEEN), out=room / "out")


def test_a_plan_says_that_data_comes_first(models: Path, room: Path) -> None:
    report = smelt.plan(recipe(models, "adamerging", data=SEEN))
    assert any("adamerging looks at data first" in note for note in report.notes)


def test_a_mixture_is_not_merged_and_cannot_be_merged_with(models: Path, room: Path) -> None:
    with pytest.raises(RecipeError, match="use `smelt mix`"):
        smelt.merge(recipe(models, "wemoe", data=SEEN))
    mixed = smelt.mix(recipe(models, {"wemoe": {"steps": 0}}), out=room / "mixed")
    with pytest.raises(RecipeError, match="is a mixture of several models"):
        smelt.merge([str(mixed.folder), str(models / "one")], method="average")


def test_settings_are_never_chosen_by_models_that_saw_the_test_pictures(models: Path, room: Path) -> None:
    wanted = recipe(models, {"adamerging": {"steps": 1}}, data={"split": "test"}, tune={"adamerging.lr": [0.1, 0.2]})
    with pytest.raises(RecipeError, match=r"data.split is test"):
        smelt.tune(wanted, out=room / "study", tasks="one")


def test_the_rows_of_a_study_count_what_its_merges_looked_at(models: Path, room: Path) -> None:
    wanted = recipe(models, {"regmean": {"ridge": 0.1}}, data=SEEN, tune={"regmean.reduction": [0.5, 0.9]})
    smelt.tune(wanted, out=room / "study", tasks="one,two".split(","), limit=6)
    from smelt.evaluation.row import Row, read_rows

    budgets = {row.data_budget for row in read_rows(room / "study" / "rows.jsonl") if isinstance(row, Row)}
    assert budgets == {DataBudget(split="val", images=48 + 12, labels=12)}
    shutil.rmtree(room / "study")
