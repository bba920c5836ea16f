"""Merges whose `scale` only stretches the merged change, so that one merge gives them all:

    merged(s) = base + s * (merged(1) - base)

In: a recipe. Out: the same recipe at another scale, and whether the equation above holds for it. Every stage that
comes with Smelt is held to its entry here by a test; a plug-in's stages are merged anew for each scale.
"""

from __future__ import annotations

from smelt.errors import RecipeError
from smelt.merge import Stage, stages
from smelt.merge.aliases import ALIASES
from smelt.recipe.pipeline import bind
from smelt.recipe.schema import Recipe

__all__ = ["NOT_LINEAR", "at_scale", "is_linear", "scaled_methods"]

NOT_LINEAR = {
    "passthrough": "its scale multiplies weights, not changes",
    "svc": "it calibrates against the size of the merged change, which takes the scale out again",
}
"""Stages of Smelt's own that break the equation, and why."""


def scaled_methods() -> list[str]:
    """Every method that has a scale."""
    return sorted(name for name, stage in stages.items() if stage.kind == "method" and "scale" in stage.parameters)


def at_scale(recipe: Recipe, scale: float) -> Recipe:
    """The recipe with its method's `scale` set; everything else stays."""
    calls = list(recipe.merge)
    for number, call in enumerate(calls):
        names = [name for name, _ in ALIASES.get(call.name, [(call.name, {})])]
        method = next((stages[n] for n in names if n in stages and stages[n].kind == "method"), None)
        if method is None:
            continue
        if "scale" not in method.parameters:
            raise RecipeError(f"{method.name} has no scale to vary; there is one in: {', '.join(scaled_methods())}")
        calls[number] = call.model_copy(update={"parameters": {**call.parameters, "scale": scale}})
        return recipe.model_copy(update={"merge": calls})
    bind(recipe.merge, list(recipe.pool.models))  # says what is wrong with a pipeline that has no method
    raise RecipeError("the recipe has no method whose scale could vary")


def is_linear(recipe: Recipe) -> bool:
    """Whether one merge of this recipe gives all its scales."""
    bound, _ = bind(recipe.merge, list(recipe.pool.models))
    plain = not (recipe.parts or recipe.slices or recipe.lora) and recipe.vocab == "refuse"
    return plain and recipe.pool.base is not None and all(_stretches(b.stage) for b in bound)


def _stretches(stage: Stage) -> bool:
    return stage.name not in NOT_LINEAR and stage.function.__module__.startswith("smelt.merge.")
