"""The coefficients of whole models that a recipe ends with: of the base first, then of every expert."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import smelt
from smelt.errors import RecipeError
from smelt.recipe.schema import Recipe
from smelt.suites.collaboration.blend import coefficients, heard_gates


def recipe(merge: Any) -> Recipe:
    return Recipe.parse({"pool": {"base": "b", "models": {"one": "1", "two": "2"}}, "merge": merge})


@pytest.mark.parametrize(
    ("merge", "wanted"),
    [
        ("average", [0, 0.5, 0.5]),
        ({"average": {"weights": {"one": 1, "two": 3}}}, [0, 0.25, 0.75]),
        ({"average": {"weights": [1, 3]}}, [0, 0.25, 0.75]),
        ({"average": {"weights": 2}}, [0, 0.5, 0.5]),
        ({"average": {"weights": [0.2, 0.3], "normalize": False}}, [0, 0.2, 0.3]),
        ("task_arithmetic", [0.4, 0.3, 0.3]),  # its own scale is 0.3
        ({"task_arithmetic": {"scale": 0.5}}, [0, 0.5, 0.5]),
        ({"task_arithmetic": {"scale": 1, "weights": {"one": 0.3, "two": 0.5}}}, [0.2, 0.3, 0.5]),
        ({"task_arithmetic": {"scale": 2, "weights": [0.3, 0.5]}}, [-0.6, 0.6, 1.0]),
        ({"task_arithmetic": {"scale": 0.8, "weights": [1, 3], "normalize": True}}, [0.2, 0.2, 0.6]),
    ],
)
def test_coefficients_by_hand(merge: Any, wanted: list[float]) -> None:
    assert coefficients(recipe(merge)) == pytest.approx(wanted)


def test_filters_count_with_their_mean_and_the_entry_for_all_others_does_not() -> None:
    one = [{"filter": "a.*", "value": 0.2}, {"filter": "b.*", "value": 0.4}, {"value": 0.0}]
    weights = {"one": one, "two": [{"filter": "a.*", "value": 0.5}, {"filter": "*", "value": 9.0}]}
    assert coefficients(recipe({"task_arithmetic": {"scale": 1.0, "weights": weights}})) == pytest.approx(
        [1 - 0.3 - 0.5, 0.3, 0.5]
    )
    assert coefficients(recipe({"average": {"weights": [{"value": 2.0}]}})) == pytest.approx([0, 0.5, 0.5])


def test_they_are_the_coefficients_that_the_engine_merges_with() -> None:
    states = {name: {"w": torch.tensor([value])} for name, value in (("base", 10.0), ("one", 1.0), ("two", 100.0))}
    models = {"one": states["one"], "two": states["two"]}
    for merge in (
        "task_arithmetic",
        {"task_arithmetic": {"scale": 0.5, "weights": [1, 3], "normalize": True}},
        {"average": {"weights": [1, 3]}},
    ):
        (name, words) = (merge, {}) if isinstance(merge, str) else next(iter(merge.items()))
        merged = smelt.merge(models, base=states["base"], method=name, **words)
        by_hand = sum(c * states[k]["w"] for c, k in zip(coefficients(recipe(merge)), states, strict=True))
        assert merged["w"].tolist() == pytest.approx(by_hand.tolist(), rel=1e-5)


@pytest.mark.parametrize(
    ("merge", "message"),
    [
        ("ties", "ties has no coefficients of whole models"),
        ("slerp", "slerp has no coefficients of whole models"),
        ([{"dare": {"density": 0.1}}, "task_arithmetic"], "several stages has no coefficients"),
        ({"task_arithmetic": {"scale": {"depth": [0, 1]}}}, "varies over depth"),
        ({"average": {"weights": {"one": {"depth": [0, 1]}, "two": 1}}}, "varies over depth"),
        ({"average": {"weights": {"depth": [0, 1]}}}, "varies over depth"),
    ],
)
def test_others_are_refused(merge: Any, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        coefficients(recipe(merge))


def test_gates_are_heard_inside_the_with_only() -> None:
    routers = {name: torch.nn.Linear(2, 2) for name in ("a", "b")}
    x = torch.ones(3, 2)
    with heard_gates(routers) as heard:
        said = [routers[name](x) for name in ("b", "a")]
    routers["a"](x)
    assert len(heard) == 2
    assert all(torch.equal(one, other) for one, other in zip(heard, said, strict=True))
    assert not heard[0].requires_grad
