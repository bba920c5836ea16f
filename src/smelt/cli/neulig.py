"""`smelt neulig`: experts in, one Portland out that tells for each picture how to merge or to ensemble them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from smelt.cli.request import JsonOption, ThreadsOption, TrustOption

__all__ = ["neulig"]


def neulig(
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder to write.")],
    base: Annotated[str, typer.Option(help="The base: its text tower and heads serve all experts.")],
    model: Annotated[list[str], typer.Option("--model", help="An expert, NAME=REFERENCE; at least two.")],
    task: Annotated[
        list[str] | None, typer.Option("--task", help="NAME=TASK, where an expert's task has another name.")
    ] = None,
    boosting: Annotated[str, typer.Option(help="supervised, or semi: without labels.")] = "supervised",
    alignment: Annotated[str, typer.Option(help="scalar, gram or off.")] = "scalar",
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the smallest data set.")] = 20,
    rate: Annotated[float, typer.Option(help="Of Adam.")] = 1e-3,
    batch: Annotated[int, typer.Option(min=1, help="Pictures of a step.")] = 32,
    fraction: Annotated[float, typer.Option(help="Of the training pictures.")] = 1.0,
    examples: Annotated[int, typer.Option(min=1, help="Pictures of every train split.")] = 500,
    validation: Annotated[int, typer.Option(min=1, help="Pictures of every val split; they choose the epoch.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Of Portland's start and of the pictures' order.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda or mps.")] = "cpu",
    threads: ThreadsOption = None,
    trust_remote_code: TrustOption = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing output, at the end.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Fit one vector of coefficients per picture that serves merging and ensembling alike (NeuLig).

    \b
    smelt neulig --base zoo:clip-tiny --model photos=zoo:clip-tiny-photos --model digits=zoo:clip-tiny-digits -o OUT
    smelt eval OUT --tasks photos,digits            every picture by its own merged model
    smelt eval OUT --tasks photos --level both      merged (Mer.), ensembled (Ens.), and the gap between them
    smelt merge OUT/recipes/photos.yaml -o photos   one merged model for the whole task
    """
    from smelt.learning.neulig.neulig import neulig as run

    found = run(
        _named(model, "--model"),
        base=base,
        out=out,
        tasks=_named(task or [], "--task"),
        examples=examples,
        validation=validation,
        device=device,
        threads=threads,
        trust_remote_code=trust_remote_code,
        force=force,
        boosting=boosting,
        alignment=alignment,
        epochs=epochs,
        rate=rate,
        batch=batch,
        fraction=fraction,
        seed=seed,
    )
    note = found.note
    if as_json:
        typer.echo(json.dumps({"folder": str(out), **note.model_dump(mode="json")}, indent=2))
    elif not quiet:
        _show(note)
        typer.echo(f"epoch {note.chosen} of {epochs} was chosen; written: {out}")


def _named(words: list[str], flag: str) -> dict[str, str]:
    from smelt.errors import RecipeError

    found: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not (name and sign and value):
            raise RecipeError(f"{flag}: written NAME=…, got {word!r}")
        if name in found:
            raise RecipeError(f"{flag}: {name!r} is there twice")
        found[name] = value
    return found


def _show(note: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="CoopVec Map: how much of each expert a data set's pictures take")
    table.add_column("data set")
    for name in note.pool.models:
        table.add_column(name, justify="right")
    for task, row in note.map.items():
        table.add_row(task, *(f"{row[name]:.2f}" for name in note.pool.models))
    Console().print(table)
