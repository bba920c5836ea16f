"""`smelt mix`: models in, one larger model out that chooses between them for each picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smelt.cli.request import (
    AllowPickleOption,
    BaseOption,
    JsonOption,
    ModelOption,
    RecipeArgument,
    SetOption,
    ThreadsOption,
    TrustOption,
    request,
)

if TYPE_CHECKING:
    from smelt.mixing.mix import Mixed

__all__ = ["mix"]


def mix(
    recipe: RecipeArgument = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The folder to write; in the cache if not given.")
    ] = None,
    method: Annotated[str | None, typer.Option("-m", "--method", help="A way to mix; wemoe by default.")] = None,
    base: BaseOption = None,
    model: ModelOption = None,
    set_: SetOption = None,
    steps: Annotated[int | None, typer.Option(min=0, help="Of learning; over the recipe's.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the routers' start and the examples' order.", min=0)] = None,
    routers: Annotated[
        Path | None, typer.Option(help="Read learned routers from this file and learn nothing.", show_default=False)
    ] = None,
    text_from: Annotated[str | None, typer.Option(help="The model with the text tower, if the base has none.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or mps.")] = "cpu",
    threads: ThreadsOption = None,
    allow_pickle: AllowPickleOption = False,
    trust_remote_code: TrustOption = False,
    resume: Annotated[bool, typer.Option(help="Go on with a run that was interrupted.")] = True,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing output, at the end.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Mix models into one larger model (weight-ensembling mixture of experts).

    \b
    smelt mix RECIPE.yaml -o OUT
    smelt mix --base B --model photos=A1 --model digits=A2 --set steps=300 -o OUT
    """
    models, words = request(recipe, method, base, model, set_)
    flags: dict[str, Any] = {"steps": steps, "seed": seed, "allow_pickle": allow_pickle or None}
    words |= {key: value for key, value in flags.items() if value is not None}

    from smelt.mixing.mix import mix as mix_models

    done = mix_models(
        models,
        out=out,
        routers=routers,
        text_from=text_from,
        device=device,
        threads=threads,
        trust_remote_code=trust_remote_code,
        resume=resume,
        force=force,
        quiet=quiet or as_json,
        **words,
    )
    if as_json:
        typer.echo(json.dumps(_as_dict(done), indent=2))
    elif not quiet:
        _show(done)


def _as_dict(done: Mixed) -> dict[str, Any]:
    return {
        "folder": str(done.folder),
        "cached": done.cached,
        "seconds": done.seconds,
        "note": done.note.model_dump(),
        "routing": done.routing,
    }


def _show(done: Mixed) -> None:
    learned = done.note.learning
    used = done.budget
    what = "from the cache" if done.cached else f"{learned.steps} steps in {done.seconds:.1f} s"
    typer.echo(f"{done.folder}: {len(done.note.experts)} experts, {what}")
    if learned.steps:
        first, last = (sum(loss.values()) / len(loss) for loss in (learned.first, learned.last))
        labels = f"{used.labels:,} labels" if used.labels else "no labels"
        data = f"{used.images:,} examples{f' of {used.split}' if used.split else ''}, {labels}"
        typer.echo(f"mean loss {first:.3f} at the start, {last:.3f} at the end ({data})")
    if done.routing is not None:
        _show_routing(done.routing)
    typer.echo(f"next: smelt eval {done.folder} --tasks {','.join(dict.fromkeys(done.note.tasks.values())) or 'clip8'}")


def _show_routing(routing: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    typer.echo("mean gates over all blocks: tasks by row, experts by column")
    table = Table()
    table.add_column("task")
    for expert in routing["columns"]:
        table.add_column(expert, justify="right")
    for task, gates in zip(routing["rows"], routing["matrix"], strict=True):
        table.add_row(task, *(f"{gate:.2f}" for gate in gates))
    Console(soft_wrap=False).print(table)
