"""Recipes that look at texts before they merge language models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import smelt
from checkpoints import read_weights
from pico_llama import pairs, write_chat_task, write_llama
from smelt.cli.app import app
from smelt.errors import RecipeError
from smelt.prepare.prepare import measurements, prepare
from smelt.recipe.schema import Recipe

EMBEDDINGS = "model.embed_tokens.weight"
LAYER = "model.layers.1.mlp.down_proj.weight"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("recipes")
    for name, change in (("base", 0), ("up", 0.1), ("down", 0.2)):
        write_llama(found / name, change=change)
    write_chat_task(found / "up-talk", pairs(8))
    write_chat_task(found / "down-talk", pairs(8, 40))
    return found


def recipe(place: Path, method: Any, **data: Any) -> dict[str, Any]:
    return {
        "pool": {"base": str(place / "base"), "models": {"up": str(place / "up"), "down": str(place / "down")}},
        "merge": method,
        "data": {"tasks": {"up": str(place / "up-talk"), "down": str(place / "down-talk")}, "examples": 8, **data},
    }


@pytest.mark.parametrize(
    "method",
    [
        {"fisher": {}},
        {"regmean": {"reduction": 0.5}},
        {"regmean_pp": {"step": "block"}},
        {"localize": {"steps": 2, "batch": 4, "density": 0.3}},
        {"adamerging": {"steps": 2, "batch": 4}},
    ],
    ids=lambda method: next(iter(method)),
)
def test_every_method_that_looks_at_data_merges_language_models(
    place: Path, tmp_path: Path, method: dict[str, Any]
) -> None:
    words = {"split": "train"} if "adamerging" in method else {}
    smelt.merge(recipe(place, method, **words), out=tmp_path / "merged")
    merged, base = read_weights(tmp_path / "merged"), read_weights(place / "base")
    assert torch.equal(merged[EMBEDDINGS], base[EMBEDDINGS])
    assert merged[LAYER].isfinite().all()
    assert not torch.equal(merged[LAYER], base[LAYER])


def test_fisher_is_sampled_and_the_given_answers_count_as_labels(place: Path) -> None:
    prepared = prepare(Recipe.parse(recipe(place, {"fisher": {}})))
    assert (prepared.budget.split, prepared.budget.images, prepared.budget.labels) == ("train", 16, 16)
    with_answers = prepare(Recipe.parse(recipe(place, {"fisher": {}}, estimator="empirical")))
    assert with_answers.budget.labels == 16
    assert prepare(Recipe.parse(recipe(place, {"fisher": {}}))).recipe == prepared.recipe  # found in the cache
    with pytest.raises(RecipeError, match="'exact' is not for language models"):
        prepare(Recipe.parse(recipe(place, {"fisher": {}}, estimator="exact")))


def test_embeddings_are_measured_where_the_recipe_includes_them(place: Path) -> None:
    asked = Recipe.parse({**recipe(place, {"fisher": {}}), "include": ["*"]})
    assert all(words["include"] == ["*"] for words in measurements(asked).values())
    from smelt.formats.statistics import open_statistics

    prepared = prepare(asked).recipe
    assert prepared is not None
    assert EMBEDDINGS in open_statistics(prepared.statistics["up"]).tensors


def test_measure_is_a_command_for_texts_too(place: Path, tmp_path: Path) -> None:
    words = ["--task", str(place / "up-talk"), "--examples", "4", "--json"]
    for kind, how in (("fisher", "sampled/0"), ("gram", "inputs")):
        found = CliRunner().invoke(app, ["measure", kind, str(place / "up"), *words, "-o", str(tmp_path / kind)])
        assert found.exit_code == 0, found.output
        about = json.loads(found.stdout)
        assert (about["estimator"], about["examples"]) == (how, 4)


def test_more_examples_than_there_are_is_an_error(place: Path) -> None:
    with pytest.raises(RecipeError, match="9 examples are asked for, but its train split has 8"):
        prepare(Recipe.parse({**recipe(place, {"regmean": {}}, examples=9)}))


def test_data_is_looked_at_where_data_device_says(place: Path, tmp_path: Path) -> None:
    file = tmp_path / "fisher.yaml"
    Recipe.parse(recipe(place, "fisher")).save(file)

    def merge(*flags: str) -> Any:
        return CliRunner().invoke(app, ["merge", str(file), "-o", str(tmp_path / "merged"), *flags])

    looked = merge("--data-device", "nowhere")
    assert "nowhere" in str(looked.exception)
    assert not (tmp_path / "merged").exists()
    assert merge("--data-device", "cpu", "--quiet").exit_code == 0
    assert (tmp_path / "merged" / "manifest.json").exists()


def test_a_place_for_data_is_refused_where_none_is_looked_at(place: Path) -> None:
    with pytest.raises(RecipeError, match="data_device: this merge looks at no data"):
        smelt.merge([str(place / "up"), str(place / "down")], method="average", data_device="cpu")
