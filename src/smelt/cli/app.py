"""The application: its commands, and how errors leave the process."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from smelt import __version__
from smelt.cli import (
    advise,
    analyse,
    average,
    bench,
    eval,  # noqa: A004
    export,
    hub,
    learn,
    measure,
    merge,
    methods,
    mix,
    models,
    neulig,
    pack,
    plan,
    report,
    select,
    tasks,
    tune,
    unpack,
    verify,
)
from smelt.cli import run as run_
from smelt.errors import SmeltError

__all__ = ["app", "run"]

app = typer.Typer(
    name="smelt",
    help="Many fine-tuned models in, one good predictor out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("merge")(merge.merge)
app.command("plan")(plan.plan)
app.command("methods")(methods.methods)
app.command("learn")(learn.learn)
app.command("mix")(mix.mix)
app.command("neulig")(neulig.neulig)
app.add_typer(measure.app, name="measure")
app.command("tune")(tune.tune)
app.add_typer(select.app, name="select")
app.command("run")(run_.run)
app.command("eval")(eval.evaluate)
app.command("bench")(bench.bench)
app.command("report")(report.report)
app.command("advise")(advise.advise)
app.command("pack")(pack.pack)
app.command("unpack")(unpack.unpack)
app.command("average")(average.average)
app.command("export")(export.export)
app.command("models")(models.models)
app.command("tasks")(tasks.tasks)
app.add_typer(analyse.app, name="analyse")
app.command("verify")(verify.verify)
app.add_typer(hub.app, name="hub")


def _version(show: bool) -> None:
    if show:
        typer.echo(f"smelt {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Many fine-tuned models in, one good predictor out."""


def run() -> None:
    """Run the command line; a SmeltError becomes one clear message and its exit code."""
    try:
        app()
    except SmeltError as error:
        typer.echo(f"smelt: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        typer.echo("smelt: interrupted", err=True)
        sys.exit(1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
