"""The commands and where they are. A process loads the one that it was asked for."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Any

import typer

from smelt.cli.parser import CommandGroup
from smelt.version import __version__

__all__ = ["COMMANDS", "application"]

COMMANDS = {
    "merge": "merging.merge:merge",
    "plan": "merging.plan:plan",
    "methods": "merging.methods:methods",
    "learn": "learning.learn:learn",
    "mix": "learning.mix:mix",
    "neulig": "learning.neulig:neulig",
    "measure": "learning.measure:app",
    "tune": "learning.tune:tune",
    "select": "learning.select:app",
    "run": "evaluation.run:run",
    "eval": "evaluation.eval:evaluate",
    "bench": "evaluation.bench:bench",
    "report": "evaluation.report:report",
    "advise": "merging.advise:advise",
    "pack": "merging.pack:pack",
    "unpack": "merging.pack:unpack",
    "average": "merging.average:average",
    "export": "merging.export:export",
    "models": "merging.models:models",
    "tasks": "evaluation.tasks:tasks",
    "analyse": "evaluation.analyse:app",
    "verify": "merging.verify:verify",
    "hub": "hub.commands:app",
}
"""Command -> its file below this room and what it is called there, in the order of the help."""


def application(names: Iterable[str] = tuple(COMMANDS), *, listed: bool = False) -> typer.Typer:
    """The application with these commands; `listed` is enough to print what there is."""
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
            app.add_typer(_described(found) if listed else found, name=name, cls=CommandGroup)
        else:
            app.command(name)(_described(found) if listed else found)
    return app


def _described(found: Any) -> Any:
    """A command with its text and no flags, for the list of all: no signature has to be read for it."""
    if isinstance(found, typer.Typer):
        return typer.Typer(help=found.info.help)

    def nothing() -> None: ...

    nothing.__doc__ = found.__doc__
    return nothing


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
