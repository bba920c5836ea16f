"""The commands and where they are. A process loads the one that it was asked for."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Annotated

import typer

from smelt.cli.parser import CommandGroup
from smelt.version import __version__

__all__ = ["COMMANDS", "application"]

COMMANDS = {
    "merge": "merge:merge",
    "plan": "plan:plan",
    "methods": "methods:methods",
    "learn": "learn:learn",
    "mix": "mix:mix",
    "neulig": "neulig:neulig",
    "measure": "measure:app",
    "tune": "tune:tune",
    "select": "select:app",
    "run": "run:run",
    "eval": "eval:evaluate",
    "bench": "bench:bench",
    "report": "report:report",
    "advise": "advise:advise",
    "pack": "pack:pack",
    "unpack": "unpack:unpack",
    "average": "average:average",
    "export": "export:export",
    "models": "models:models",
    "tasks": "tasks:tasks",
    "analyse": "analyse:app",
    "verify": "verify:verify",
    "hub": "hub:app",
}
"""Command -> its file in this room and what it is called there, in the order of the help."""


def application(names: Iterable[str] = tuple(COMMANDS)) -> typer.Typer:
    """The application with these commands."""
    app = typer.Typer(
        name="smelt",
        cls=CommandGroup,
        help="Many fine-tuned models in, one good predictor out.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_options)
    for name in names:
        file, _, called = COMMANDS[name].partition(":")
        found = getattr(import_module(f"smelt.cli.{file}"), called)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name, cls=CommandGroup)
        else:
            app.command(name)(found)
    return app


def _version(show: bool) -> None:
    if show:
        typer.echo(f"smelt {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Many fine-tuned models in, one good predictor out."""
