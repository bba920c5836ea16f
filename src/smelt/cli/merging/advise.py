"""`smelt advise`: which method to merge language models with, given what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from smelt.cli.from_function import Given, Option, command
from smelt.cli.options import BASE, FORCE, JSON, MODEL, OUT
from smelt.cli.request import named_models
from smelt.errors import RecipeError

if TYPE_CHECKING:
    from smelt.advice.advise import Advice

__all__ = ["advise"]


@command(
    "smelt.advice.advise:advise",
    base=BASE.but(own=False),
    model=MODEL,
    validation=Option("Tasks to choose a setting on (never the tests).", type=str),
    no_validation=Option("There is no validation data.", type=bool, default=False, own=True),
    training=Option("Tasks with training data: MODEL=TASK,... or named as the models.", type=str),
    minutes=Option("Time for choosing a setting."),
    validation_minutes=Option("What one evaluation of one model takes."),
    memory=Option("Of the machine or its accelerator, e.g. 16GB.", type=str),
    base_kind=Option("pretrained or instruct; by the base's name unless given."),
    size=Option("Parameters of the base, as 8B; from its files unless given.", type=str),
    out=OUT.but("A file to write the recipe to."),
    force=FORCE.but("Replace a file that exists."),
    as_json=JSON,
)
def advise(given: Given) -> None:
    """Recommend a merge method for language models, say why, and print a whole recipe.

    The advice is MergeBench's guideline; it names the rows that it rests on, the paper's and this project's own.

    \b
    smelt advise --size 8B --base-kind instruct --validation llm5-val
    smelt advise --base B --model maths=M --model coding=C --training maths,coding --memory 24GB -o recipe.yaml
    """
    if given["validation"] and given["no_validation"]:
        raise RecipeError("--validation and --no-validation say opposite things; give one of them")
    model = given["model"]
    advice: Advice = given.call(named_models(model) if model else None)

    def show() -> None:
        advice.print()
        if given["out"] is not None:
            typer.echo(f"{'written':10}{given['out']}")

    given.answer(advice.to_json, show, ascii=False)
