"""`smelt learn`: a recipe that needs data in, an ordinary recipe out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.cli.from_function import Given, Option, command
from smelt.cli.options import ANSWER, LOADING, MEMORY, METHOD, MODELS, OUT, RECIPE, TEXT_FROM
from smelt.cli.request import request

if TYPE_CHECKING:
    from smelt.learning.learn import Learned

__all__ = ["learn"]


@command(
    "smelt.learning.learn:learn",
    "smelt.recipe.words:RecipeWords",
    "smelt.recipe.words:MergeWords",
    recipe=RECIPE,
    out=OUT.but("The folder for the result; the cache by default."),
    method=METHOD.but("adamerging, adarank, localize or tuned."),
    **MODELS,
    steps=Option("Steps of the optimiser, instead of the recipe's.", min=1),
    seed=Option("For the order of the examples.", min=0),
    text_from=TEXT_FROM.but("The CLIP model with the text tower, if the base is a picture tower alone."),
    **LOADING,
    memory=MEMORY.but("Limit for where the network computes, e.g. 80GB; what is free there by default."),
    resume=Option("Go on with a run that was interrupted.", switch=True),
    **ANSWER,
)
def learn(given: Given) -> None:
    """Learn from data how to merge models; the result is an ordinary recipe.

    \b
    smelt learn RECIPE.yaml -o OUT
    smelt learn -m adamerging --base B --model photos=A1 --model digits=A2 --set steps=200 -o OUT
    """
    models, words = request(given)
    done: Learned = given.call(models, **words)
    given.answer(lambda: _as_dict(done), done.print, ascii=False)


def _as_dict(done: Learned) -> dict[str, object]:
    return {
        "folder": str(done.folder),
        "recipe": done.recipe.dump(),
        "coefficients": done.coefficients.means if done.coefficients else None,
        "loss": {name: {"first": first, "last": last} for name, (first, last) in done.losses.items()},
        "steps": len(done.trace),
        "budget": done.budget.model_dump(),
        "seconds": done.seconds,
        "cached": done.cached,
        "device": done.device,
        "peak_bytes": done.peak_bytes,
    }
