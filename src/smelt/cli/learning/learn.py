"""`smelt learn`: a recipe that needs data in, an ordinary recipe out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from smelt.cli.from_function import Given, Option, command
from smelt.cli.learning.table import print_table
from smelt.cli.options import ANSWER, LOADING, METHOD, MODELS, OUT, RECIPE, TEXT_FROM
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
    given.answer(lambda: _as_dict(done), lambda: _show(done), ascii=False)


def _as_dict(done: Learned) -> dict[str, object]:
    first, last = _ends(done.trace)
    return {
        "folder": str(done.folder),
        "recipe": done.recipe.dump(),
        "coefficients": done.coefficients.means if done.coefficients else None,
        "loss": {name: {"first": first[name], "last": last[name]} for name in last},
        "steps": len(done.trace),
        "budget": done.budget.model_dump(),
        "seconds": done.seconds,
        "cached": done.cached,
        "device": done.device,
        "peak_bytes": done.peak_bytes,
    }


def _show(done: Learned) -> None:
    first, last = _ends(done.trace)
    headings = ("model", "first step", "last step", *(["mean coefficient"] if done.coefficients else []))
    means = done.coefficients.means if done.coefficients else {}
    rows = [
        [name, f"{first[name]:.3f}", f"{last[name]:.3f}", *([f"{means[name]:.3f}"] if name in means else [])]
        for name in last
    ]
    print_table(headings, rows, title="loss of the merged model", title_justify="left")
    budget = done.budget
    labels = f"{budget.labels:,} labels" if budget.labels else "no labels"
    split = f" of {budget.split}" if budget.split else ""
    was = "was there already; it had taken" if done.cached else "in"
    typer.echo(f"{len(done.trace)} steps {was} {done.seconds:.1f} s; {budget.images:,} examples{split}, {labels}")
    typer.echo(f"next: smelt merge {done.folder / 'recipe.yaml'} -o MODEL")


def _ends(trace: list[dict[str, Any]]) -> tuple[dict[str, float], dict[str, float]]:
    """The first and the last loss of every task."""
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    for line in trace:
        first = line["loss"] | first
        last = last | line["loss"]
    return first, last
