"""What a call is given becomes a recipe: by references, in memory, or as a recipe already."""

import pytest

from checkpoints import state, write_yaml
from smelt.engine.request import read_request
from smelt.errors import RecipeError
from smelt.recipe.schema import Recipe


def test_references_become_a_recipe_and_stay_unopened():
    made = read_request({"cars": "dir:cars", "birds": "dir:birds"}, "dir:base", "ties", {"density": 0.3, "seed": 7})
    assert made.recipe.dump() == {
        "pool": {"base": "dir:base", "models": {"cars": "dir:cars", "birds": "dir:birds"}},
        "merge": [{"ties": {"density": 0.3}}],
        "seed": 7,
    }
    assert (made.relative_to, made.pool) == (None, None)


def test_models_in_memory_come_back_as_a_pool():
    made = read_request([state(1.0), state(2.0)], state(0.0))
    assert list(made.pool.all) == ["base", "model-1", "model-2"]
    assert list(made.recipe.pool.models) == ["model-1", "model-2"]


def test_a_recipes_file_gives_the_folder_of_its_paths(tmp_path):
    recipe = {"pool": {"models": ["cars", "birds"]}, "merge": "average"}
    made = read_request(write_yaml(tmp_path / "recipe.yaml", recipe))
    assert (made.recipe, made.relative_to) == (Recipe.parse(recipe), tmp_path)


def test_a_recipe_and_a_method_are_refused():
    with pytest.raises(RecipeError, match="give either a recipe or models and a method"):
        read_request({"pool": {"models": ["cars"]}, "merge": "average"}, method="ties")
