"""What may vary: words checked against the stages, grids counted, recipes at a point."""

from __future__ import annotations

from typing import Any

import pytest

from smelt.errors import RecipeError
from smelt.methods import stages
from smelt.recipe.schema import Recipe
from smelt.search.grids import grids, shipped_phases
from smelt.search.space import read_space, recipe_at

POOL = {"base": "b", "models": {"cars": "c", "birds": "d"}}


def recipe(merge: Any = "ties", tune: Any = None) -> Recipe:
    return Recipe.parse({"pool": POOL, "merge": merge, **({} if tune is None else {"tune": tune})})


def spaces(merge: Any, tune: Any) -> Any:
    made = recipe(merge, tune)
    assert made.tune is not None
    return read_space(made, made.tune)


def test_a_recipe_with_tune_reads_back_equal() -> None:
    for tune in ({"ties.scale": [0.1, 1]}, {"ties.scale": {"low": 0.1, "high": 2, "log": True}}, [{"ties.scale": [1]}]):
        made = recipe("ties", tune)
        assert Recipe.parse(made.dump()) == made
    two = [{"ties.density": [0.1]}, {"ties.scale": {"low": 0, "high": 1, "step": 0.5}}]
    assert recipe("ties", two).dump()["tune"] == two


def test_a_grid_is_every_combination_and_the_last_word_varies_first() -> None:
    (space,) = spaces("ties", {"ties.merge": ["sum", "mean"], "ties.scale": {"low": 0.1, "high": 0.35, "step": 0.1}})
    assert [tuple(point.values()) for point in space.points()] == [
        (merge, scale) for merge in ("sum", "mean") for scale in (0.1, 0.2, 0.3)
    ]
    assert space.rank({"ties.merge": "mean", "ties.scale": 0.2}) == (1, 0.2)


def test_a_point_changes_its_parameters_and_nothing_else_and_ends_the_tuning() -> None:
    before = recipe([{"dare": {"density": 0.5}}, {"ties": {"elect": "count"}}], {"ties.scale": [1.0]})
    after = recipe_at(before, {"ties.scale": 0.7, "dare.density": 0.1})
    assert after.dump()["merge"] == [{"dare": {"density": 0.1}}, {"ties": {"elect": "count", "scale": 0.7}}]
    assert after.tune is None
    assert after.pool == before.pool


def test_one_models_value_leaves_the_others_as_they_were() -> None:
    point = {"task_arithmetic.weights.birds": 3.0}
    for given, cars in ((None, 1.0), (0.5, 0.5), ([2.0, 9.0], 2.0), ({"cars": 4.0, "birds": 9.0}, 4.0)):
        merge = {"task_arithmetic": {} if given is None else {"weights": given}}
        weights = recipe_at(recipe(merge), point).merge[0].parameters["weights"]
        assert weights == {"cars": cars, "birds": 3.0}


def test_a_star_is_one_phase_per_model() -> None:
    phases = spaces("consensus", [{"consensus.threshold.*": [0.2, 0.4]}, {"consensus.scale": [0.3]}])
    assert [list(space.spreads) for space in phases] == [
        ["consensus.threshold.cars"],
        ["consensus.threshold.birds"],
        ["consensus.scale"],
    ]


@pytest.mark.parametrize(
    ("merge", "tune", "said"),
    [
        ("ties", {"tise.scale": [1]}, "tune.tise.scale: no stage of the recipe named 'tise' .did you mean 'ties'"),
        ("ties", {"ties.densty": [1]}, "ties has no parameter 'densty' .did you mean 'density'..; it has: "),
        ("ties", {"ties.density": [0.1, 1.5]}, "ties.density: .*less than or equal to 1, got 1.5"),
        ("ties", {"ties.density": {"low": 0, "high": 1}}, "ties.density: .*greater than 0, got 0"),
        ("ties", {"ties.merge": ["sum", "men"]}, "ties.merge: "),
        ("consensus", {"consensus.agree.cars": [1]}, "one value for all models, so 'cars' has none of its own"),
        ("task_arithmetic", {"task_arithmetic.weights.car": [1]}, "no model named 'car' .did you mean 'cars'"),
        ("consensus", {"consensus.agree": {"low": 1, "high": 2.5}}, "takes whole numbers"),
        ("consensus", {"consensus.threshold.*": [0.2], "consensus.scale": [1]}, "is tuned model after model"),
        ("ties", [{"ties.scale": [1]}, {"ties.scale": [2]}], "stands in two tables"),
        ("ties", [{"ties.scale": {"low": 0, "high": 1}}, {"ties.density": [1]}], "one after the other hold lists"),
        ([{"dare": {"density": 0.5}}, {"dare": {"density": 0.2}}, "ties"], {"dare.density": [1]}, "dare 2 times"),
    ],
)
def test_a_word_or_value_that_no_stage_takes_is_refused(merge: Any, tune: Any, said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        spaces(merge, tune)


def test_a_parameter_that_one_stage_has_needs_no_stage() -> None:
    (space,) = spaces([{"dare": {"density": 0.5}}, "ties"], {"scale": [0.3, 1.0]})
    assert space.points() == [{"ties.scale": 0.3}, {"ties.scale": 1.0}]


def test_one_that_two_stages_have_is_refused_with_both_spellings_and_all_faults_at_once() -> None:
    tune = {"density": [0.1], "scal": [1], "scale": [1], "ties.scale": [2]}
    with pytest.raises(RecipeError) as caught:
        spaces([{"dare": {"density": 0.5}}, "ties"], tune)
    assert "tune.density: dare and ties both have it; write dare.density or ties.density" in str(caught.value)
    assert "tune.scal: no parameter of the recipe named 'scal' (did you mean 'scale'?)" in str(caught.value)
    assert "tune.ties.scale: is the same as ties.scale, which stands beside it" in str(caught.value)


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(RecipeError, match="has faults") as caught:
        spaces("ties", {"ties.densty": [1], "ties.scale": ["high"], "tise.scale": [1]})
    assert str(caught.value).count("\n  - ") == 3


@pytest.mark.parametrize(
    ("tune", "said"),
    [
        ({}, "is a table {stage.parameter: values}"),
        ({"ties.": [1]}, "written stage.parameter, e.g. ties.density, or density alone; got 'ties.'"),
        ({"ties.scale": []}, "ties.scale lists no value to try"),
        ({"ties.scale": [1, 2, 1]}, "ties.scale lists 1 twice"),
        ({"ties.scale": 0.3}, "is a list of values or"),
        ({"ties.scale": {"lo": 0, "high": 1}}, "no word of a range named 'lo' .did you mean 'low'"),
        ({"ties.scale": {"low": 1, "high": 0}}, "low is below high"),
        ({"ties.scale": {"low": 0, "high": 1, "log": True}}, "on a log scale low is above 0"),
        ({"ties.scale": {"low": 0, "high": 1, "step": 0}}, "a step is above 0"),
        ({"ties.scale": {"low": 0}}, "a range is {low: number"),
    ],
)
def test_a_malformed_tune_word_is_refused_by_the_recipe(tune: Any, said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        recipe("ties", tune)


def test_whole_numbers_stay_whole() -> None:
    (space,) = spaces("consensus", {"consensus.agree": {"low": 1, "high": 3, "step": 1}})
    assert [type(point["consensus.agree"]) for point in space.points()] == [int] * 3


@pytest.mark.parametrize(
    ("merge", "sizes"),
    [
        ("task_arithmetic", [10]),
        ("ties", [30]),
        (["dare", "task_arithmetic"], [30]),
        ("dare_task_arithmetic", [30]),
        ("localize_and_stitch", [5]),
        ("consensus", [5, 5, 10]),
    ],
)
def test_the_shipped_grids_are_mergebenchs(merge: Any, sizes: list[int]) -> None:
    made = recipe(merge)
    assert [len(space.points()) for space in read_space(made, shipped_phases(made))] == sizes


def test_every_shipped_grid_fits_its_stage() -> None:
    for name, phases in grids().items():
        if name not in stages:
            continue  # a method that is measured or learned is checked where it lives
        for phase in phases:
            assert {word.removesuffix(".*") for word in phase} <= stages[name].parameters.keys()


def test_a_method_without_a_grid_says_what_to_write() -> None:
    with pytest.raises(RecipeError, match=r"no grid is shipped for karcher .there is one for: task_arithmetic, ties"):
        shipped_phases(recipe("karcher"))
