"""`smelt plan`: what a merge would do, from headers alone."""

from __future__ import annotations

import json

import typer

from smelt.cli.request import (
    AllowPickleOption,
    BaseOption,
    JsonOption,
    MethodOption,
    ModelOption,
    RecipeArgument,
    SetOption,
    ThreadsOption,
    request,
)

__all__ = ["plan"]


def plan(
    recipe: RecipeArgument = None,
    method: MethodOption = None,
    base: BaseOption = None,
    model: ModelOption = None,
    set_: SetOption = None,
    threads: ThreadsOption = None,
    allow_pickle: AllowPickleOption = False,
    as_json: JsonOption = False,
) -> None:
    """Say what a merge would do, or everything that is wrong with it, from headers alone."""
    models, words = request(recipe, method, base, model, set_)
    words |= {"allow_pickle": True} if allow_pickle else {}

    from smelt.api import plan as plan_merge

    report = plan_merge(models, threads=threads, **words)
    if as_json:
        typer.echo(json.dumps(report.as_dict(), indent=2))
        return
    kinds = ", ".join(f"{count} {code}" for code, count in report.dtypes.items())
    shards = report.shards[0] if len(report.shards) == 1 else f"{len(report.shards)} shards"
    typer.echo(f"stages    {' + '.join(report.stages)}")
    typer.echo(f"models    {', '.join(report.models)}")
    typer.echo(f"tensors   {report.merged} merged, {report.copied} copied ({kinds}); {report.parameters:,} parameters")
    typer.echo(f"reads     {report.bytes_in / 1e6:,.1f} MB, up to {report.passes} times")
    typer.echo(f"writes    {report.bytes_out / 1e6:,.1f} MB in {shards}")
    typer.echo(
        f"memory    about {report.peak_memory / 1e6:,.0f} MB at most, of which {report.work_memory / 1e6:,.0f} MB work"
    )
    for note in report.notes:
        typer.echo(f"note      {note}")
