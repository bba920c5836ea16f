"""Merges of growing groups (U8): what the running sum gives is what the engine gives, and no chain of halves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import smelt
from checkpoints import random_state, write_model
from smelt.errors import IncompatibleModels, RecipeError
from smelt.formats.source import Source
from smelt.recipe.schema import Recipe
from smelt.select.group_merges import GroupMerges, identity_of
from smelt.select.subset_recipe import narrowed, single

_SHAPES = {"layers.0.w": (4, 3), "layers.1.w": (3, 3), "frozen.w": (2,)}
_NAMES = ["red", "green", "blue", "gold"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("groups")
    states = {name: random_state(seed, _SHAPES) for seed, name in enumerate(["base", *_NAMES])}
    return {name: str(write_model(root / name, state)) for name, state in states.items()}


def _recipe(models: dict[str, str], merge: Any = "average", **words: Any) -> Recipe:
    pool = {"base": models["base"], "models": {name: models[name] for name in _NAMES}}
    return Recipe.parse({"pool": pool, "merge": merge, "skip": "frozen.*", **words})


def _groups(recipe: Recipe) -> GroupMerges:
    return GroupMerges(recipe, None, {name: name for name in ("base", *_NAMES)})


def _state(source: Source) -> dict[str, torch.Tensor]:
    found = {}
    for name, info in source.tensors.items():
        flat = torch.empty(info.count)
        source.read(name, 0, flat)
        found[name] = flat.view(info.shape)
    return found


def _direct(recipe: Recipe, names: list[str]) -> dict[str, torch.Tensor]:
    merged = smelt.merge(narrowed(recipe, names))
    assert isinstance(merged, dict)
    return merged


def test_every_step_of_the_running_sum_is_the_direct_mean(models: dict[str, str]):
    recipe, order = _recipe(models), ["blue", "red", "gold", "green"]
    groups = _groups(recipe)
    for size in range(2, 5):
        step, direct = _state(groups.at(order[:size])), _direct(recipe, order[:size])
        assert all(torch.allclose(step[name], direct[name], atol=1e-6) for name in _SHAPES)


def test_any_group_in_any_order_of_asking_is_its_own_mean(models: dict[str, str]):
    recipe = _recipe(models)
    groups = _groups(recipe)
    groups.at(["red", "green", "blue"])
    for names in (["red", "blue"], ["gold", "red"], ["gold", "red", "green"]):
        step, direct = _state(groups.at(names)), _direct(recipe, names)
        assert all(torch.allclose(step[name], direct[name], atol=1e-6) for name in _SHAPES)


def test_the_mean_of_copies_is_the_copy_and_the_rest_stays_the_bases(models: dict[str, str], tmp_path: Path):
    red = random_state(1, _SHAPES)
    copies = {**models, **{name: str(write_model(tmp_path / name, red)) for name in _NAMES}}
    mean, red, base = (_state(source) for source in _sources(_recipe(copies)))
    assert all(torch.allclose(mean[name], red[name], atol=1e-6) for name in ("layers.0.w", "layers.1.w"))
    assert torch.equal(mean["frozen.w"], base["frozen.w"])


def _sources(recipe: Recipe) -> list[Source]:
    groups = _groups(recipe)
    assert groups.pool.base is not None
    return [groups.at(_NAMES), groups.at(["red"]), groups.pool.base]


def test_a_chain_of_halves_is_another_merge(models: dict[str, str]):
    """U8. Half of the half: the weights of three models are 1/4, 1/4 and 1/2, and not a third each."""
    recipe, names = _recipe(models), ["red", "green", "blue"]
    red, green, blue = (_state(_groups(recipe).at([name]))["layers.0.w"] for name in names)
    chained = ((red + green) / 2 + blue) / 2
    weighted = smelt.merge(narrowed(recipe, names).model_copy(update={"merge": _weights(0.25, 0.25, 0.5)}))
    assert isinstance(weighted, dict)
    assert torch.allclose(chained, weighted["layers.0.w"], atol=1e-6)
    assert not torch.allclose(chained, _state(_groups(recipe).at(names))["layers.0.w"], atol=1e-2)


def _weights(*weights: float) -> Any:
    return Recipe.parse({"pool": {"models": ["a"]}, "merge": {"average": {"weights": list(weights)}}}).merge


@pytest.mark.parametrize("merge", ["ties", {"task_arithmetic": {"scale": 0.3}}, ["dare", "ties"], "model_stock"])
def test_any_method_of_the_engine_merges_a_group(models: dict[str, str], merge: Any):
    recipe = _recipe(models, merge)
    step, direct = _state(_groups(recipe).at(["gold", "red"])), _direct(recipe, ["red", "gold"])
    assert all(torch.equal(step[name], direct[name]) for name in _SHAPES)


@pytest.mark.parametrize("merge", ["average", {"task_arithmetic": {"scale": 0.3}}])
def test_a_group_is_merged_and_named_in_the_order_of_the_pool_whatever_order_it_grew_in(
    models: dict[str, str], merge: Any
):
    """To the last bit: sums of floats know their order, and answers are kept under the group's name."""
    groups = _groups(_recipe(models, merge))
    for size in range(2, 5):
        grown = [["gold", "blue", "red", "green"][:size], ["red", "gold", "green", "blue"][:size]]
        for names in grown:
            own = [name for name in _NAMES if name in names]
            assert groups.identity(names) == groups.identity(own)
            step, fresh = _state(groups.at(names)), _state(_groups(groups.recipe).at(own))
            assert all(torch.equal(step[name], fresh[name]) for name in _SHAPES)


def test_without_a_base_a_group_is_as_if_the_other_models_were_not_there(models: dict[str, str]):
    """What is not merged comes from the first model of the group, not of the pool."""
    bare = Recipe.parse({"pool": {"models": {n: models[n] for n in _NAMES}}, "merge": "average", "skip": "frozen.*"})
    step, direct = _state(_groups(bare).at(["gold", "blue"])), _direct(bare, ["blue", "gold"])
    assert all(torch.equal(step[name], direct[name]) for name in _SHAPES)


def test_statistics_are_known_by_their_content(models: dict[str, str]):
    said = {"red": "here", "blue": "there"}
    recipes = [_recipe(models, statistics={**said, "red": place}) for place in ("here", "elsewhere")]
    prints = {name: name for name in ("base", *_NAMES)}
    content = {"red": "a1", "blue": "b2"}
    one, moved = (identity_of(recipe, prints, ["red", "blue"], content) for recipe in recipes)
    assert one == moved
    assert one != identity_of(recipes[0], prints, ["red", "blue"], {**content, "red": "a2"})
    assert identity_of(recipes[0], prints, ["green", "gold"], {}) == identity_of(recipes[1], prints, ["gold", "green"])


def test_weights_follow_their_models(models: dict[str, str]):
    recipe = _recipe(models, {"average": {"weights": {"red": 1, "green": 2, "blue": 3, "gold": 4}}})
    assert narrowed(recipe, ["gold", "red"]).merge[0].parameters == {"weights": {"gold": 4, "red": 1}}
    listed = _recipe(models, {"average": {"weights": [1, 2, 3, 4]}})
    assert narrowed(listed, ["gold", "red"]).merge[0].parameters == {"weights": [4, 1]}
    assert torch.allclose(
        _state(_groups(recipe).at(["gold", "red"]))["layers.0.w"],
        _state(_groups(listed).at(["gold", "red"]))["layers.0.w"],
    )


def test_one_model_is_itself_whatever_the_method(models: dict[str, str]):
    """U12."""
    recipe = _recipe(models, {"task_arithmetic": {"scale": 0.3}})
    red = _state(_groups(recipe).at(["red"]))["layers.0.w"]
    alone = smelt.merge(single(recipe, "red"))
    assert isinstance(alone, dict)
    assert torch.equal(red, alone["layers.0.w"])


def test_identities_follow_members_method_and_numbers_but_not_paths(models: dict[str, str], tmp_path: Path):
    plain, ties = _groups(_recipe(models)), _groups(_recipe(models, "ties"))
    assert plain.identity(["red", "blue"]) != ties.identity(["red", "blue"])
    assert plain.identity(["red", "blue"]) != plain.identity(["red", "gold"])
    assert plain.identity(["red"]) == ties.identity(["red"])
    moved = dict(models)
    moved["red"] = str(write_model(tmp_path / "elsewhere", random_state(1, _SHAPES)))
    assert _groups(_recipe(moved)).identity(["red", "blue"]) == plain.identity(["red", "blue"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"merge": "fisher"}, "looks at data for every merge"),
        ({"config": "red"}, "config: 'red' may not be among the chosen"),
        ({"lora": 4}, "lora: whole models are asked"),
        ({"merge": "slerp"}, "slerp merges exactly 2 models, got 3"),
    ],
)
def test_what_cannot_grow_is_refused_at_once(models: dict[str, str], words: dict[str, Any], said: str):
    with pytest.raises((RecipeError, IncompatibleModels), match=said):
        _groups(_recipe(models, **words))
