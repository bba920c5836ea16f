"""Training recipes: shipped ones by name, words that are refused, and the learning rate of a step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from smelt.errors import RecipeError
from smelt.training.recipe import TrainingRecipe, read_training_recipe, shipped_recipes
from smelt.training.schedule import rate_of


@pytest.mark.parametrize("name", shipped_recipes())
def test_a_shipped_recipe_reads_and_names_its_source(name: str) -> None:
    recipe = read_training_recipe(name)
    assert recipe.source
    assert recipe.kind
    assert TrainingRecipe.model_validate(recipe.model_dump()) == recipe


def test_the_recipe_of_fusionbench_is_what_its_paper_says() -> None:
    recipe = read_training_recipe("fusionbench-clip")
    assert (recipe.steps, recipe.batch, recipe.lr) == (4000, 32, 1e-5)
    assert (recipe.optimiser, recipe.schedule, recipe.written) == ("adam", "constant", "tower")


@pytest.mark.parametrize(
    ("name", "lr", "length"), [("mergebench-sft-3b", 1e-5, 4096), ("mergebench-sft-8b", 5e-5, 3072)]
)
def test_the_recipes_of_mergebench_are_what_its_appendix_says(name: str, lr: float, length: int) -> None:
    recipe = read_training_recipe(name)
    assert (recipe.lr, recipe.length, recipe.epochs, recipe.batch) == (lr, length, 2, 128)
    assert (recipe.optimiser, recipe.schedule) == ("adamw", "cosine")


def test_what_is_given_goes_before_the_recipe_and_steps_take_the_place_of_epochs() -> None:
    recipe = read_training_recipe(
        "mergebench-sft-3b", {"steps": 5, "lora.rank": 2, "method": "lora", "output": "adapter"}
    )
    assert (recipe.steps, recipe.epochs, recipe.lora.rank, recipe.lr) == (5, None, 2, 1e-5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"steps": 1, "learning_rate": 1}, "no word of a training recipe named 'learning_rate'"),
        ({"steps": 1, "lora": {"ranks": 2}}, "did you mean 'rank'"),
        ({}, "say either steps or epochs"),
        ({"steps": 1, "epochs": 1}, "say either steps or epochs"),
        ({"steps": 1, "split": "test"}, "nothing is trained or chosen on test"),
        ({"steps": 1, "validation": {"split": "test"}}, "nothing is trained or chosen on test"),
        ({"steps": 1, "validation": {"split": "train"}}, "train is what it learns from"),
        ({"steps": 1, "batch": 2, "micro_batch": 4}, "4 is more than 2"),
        ({"steps": 1, "output": "adapter"}, "an adapter is what method lora makes"),
        ({"steps": 1, "lora": {"rank": 2}}, "belongs to method lora"),
        ({"steps": 1, "weights": "bfloat16"}, "say precision: bfloat16 too"),
        ({"steps": 0}, "steps: Input should be greater than or equal to 1"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(words: dict[str, Any], said: str) -> None:
    with pytest.raises(RecipeError) as refused:
        read_training_recipe(words)
    assert said in str(refused.value)


def test_an_unknown_recipe_is_told_with_what_was_meant(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="did you mean 'fusionbench-clip'"):
        read_training_recipe("fusionbench-clp")
    (tmp_path / "mine.yaml").write_text("steps: 3\nlr: 1.0e-3\n")
    assert read_training_recipe(tmp_path / "mine.yaml").lr == 1e-3


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        ("constant", [0, 0.5, 1, 1, 1, 1]),
        ("linear", [0, 0.5, 1, 0.75, 0.5, 0.25]),
        ("cosine", [0, 0.5, 1, 0.853553, 0.5, 0.146447]),
    ],
)
def test_the_rate_rises_in_the_warm_up_and_falls_after_it(schedule: str, rates: list[float]) -> None:
    """Six steps, the first two of them warm-up; cosine: (1 + cos(pi k / 4)) / 2 for k = 0 ... 3."""
    recipe = read_training_recipe({"steps": 6, "lr": 1.0, "schedule": schedule, "warmup": 2 / 6})
    at = rate_of(recipe, 6)
    assert [at(step) for step in range(6)] == pytest.approx(rates, abs=1e-6)


def test_the_rates_are_those_of_transformers_schedules() -> None:
    import torch
    from transformers import get_cosine_schedule_with_warmup

    sgd = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=2e-5)
    theirs = get_cosine_schedule_with_warmup(sgd, num_warmup_steps=3, num_training_steps=10)
    at = rate_of(read_training_recipe({"steps": 10, "lr": 2e-5, "warmup": 0.3}), 10)
    for step in range(10):
        assert at(step) == pytest.approx(theirs.get_last_lr()[0])
        sgd.step()
        theirs.step()
