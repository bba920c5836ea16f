"""What every stage says about itself: when to use it, what each parameter does, an example that can be merged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Literal, get_args, get_origin

import pytest
import yaml

import smelt
from smelt.methods import Stage, stages
from smelt.methods.explanation import example_recipe, explain
from smelt.methods.method import Parameter
from smelt.prepare.prepare import stages_with_data
from smelt.recipe.schema import Recipe

LEARNED = stages_with_data()
OWN = [pytest.param(one, id=one.name) for one in stages.values() if one.function.__module__.startswith("smelt.")]
ALL = OWN + [pytest.param(one, id=f"{name}-with-data") for name, one in LEARNED.items()]
DOC = """Half: half of it.

    out = base + half * d

Somebody 2020. No
differences.

Use it for halves:
they are small. Avoid it for wholes.

Its parameters:
    half: how much. Try `0.5`, or
        `0.25` with `over: row`.
    over: `row` or `tensor`.

Example:
    merge: {half: {half: 0.5}}
    seed: 1
"""


def test_a_docstring_is_taken_apart() -> None:
    said = explain(SimpleNamespace(doc=DOC))  # type: ignore[arg-type]
    assert said.text == "Half: half of it.\n\n    out = base + half * d\n\nSomebody 2020. No\ndifferences."
    assert said.use == "Use it for halves: they are small."
    assert said.avoid == "Avoid it for wholes."
    assert said.parameters["half"].text == "how much. Try `0.5`, or `0.25` with `over: row`."
    assert said.parameters["half"].sensible == ("0.5", "0.25")
    assert said.parameters["over"].values == ("row", "tensor")
    assert said.parameters["over"].sensible == ()
    assert said.example == "merge: {half: {half: 0.5}}\nseed: 1"


def test_a_plug_in_that_says_less_is_shown_all_the_same() -> None:
    said = explain(SimpleNamespace(doc="Half: half of it."))  # type: ignore[arg-type]
    assert (said.text, said.use, said.avoid, said.parameters, said.example) == ("Half: half of it.", "", "", {}, "")


@pytest.mark.parametrize("stage", ALL)
def test_it_says_when_to_use_it_and_when_not(stage: Stage) -> None:
    said = explain(stage)
    assert len(said.use) > 40
    assert len(said.avoid) > 40
    assert stage.latex


@pytest.mark.parametrize("stage", ALL)
def test_every_parameter_is_explained_and_no_other(stage: Stage) -> None:
    assert list(explain(stage).parameters) == list(stage.parameters)


@pytest.mark.parametrize("stage", ALL)
def test_a_choice_explains_each_option_and_any_other_parameter_names_values_to_try(stage: Stage) -> None:
    for name, said in explain(stage).parameters.items():
        if options := choices(stage.parameters[name]):
            assert options <= set(said.values), f"{name} does not explain all of {sorted(options)}"
        else:
            assert said.sensible, f"{name} names no value to try"


@pytest.mark.parametrize("stage", ALL)
def test_values_to_try_are_accepted(stage: Stage) -> None:
    """By the parameter's type, and where the other parameters are as they are by default by the stage's fold."""
    defaults = {one.name: 0.001 if one.required else one.default for one in stage.parameters.values()}
    for name, said in explain(stage).parameters.items():
        for value in said.sensible:
            accepted = stage.parameters[name].adapter.validate_python(yaml.safe_load(value))
            stage.fold_for(columns(stage, {**defaults, name: accepted}))


@pytest.mark.parametrize("stage", ALL)
def test_the_example_can_be_merged(stage: Stage) -> None:
    """It names the stage, or for a stage that is never named by users what leads to it, and it can be planned."""
    recipe = Recipe.parse(yaml.safe_load(example_recipe(stage)))
    names = [call.name for call in recipe.merge]
    assert stage.name in names or (stage.name, names) == ("stitch", ["localize"])
    if stage.name == "wemoe":
        return  # a mixture has no plan
    assert smelt.plan(recipe).merged > 0


def choices(parameter: Parameter) -> set[str]:
    if parameter.annotation is bool:
        return {"true", "false"}
    return set(get_args(parameter.annotation)) if get_origin(parameter.annotation) is Literal else set()


def columns(stage: Stage, values: dict[str, Any]) -> dict[str, Any]:
    """As a fold is given them: a list for what each model has its own of."""
    count = stage.models[1] or 3
    return {name: [value] * count if stage.parameters[name].per_model else value for name, value in values.items()}
