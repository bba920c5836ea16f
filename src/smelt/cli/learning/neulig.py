"""`smelt neulig`: experts in, one Portland out that tells for each picture how to merge or to ensemble them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from smelt.cli.from_function import Argument, Given, Option, command
from smelt.cli.options import ALLOW_PICKLE, ANSWER, DEVICE, FORCE, OUT, THREADS, TRUST
from smelt.errors import RecipeError

if TYPE_CHECKING:
    from smelt.learning.neulig.classifier import Collaboration

__all__ = ["neulig"]


@command(
    "smelt.learning.neulig.neulig:neulig",
    "smelt.learning.neulig.fit:FitSettings",
    recipe=Argument(
        "A recipe with a base and experts under `pool`; or say them by --base and --model.",
        metavar="[RECIPE]",
        type=str,
        default=None,
        own=True,
        show_default=False,
    ),
    out=OUT.but("The folder; for a recipe its name with -neulig by default."),
    base=Option("The base: its text tower and heads serve all experts."),
    model=Option("An expert, NAME=REFERENCE; at least two.", type=list[str], default=None, own=True, complete="models"),
    task=Option("NAME=TASK, where an expert's task has another name.", type=list[str], default=None, own=True),
    boosting=Option("supervised, or semi: without labels."),
    alignment=Option("scalar, gram or off."),
    epochs=Option("Passes over the smallest data set.", min=1, default=20),
    rate=Option("Of Adam."),
    batch=Option("Pictures of a step.", min=1, default=32),
    fraction=Option("Of the training pictures."),
    examples=Option("Pictures of every train split.", min=1),
    validation=Option("Pictures of every val split; they choose the epoch.", min=1),
    test=Option(
        "Ask both levels on the test splits: Mer., Ens. and Gap. A recipe is tested unless --no-test.",
        switch=True,
        type=bool,
        default=None,
        show_default=False,
    ),
    limit=Option("Pictures of every test split.", min=1),
    seed=Option("Of Portland's start and of the pictures' order.", min=0),
    device=DEVICE,
    threads=THREADS,
    allow_pickle=ALLOW_PICKLE,
    trust_remote_code=TRUST,
    force=FORCE,
    **ANSWER,
)
def neulig(given: Given) -> None:
    """Fit one vector of coefficients per picture that serves merging and ensembling alike (NeuLig).

    \b
    smelt neulig experts.yaml                       a recipe's models: Mer., Ens. and Gap on the tasks of their names
    smelt neulig --base zoo:clip-tiny --model photos=zoo:clip-tiny-photos --model digits=zoo:clip-tiny-digits -o OUT
    smelt eval OUT --tasks photos,digits            every picture by its own merged model
    smelt eval OUT --tasks photos --level both      merged (Mer.), ensembled (Ens.), and the gap between them
    smelt merge OUT/recipes/photos.yaml -o photos   one merged model for the whole task
    """
    tasks = _named(given["task"] or [], "--task")
    if bool(given["recipe"]) == bool(given["model"]):
        raise RecipeError("give a recipe, or experts with --model NAME=REFERENCE (at least two) and their --base")
    experts = given["recipe"] or _named(given["model"], "--model")
    test = bool(given["recipe"]) if given["test"] is None else given["test"]
    found: Collaboration = given.call(experts, tasks=tasks, test=test)
    note, out = found.note, found.label

    def show() -> None:
        found.print()
        typer.echo(f"epoch {note.chosen} of {given['epochs']} was chosen; written: {out}")

    scores = {"levels": found.scores.as_dict()} if found.scores else {}
    given.answer(lambda: {"folder": str(out), **note.model_dump(mode="json"), **scores}, show)


def _named(words: list[str], flag: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not (name and sign and value):
            raise RecipeError(f"{flag}: written NAME=…, got {word!r}")
        if name in found:
            raise RecipeError(f"{flag}: {name!r} is there twice")
        found[name] = value
    return found
