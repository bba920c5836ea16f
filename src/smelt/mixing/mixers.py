"""The ways to mix, by name, and what a recipe for one of them may say."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from smelt.caller import asked_by_recipe, base_word, pipeline
from smelt.errors import RecipeError, listed, unknown
from smelt.methods.method import Stage
from smelt.recipe.pipeline import check, constant
from smelt.recipe.schema import Recipe
from smelt.registry import Registry

if TYPE_CHECKING:
    from smelt.mixing.wemoe import WeMoE

__all__ = ["ROUTED", "mixer", "mixers", "read_mixer"]

C = TypeVar("C", bound=type)
mixers: Registry[Stage] = Registry(
    "smelt.mixers", own=lambda: {"wemoe": "smelt.mixing.wemoe"}, home=lambda stage: stage.function.__module__
)
"""Every way to mix; a recipe names it under `merge` like a merge method."""

ROUTED = {"clip": "vision_model.encoder.layers.*.mlp"}
"""The MLP of a block, by family: what is routed where the recipe does not say."""

_WORDS = frozenset("pool merge data dtype seed include skip missing config shard_size allow_pickle".split())
"""`missing` and `config` say what a mixture does anyway: what experts lack, and its config, are the base's."""


def mixer(name: str, *, paper: str | None = None, latex: str = "") -> Callable[[C], C]:
    """Register the parameters of a way to mix, a data class, under a name."""

    def decorate(parameters: C) -> C:
        mixers[name] = Stage(name, "method", parameters, paper=paper, latex=latex)
        return parameters

    return decorate


def read_mixer(recipe: Recipe) -> WeMoE:
    """The parameters of the one way to mix that a recipe names, or a RecipeError with every fault; opens no model."""
    with asked_by_recipe(recipe.stated):
        return _read(recipe)


def _read(recipe: Recipe) -> WeMoE:
    names = [call.name for call in recipe.merge]
    if len(names) != 1:
        raise RecipeError(f"a mixture is one stage, not a pipeline of {', '.join(names)}; write {pipeline(['wemoe'])}")
    if names[0] not in mixers:
        raise RecipeError(unknown("way to mix", names[0], mixers) + "; `smelt merge` merges by a merge method")
    stage, given = mixers[names[0]], dict(recipe.merge[0].parameters)
    models = list(recipe.pool.models)
    faults = check(stage, given, models)
    faults += [f"{names[0]}.{word} is one value for the whole model, got {given[word]!r}" for word in _varying(given)]
    if recipe.pool.base is None:
        faults.append(f"{names[0]} needs the base that the models were fine-tuned from: {base_word()}")
    top = given.get("top")
    if isinstance(top, int) and top > len(models):
        faults.append(
            f"{names[0]}.top: there are {len(models)} models, so at most {len(models)} can be used, got {top}"
        )
    faults += [f"{word}: a mixture does not know this word of a recipe" for word in recipe.dump() if word not in _WORDS]
    if faults:
        raise RecipeError(listed(faults, "it cannot be mixed:"))
    values = {name: stage.parameters[name].adapter.validate_python(value) for name, value in given.items()}
    parameters: WeMoE = stage.function(**values)
    return parameters


def _varying(given: dict[str, Any]) -> list[str]:
    return [word for word, value in given.items() if not constant(value) or isinstance(value, dict)]
