"""`smelt advise`: which method to merge language models with, given what there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smelt.cli.request import BaseOption, JsonOption, ModelOption, named_models
from smelt.errors import RecipeError

if TYPE_CHECKING:
    from smelt.advice.advise import Advice

__all__ = ["advise"]


def advise(
    base: BaseOption = None,
    model: ModelOption = None,
    validation: Annotated[
        str | None, typer.Option("--validation", help="Tasks to choose a setting on (never the tests).")
    ] = None,
    no_validation: Annotated[bool, typer.Option("--no-validation", help="There is no validation data.")] = False,
    training: Annotated[
        str | None, typer.Option("--training", help="Tasks with training data: MODEL=TASK,... or named as the models.")
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="Time for choosing a setting.")] = None,
    validation_minutes: Annotated[float | None, typer.Option(help="What one evaluation of one model takes.")] = None,
    memory: Annotated[str | None, typer.Option(help="Of the machine or its accelerator, e.g. 16GB.")] = None,
    base_kind: Annotated[
        str | None, typer.Option(help="pretrained or instruct; by the base's name unless given.")
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="Parameters of the base, as 8B; from its files unless given.")
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="A file to write the recipe to.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Recommend a merge method for language models, say why, and print a whole recipe.

    The advice is MergeBench's guideline; it names the rows that it rests on, the paper's and this project's own.

    \b
    smelt advise --size 8B --base-kind instruct --validation llm5-val
    smelt advise --base B --model maths=M --model coding=C --training maths,coding --memory 24GB -o recipe.yaml
    """
    if validation and no_validation:
        raise RecipeError("--validation and --no-validation say opposite things; give one of them")

    from smelt.advice.advise import advise as ask

    advice = ask(
        named_models(model) if model else None,
        base=base,
        validation=validation,
        training=training,
        minutes=minutes,
        validation_minutes=validation_minutes,
        memory=memory,
        base_kind=base_kind,
        size=size,
        out=out,
        force=force,
    )
    if as_json:
        typer.echo(json.dumps(advice.to_json(), indent=2, ensure_ascii=False))
    else:
        _show(advice, out)


def _show(advice: Advice, out: Path | None) -> None:
    second = f"; second choice: {advice.second_name} ({advice.second})" if advice.second else ""
    typer.echo(f"method   {advice.name} ({advice.method}){second}")
    for number, sentence in enumerate(advice.why):
        typer.echo(f"{'' if number else 'why':9}{sentence}")
    typer.echo(f"{'expect':9}{advice.expect}")
    for number, note in enumerate(advice.taken):
        typer.echo(f"{'' if number else 'taken':9}{note}")
    for number, (name, why) in enumerate(advice.avoided.items()):
        typer.echo(f"{'' if number else 'not':9}{name}: {why}")
    for number, cited in enumerate(advice.citations):
        typer.echo(f"{'' if number else 'rests on':9}{cited}")
    typer.echo("")
    typer.echo(advice.text.rstrip("\n"))
    typer.echo("")
    for number, command in enumerate(advice.commands):
        typer.echo(f"{'' if number else 'next':9}{command}")
    if out is not None:
        typer.echo(f"{'written':9}{out}")
