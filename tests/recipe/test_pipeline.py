"""Pipelines: names of other tools resolve to compositions and say so; the order of stages is checked."""

import pytest

from smelt.errors import RecipeError
from smelt.methods import stages
from smelt.methods.aliases import ALIASES
from smelt.recipe.pipeline import bind, describe
from smelt.recipe.schema import Recipe


def bound(merge, models=("cars", "birds")):
    calls = Recipe.parse({"pool": {"models": ["a", "b"]}, "merge": merge}).merge
    return bind(calls, list(models))


def names(merge):
    return [(b.stage.name, dict(b.values)) for b in bound(merge)[0]]


def test_defaults_are_filled_in():
    ((name, values),) = names({"average": {"weights": [1, 2]}})
    assert name == "average"
    assert values == {"weights": {"cars": 1, "birds": 2}, "normalize": True}


@pytest.mark.parametrize("alias", ALIASES)
def test_every_alias_resolves_and_says_what_it_became(alias):
    pipeline, notes = bound(alias)
    assert [b.stage.name for b in pipeline] == [name for name, _ in ALIASES[alias]]
    assert notes == [f"{alias} is {describe(ALIASES[alias])}"]


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_is_no_name_of_a_method_and_fixes_only_what_there_is(alias):
    assert alias not in stages
    for name, fixed in ALIASES[alias]:
        assert fixed.keys() <= stages[name].parameters.keys()


def test_a_parameter_of_an_alias_goes_to_the_first_stage_that_leaves_it_free():
    pipeline = dict(names({"dare_ties": {"density": 0.3, "weights": [1, 2]}}))
    assert pipeline["dare"]["density"] == 0.3
    assert pipeline["ties"]["density"] == 1.0
    assert pipeline["ties"]["weights"] == {"cars": 1, "birds": 2}


def test_a_method_under_its_own_name_says_nothing():
    assert bound("ties")[1] == []


@pytest.mark.parametrize(
    ("merge", "words"),
    [
        ([{"dare": {"density": 0.5}}], ("dare is a step", "put a method after it")),
        (["ties", "average"], ("one method, not 2", "ties, average")),
        (["ties", {"dare": {"density": 0.5}}], ("dare is a step and goes before the method",)),
        (["lines", "ties"], ("lines is a wrapper and goes after the method",)),
        (["knots", "core_space", "ties"], ("at most one change of basis",)),
        (["ties", "knots"], ("knots is a basis and goes before the method",)),
    ],
)
def test_stages_in_the_wrong_order_are_refused(merge, words):
    with pytest.raises(RecipeError) as caught:
        bound(merge)
    for word in words:
        assert word in str(caught.value)


def test_steps_method_and_wrappers_in_their_order_are_accepted():
    pipeline, _ = bound([{"dare": {"density": 0.5}}, "ties", "lines"])
    assert [b.stage.kind for b in pipeline] == ["step", "method", "wrapper"]


def test_faults_of_all_stages_come_at_once():
    with pytest.raises(RecipeError) as caught:
        bound([{"dare": {"densty": 0.5}}, {"ties": {"scael": 1}}, "nonsense"])
    for word in ("'densty'", "'scael'", "'nonsense'"):
        assert word in str(caught.value)


def test_describe_shows_values_and_brackets_only_where_needed():
    assert describe([("average", {})]) == "average"
    assert describe([("dare", {"density": 0.1}), ("ties", {})]) == "[dare(density=0.1), ties]"
