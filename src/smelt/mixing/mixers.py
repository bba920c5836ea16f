"""The ways to mix, by name, and what a recipe for one of them may say."""

from __future__ import annotations

from typing import Any

from smelt.errors import RecipeError, unknown
from smelt.methods.method import Stage
from smelt.mixing.wemoe import WeMoE
from smelt.recipe.schema import Recipe
from smelt.recipe.values import check, constant

__all__ = ["ROUTED", "check_mixer", "mixers", "read_mixer"]

mixers: dict[str, Stage] = {"wemoe": Stage("wemoe", "method", WeMoE, paper="2402.00433")}
"""Every way to mix; a recipe names it under `merge` like a merge method."""

ROUTED = {"clip": "vision_model.encoder.layers.*.mlp"}
"""The MLP of a block, by family: what is routed where the recipe does not say."""

_WORDS = frozenset("pool merge data dtype seed include skip missing config shard_size allow_pickle".split())
"""`missing` and `config` say what a mixture does anyway: what experts lack, and its config, are the base's."""


def check_mixer(recipe: Recipe) -> None:
    """Refuse a recipe that cannot be mixed, with every reason; no model is opened."""
    read_mixer(recipe)


def read_mixer(recipe: Recipe) -> WeMoE:
    """The parameters of the one way to mix that a recipe names."""
    names = [call.name for call in recipe.merge]
    if len(names) != 1:
        raise RecipeError(f"a mixture is one stage, not a pipeline of {', '.join(names)}; write `merge: wemoe`")
    if names[0] not in mixers:
        raise RecipeError(unknown("way to mix", names[0], mixers) + "; `smelt merge` merges by a merge method")
    stage, given = mixers[names[0]], dict(recipe.merge[0].parameters)
    models = list(recipe.pool.models)
    faults = check(stage, given, models)
    faults += [f"{names[0]}.{word} is one value for the whole model, got {given[word]!r}" for word in _varying(given)]
    if recipe.pool.base is None:
        faults.append(f"{names[0]} needs the base that the models were fine-tuned from: `pool: {{base: REF}}`")
    top = given.get("top")
    if isinstance(top, int) and top > len(models):
        faults.append(
            f"{names[0]}.top: there are {len(models)} models, so at most {len(models)} can be used, got {top}"
        )
    faults += [f"{word}: a mixture does not know this word of a recipe" for word in recipe.dump() if word not in _WORDS]
    if faults:
        raise RecipeError(
            faults[0] if len(faults) == 1 else "it cannot be mixed:" + "".join(f"\n  - {f}" for f in faults)
        )
    return WeMoE(**{name: stage.parameters[name].adapter.validate_python(value) for name, value in given.items()})


def _varying(given: dict[str, Any]) -> list[str]:
    return [word for word, value in given.items() if not constant(value) or isinstance(value, dict)]
