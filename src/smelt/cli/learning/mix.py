"""`smelt mix`: models in, one larger model out that chooses between them for each picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.cli.from_function import Given, Option, command
from smelt.cli.options import ANSWER, FORCE, LOADING, METHOD, MODELS, OUT, RECIPE, TEXT_FROM
from smelt.cli.request import request

if TYPE_CHECKING:
    from smelt.mixing.mix import Mixed

__all__ = ["mix"]


@command(
    "smelt.mixing.mix:mix",
    "smelt.recipe.words:RecipeWords",
    "smelt.recipe.words:MergeWords",
    recipe=RECIPE,
    out=OUT.but("The folder to write; in the cache if not given."),
    method=METHOD.but("A way to mix; wemoe by default."),
    **MODELS,
    steps=Option("Of learning; over the recipe's.", min=0),
    seed=Option("Of the routers' start and the examples' order.", min=0),
    routers=Option("Read learned routers from this file and learn nothing.", type=Path),
    text_from=TEXT_FROM.but("The model with the text tower, if the base has none."),
    **LOADING,
    resume=Option("Go on with a run that was interrupted.", switch=True),
    force=FORCE,
    **ANSWER,
)
def mix(given: Given) -> None:
    """Mix models into one larger model (weight-ensembling mixture of experts).

    \b
    smelt mix RECIPE.yaml -o OUT
    smelt mix --base B --model photos=A1 --model digits=A2 --set steps=300 -o OUT
    """
    models, words = request(given)
    done: Mixed = given.call(models, **words)
    given.answer(lambda: _as_dict(done), done.print)


def _as_dict(done: Mixed) -> dict[str, Any]:
    return {
        "folder": str(done.folder),
        "cached": done.cached,
        "seconds": done.seconds,
        "note": done.note.model_dump(),
        "routing": done.routing,
    }
