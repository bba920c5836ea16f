"""Merges whose `scale` only stretches the merged change, so that one merge gives them all:

    merged(s) = base + s * (merged(1) - base)

In: a recipe. Out: the same recipe at another scale, and whether the equation above holds for it: where the method and
all that follows it declare that they stretch (`Stage.stretches`, which a law checks). Steps come before the scale and
do not know it.
"""

from __future__ import annotations

from smelt.errors import RecipeError
from smelt.methods import stages
from smelt.methods.aliases import ALIASES
from smelt.recipe.pipeline import bind
from smelt.recipe.schema import Recipe

__all__ = ["at_scale", "is_exact", "is_linear", "scaled_methods"]


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
    after = [one.stage for one in bound if one.stage.kind != "step"]
    return plain and recipe.pool.base is not None and all(stage.stretches for stage in after)


def is_exact(recipe: Recipe) -> bool:
    """Whether it gives them to the bit: the method's is then the last word, without a wrapper or a way back."""
    bound, _ = bind(recipe.merge, list(recipe.pool.models))
    return is_linear(recipe) and all(one.stage.kind in ("step", "method") for one in bound)
