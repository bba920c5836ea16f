"""`smelt learn`: a recipe that needs data in, an ordinary recipe out."""

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
    from smelt.learning.learn import Learned

__all__ = ["learn"]


def learn(
    recipe: RecipeArgument = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="The folder for the result; the cache by default.", show_default=False),
    ] = None,
    method: Annotated[
        str | None, typer.Option("-m", "--method", help="adamerging, adarank, localize or tuned.", show_default=False)
    ] = None,
    base: BaseOption = None,
    model: ModelOption = None,
    set_: SetOption = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps of the optimiser, instead of the recipe's.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="For the order of the examples.")] = None,
    text_from: Annotated[
        str | None, typer.Option(help="The CLIP model with the text tower, if the base is a picture tower alone.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or mps.")] = "cpu",
    threads: ThreadsOption = None,
    allow_pickle: AllowPickleOption = False,
    trust_remote_code: TrustOption = False,
    resume: Annotated[bool, typer.Option("--resume/--no-resume", help="Go on with a run that was interrupted.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Learn from data how to merge models; the result is an ordinary recipe.

    \b
    smelt learn RECIPE.yaml -o OUT
    smelt learn -m adamerging --base B --model photos=A1 --model digits=A2 --set steps=200 -o OUT
    """
    models, words = request(recipe, method, base, model, set_)
    flags: dict[str, Any] = {"steps": steps, "seed": seed, "allow_pickle": allow_pickle or None}
    words |= {key: value for key, value in flags.items() if value is not None}

    from smelt.learning.learn import learn as learn_how

    done = learn_how(
        models,
        out=out,
        text_from=text_from,
        device=device,
        threads=threads,
        trust_remote_code=trust_remote_code,
        resume=resume,
        quiet=quiet or as_json,
        **words,
    )
    if as_json:
        typer.echo(json.dumps(_as_dict(done), indent=2, ensure_ascii=False))
    elif not quiet:
        _show(done)


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
    from rich.console import Console
    from rich.table import Table

    first, last = _ends(done.trace)
    table = Table(title="loss of the merged model", title_justify="left")
    for heading in ("model", "first step", "last step", *(["mean coefficient"] if done.coefficients else [])):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    means = done.coefficients.means if done.coefficients else {}
    for name in last:
        own = [f"{means[name]:.3f}"] if name in means else []
        table.add_row(name, f"{first[name]:.3f}", f"{last[name]:.3f}", *own)
    Console(soft_wrap=False).print(table)
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
