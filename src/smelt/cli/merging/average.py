"""`smelt average`: the checkpoints of a training run, averaged."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.cli.from_function import Argument, Given, Option, command
from smelt.cli.options import ALLOW_PICKLE, ANSWER, DTYPE, FORCE, LORA, MODEL_OUT, THREADS

if TYPE_CHECKING:
    from smelt.prepare.average import Averages

__all__ = ["average"]


@command(
    "smelt.prepare.average:average",
    "smelt.prepare.merge:merge",
    "smelt.recipe.words:RecipeWords",
    run=Argument("The folder of a training run: checkpoint-500, ...", metavar="RUN", type=Path),
    out=MODEL_OUT.but(default=None),
    last=Option("How many of the steps, counted from the end.", min=1),
    every=Option("Only every so many-th step, counted from the end.", min=1),
    since=Option("No step before this one.", ("--from", "--since")),
    until=Option("No step after this one.", ("--to", "--until")),
    weights=Option("uniform, linear (later steps more), exponential, wsm-linear, wsm-cosine or wsm-1-sqrt."),
    decay=Option("For exponential: what a step weighs against the next."),
    plan=Option("Merge nothing; say which steps there are, what each weighs and what the merge takes."),
    each=Option("Slide the window over the run: one model for every place."),
    base=Option("Adapters: the model that they adapt.", complete="models"),
    lora=LORA,
    dtype=DTYPE,
    threads=THREADS,
    allow_pickle=ALLOW_PICKLE,
    force=FORCE,
    **ANSWER,
)
def average(given: Given) -> None:
    """Average the checkpoints of a training run into one model.

    \b
    smelt average RUN --last 5 -o OUT
    smelt average RUN --from 1000 --every 2 --weights exponential --decay 0.8 -o OUT
    smelt average RUN --last 8 --weights wsm-1-sqrt --plan
    """
    done: Averages = given.call(quiet=given.silent)
    given.answer(lambda: [dataclasses.asdict(one) for one in done], done.print)
