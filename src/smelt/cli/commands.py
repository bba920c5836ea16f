"""The commands, where they are, and how errors leave the process, which loads the one command that it was asked for."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Any

import typer

from smelt.cli.parser import CommandGroup, complaint
from smelt.errors import SmeltError
from smelt.files.reading import machine_fault
from smelt.version import __version__

__all__ = ["COMMANDS", "application", "run"]

COMMANDS = {
    "merge": "merging.merge:merge",
    "plan": "merging.plan:plan",
    "methods": "merging.methods:methods",
    "learn": "learning.learn:learn",
    "mix": "learning.mix:mix",
    "neulig": "learning.neulig:neulig",
    "finetune": "learning.finetune:finetune",
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
    "convert": "merging.convert:convert",
    "export": "merging.export:export",
    "models": "merging.models:models",
    "inspect": "merging.inspect:inspect",
    "diff": "merging.diff:diff",
    "tasks": "evaluation.tasks:tasks",
    "analyse": "evaluation.analyse:app",
    "verify": "merging.verify:verify",
    "info": "environment.info:info",
    "cache": "environment.cache:app",
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
            app.add_typer(_described(found) if listed else found, name=name)
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


def _show_completion(shell: str | None) -> None:
    from smelt.cli.completion.install import script

    if shell is not None:
        typer.echo(script(shell), nl=False)
        raise typer.Exit


def _install_completion(shell: str | None) -> None:
    from smelt.cli.completion.install import install

    if shell is not None:
        typer.echo("\n".join(install(shell)))
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    show_completion: Annotated[
        str | None,
        typer.Option(callback=_show_completion, is_eager=True, metavar="SHELL", help="Print what makes Tab complete."),
    ] = None,
    install_completion: Annotated[
        str | None,
        typer.Option(callback=_install_completion, is_eager=True, metavar="SHELL", help="For bash, zsh or fish."),
    ] = None,
) -> None:
    """Many fine-tuned models in, one good predictor out."""


def run() -> None:
    """Run the command line; a SmeltError, or what the parser cannot read, becomes one message and an exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr is: names of files may be no text at all
    asked = sys.argv[1] if len(sys.argv) > 1 else ""
    try:
        listed = sys.argv[1:] in ([], ["--help"], ["--version"])
        app = application([asked] if asked in COMMANDS else COMMANDS, listed=listed)
        code = app(prog_name="smelt", standalone_mode=False)
    except SmeltError as error:
        typer.echo(f"smelt: {error}", err=True)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):  # the second where a question was asked
        typer.echo("smelt: interrupted", err=True)
        sys.exit(1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (OSError, RecursionError, MemoryError, UnicodeError) as error:
        typer.echo(f"smelt: {machine_fault(error)}", err=True)
        sys.exit(1)
    except Exception as error:
        said = complaint(error, ["smelt", *sys.argv[1:]])
        if said is None:
            raise
        typer.echo(said, err=True)
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)
