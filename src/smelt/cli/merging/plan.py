"""`smelt plan`: what a merge would do, from headers alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from smelt.cli.from_function import Given, command
from smelt.cli.options import ALLOW_PICKLE, DEVICE, JSON, MEMORY, METHOD, MODELS, POOL, RECIPE, THREADS
from smelt.cli.request import request

if TYPE_CHECKING:
    from smelt.engine.plan.describe import PlanReport

__all__ = ["plan"]


@command(
    "smelt.prepare.plan:plan",
    "smelt.recipe.words:RecipeWords",
    recipe=RECIPE,
    method=METHOD,
    **MODELS,
    pool=POOL,
    threads=THREADS,
    memory=MEMORY,
    device=DEVICE.but("cpu or cuda."),
    allow_pickle=ALLOW_PICKLE,
    as_json=JSON,
)
def plan(given: Given) -> None:
    """Say what a merge would do, or everything that is wrong with it, from headers alone.

    \b
    smelt plan RECIPE.yaml
    smelt plan -m ties --pool MergeBench/Llama-3.1-8B

    Public models that are not on this machine are planned from their shapes, where these are known.
    """
    models, words = request(given)
    report: PlanReport = given.call(models, **words)
    given.answer(report.as_dict, lambda: _show(report))


def _show(report: PlanReport) -> None:
    kinds = ", ".join(f"{count} {code}" for code, count in report.dtypes.items())
    shards = report.shards[0] if len(report.shards) == 1 else f"{len(report.shards)} shards"
    typer.echo(f"stages    {' + '.join(report.stages)}")
    typer.echo(f"models    {', '.join(report.models)}")
    typer.echo(f"tensors   {report.merged} merged, {report.copied} copied ({kinds}); {report.parameters:,} parameters")
    typer.echo(f"reads     {report.bytes_in / 1e6:,.1f} MB, up to {report.passes} times")
    typer.echo(f"writes    {report.bytes_out / 1e6:,.1f} MB in {shards}")
    here = f", of which {report.bytes_absent / 1e6:,.1f} MB are not here" if report.absent else ""
    typer.echo(
        f"disk      {report.bytes_models / 1e6:,.1f} MB of models{here}, and {report.bytes_out / 1e6:,.1f} MB more"
    )
    typer.echo(
        f"memory    about {report.peak_memory / 1e6:,.0f} MB at most, of which {report.work_memory / 1e6:,.0f} MB work "
        f"({report.device})"
    )
    for one in report.looking:
        typer.echo(
            f"looking   {one.method}, one model at a time, {one.examples:,} texts of {one.tokens} tokens: "
            f"{one.device / 1e9:,.1f} GB where it computes (one GPU), {one.main / 1e9:,.1f} GB of main memory, "
            f"{one.disk / 1e9:,.1f} GB of disk, {one.passes} pass{'es' * (one.passes > 1)} over the data"
        )
        typer.echo(f"note      {one.method}: {one.note}")
    for note in report.notes:
        typer.echo(f"note      {note}")
