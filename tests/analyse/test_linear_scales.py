"""The equation merged(s) = base + s (merged(1) - base), for every stage by the fact of being registered."""

import pytest
import torch

import smelt
from smelt.engine.scales import at_scale, is_exact, is_linear, scaled_methods
from smelt.errors import RecipeError
from smelt.methods import stages
from smelt.recipe.schema import Recipe
from smelt.testing.laws import variants
from smelt.testing.made_up import made_up
from smelt.testing.pico import BUFFER, pico

METHODS = scaled_methods()
WRAPPERS = sorted(name for name, stage in stages.items() if stage.kind == "wrapper")
BEFORE = sorted(name for name, stage in stages.items() if stage.kind in ("step", "basis"))
POOL = {"base": "b", "models": {"red": "r", "green": "g"}}


def departure(pipeline, models=3, scale=0.37):
    """How far the equation is from holding, in float32 roundings of the largest weight or change."""
    pool = pico(models)
    recipe = Recipe.parse({"pool": {"base": "b", "models": dict.fromkeys(pool.models, "m")}, "merge": pipeline})

    kinds = [kind for call in recipe.merge if (kind := stages[call.name].statistics)]
    words = {"statistics": made_up(kinds[0], pool)} if kinds else {}

    def merged(at):
        method = [(call.name, call.parameters) for call in at_scale(recipe, at).merge]
        return smelt.merge(pool.models, base=pool.base, method=method, **words)

    one, other = merged(1.0), merged(scale)
    worst = 0.0
    for key in one.keys() - {BUFFER}:
        expected = pool.base[key] + scale * (one[key] - pool.base[key])
        size = max(float(t.abs().max()) for t in (pool.base[key], one[key], other[key]))
        worst = max(worst, float((other[key] - expected).abs().max()) / size / torch.finfo(torch.float32).eps)
    return worst


def models_of(method):
    return stages[method].models[1] or 3


@pytest.mark.parametrize("method", METHODS)
def test_a_method_is_linear_in_its_scale_if_it_says_so_and_only_then(method):
    options = [{}, *(v for v in variants(stages[method]) if "scale" not in v)]
    departures = [departure([{method: option}], models_of(method)) for option in options]
    if stages[method].stretches:
        assert max(departures) < 8
    else:
        assert max(departures) > 1000


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_wrapper_keeps_a_method_linear_if_it_says_so_and_only_then(wrapper):
    assert (departure(["task_arithmetic", wrapper]) < 8) == stages[wrapper].stretches


@pytest.mark.parametrize("stage", BEFORE)
def test_steps_and_bases_keep_a_method_linear(stage):
    assert departure([stage, "ties"]) < 8


def test_what_does_not_stretch_is_known_by_name():
    quiet = [name for name in [*METHODS, *WRAPPERS] if not stages[name].stretches]
    assert quiet == ["passthrough", "svc"]
    assert all(stages[name].stretches for name in BEFORE if stages[name].kind == "basis")


def test_the_scale_goes_to_the_method_and_the_rest_stays():
    recipe = Recipe.parse({"pool": POOL, "merge": [{"dare": {"density": 0.5}}, {"ties": {"density": 0.2}}, "lines"]})
    made = at_scale(recipe, 0.4)
    assert made.dump()["merge"] == [{"dare": {"density": 0.5}}, {"ties": {"density": 0.2, "scale": 0.4}}, "lines"]
    assert Recipe.parse(made.dump()) == made
    assert at_scale(Recipe.parse({"pool": POOL, "merge": "ties_merging"}), 0.4).dump()["merge"] == [
        {"ties_merging": {"scale": 0.4}}
    ]


def test_a_method_without_scale_is_refused_with_those_that_have_one():
    with pytest.raises(RecipeError, match=r"average has no scale to vary; there is one in: .*task_arithmetic"):
        at_scale(Recipe.parse({"pool": POOL, "merge": "average"}), 0.5)
    with pytest.raises(RecipeError, match="did you mean 'ties'"):
        at_scale(Recipe.parse({"pool": POOL, "merge": "tise"}), 0.5)


def test_recipes_that_need_a_merge_for_each_scale_are_known():
    plain = {"pool": POOL, "merge": "ties"}
    assert is_linear(Recipe.parse(plain))
    assert not is_linear(Recipe.parse({**plain, "merge": ["task_arithmetic", "svc"]}))
    assert not is_linear(Recipe.parse({**plain, "merge": "passthrough"}))
    assert not is_linear(Recipe.parse({**plain, "parts": [{"keys": "head.*", "merge": "average"}]}))
    assert not is_linear(Recipe.parse({**plain, "vocab": "union"}))


def test_a_scale_is_exact_where_nothing_follows_it():
    plain = {"pool": POOL, "merge": ["dare", "ties"]}
    assert is_exact(Recipe.parse(plain))
    for follows in (["ties", "lines"], ["knots", "ties"]):
        recipe = Recipe.parse({**plain, "merge": follows})
        assert is_linear(recipe)
        assert not is_exact(recipe)
    assert not is_exact(Recipe.parse({**plain, "merge": "passthrough"}))
