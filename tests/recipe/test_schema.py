"""Recipes: many ways to write one, one meaning, nothing lost on the way through YAML and back."""

import json

import pytest
import yaml

from smelt.errors import RecipeError
from smelt.recipe.schema import Recipe, parse_size

FULL = {
    "pool": {"base": "dir:base", "models": {"cars": "dir:cars", "birds": "hf:org/birds@v1"}},
    "merge": [
        {"dare": {"density": 0.1}},
        {"ties": {"density": {"depth": [0.1, 0.9]}, "weights": {"cars": 1, "birds": 2}}},
    ],
    "data": {"tasks": {"cars": "stanford_cars"}, "split": "val", "examples": 64},
    "statistics": {"cars": "dir:cars-gram", "birds": "dir:birds-gram"},
    "looked_at": {"split": "val", "images": 64},
    "tune": {"ties.density": [0.1, 0.2]},
    "select": {"uq": {"tasks": "mllm10", "passes": 2}},
    "parts": [{"keys": ["vision.*"], "merge": "average", "models": ["cars"], "slices": [{"models": {"cars": [0, 2]}}]}],
    "slices": [{"models": {"cars": [0, 4], "birds": [2, 6]}, "base": [0, 4], "merge": "slerp"}],
    "dtype": "bfloat16",
    "seed": 3,
    "include": ["model.*"],
    "skip": ["head.*"],
    "missing": "base",
    "routers": "base",
    "align_experts": True,
    "vocab": "union",
    "tokens": {"<s>": {"source": "cars", "force": True}},
    "pad_vocab_to": 64,
    "config": "cars",
    "chat_template": "chatml",
    "shard_size": "2GB",
    "lora_format": "kohya",
    "lora": 8,
    "allow_pickle": True,
}
SMALL = {"pool": {"models": ["a", "b"]}, "merge": "average"}


@pytest.mark.parametrize("data", [FULL, SMALL], ids=["full", "small"])
def test_a_recipe_survives_dump_and_parse(data):
    recipe = Recipe.parse(data)
    assert Recipe.parse(recipe.dump()) == recipe
    assert Recipe.parse(recipe.dump()).dump() == recipe.dump()
    assert Recipe.parse(yaml.safe_load(yaml.safe_dump(recipe.dump()))) == recipe
    assert Recipe.parse(json.loads(json.dumps(recipe.dump()))).hash == recipe.hash


def test_every_word_of_the_recipe_is_tried_above():
    assert FULL.keys() == Recipe.model_fields.keys()


@pytest.mark.parametrize("key", [key for key in FULL if key not in ("pool", "merge")])
def test_every_word_changes_the_hash(key):
    without = {name: value for name, value in FULL.items() if name != key}
    assert Recipe.parse(without).hash != Recipe.parse(FULL).hash


def test_a_default_that_is_written_out_does_not_change_the_hash():
    assert Recipe.parse({**SMALL, "seed": 0, "missing": "refuse", "skip": []}).hash == Recipe.parse(SMALL).hash


def test_the_order_of_keys_does_not_change_the_hash_but_that_of_models_does():
    turned = dict(reversed(list(SMALL.items())))
    assert Recipe.parse(turned).hash == Recipe.parse(SMALL).hash
    other = {**SMALL, "pool": {"models": ["b", "a"]}}
    assert list(Recipe.parse(other).pool.models) == ["b", "a"]
    assert Recipe.parse(other).hash != Recipe.parse(SMALL).hash, "without a base the first model gives the config"


@pytest.mark.parametrize(
    "merge",
    ["ties", {"ties": {}}, {"ties": None}, ["ties"], [{"ties": {}}], ("ties", {}), [("ties", {})]],
)
def test_one_method_can_be_written_in_many_ways(merge):
    assert Recipe.parse({**SMALL, "merge": merge}) == Recipe.parse({**SMALL, "merge": "ties"})


@pytest.mark.parametrize("merge", [[], 3, None, {"ties": 3}, {"ties": {}, "dare": {}}, [["ties"]], {"ties": [1]}])
def test_what_is_no_pipeline_is_refused(merge):
    with pytest.raises(RecipeError, match="merge"):
        Recipe.parse({**SMALL, "merge": merge})


def test_models_in_a_list_are_named_after_their_folders():
    recipe = Recipe.parse({**SMALL, "pool": {"models": ["x/cars", "y/cars", "hf:org/birds"]}})
    assert recipe.pool.models == {"cars": "x/cars", "cars-2": "y/cars", "birds": "hf:org/birds"}


def test_one_pattern_needs_no_list():
    assert Recipe.parse({**SMALL, "skip": "head.*"}) == Recipe.parse({**SMALL, "skip": ["head.*"]})


def test_a_recipe_cannot_be_changed_in_place():
    with pytest.raises(ValueError, match="frozen"):
        Recipe.parse(SMALL).seed = 4


@pytest.mark.parametrize("data", [None, "average", [1], 3])
def test_what_is_no_table_is_refused(data):
    with pytest.raises(RecipeError, match="a recipe is a table"):
        Recipe.parse(data)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("5GB", 5 * 10**9),
        ("1.5 MB", 1_500_000),
        ("2gib", 2 * 2**30),
        ("100", 100),
        (100, 100),
        ("7B", 7),
        ("1KiB", 1024),
    ],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "0", "5XB", "1..5GB", ".", "1e9", "five"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(RecipeError, match="not a size"):
        parse_size(text)


def test_a_number_of_bytes_is_a_size_in_yaml_too():
    assert Recipe.parse({**SMALL, "shard_size": 100_000}) == Recipe.parse({**SMALL, "shard_size": "100000"})


@pytest.mark.parametrize(
    ("key", "value"),
    [("seed", -1), ("seed", 1.5), ("seed", 2**63), ("pad_vocab_to", 0), ("skip", 3), ("allow_pickle", "perhaps")],
)
def test_values_of_the_wrong_kind_are_refused_by_name(key, value):
    with pytest.raises(RecipeError, match=key):
        Recipe.parse({**SMALL, key: value})
