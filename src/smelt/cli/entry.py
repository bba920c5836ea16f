"""How a command line becomes a call, and how errors leave the process."""

from __future__ import annotations

import io
import os
import sys

import typer

from smelt.cli.commands import COMMANDS, application
from smelt.cli.parser import complaint
from smelt.errors import SmeltError
from smelt.files.reading import machine_fault

__all__ = ["run"]


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
    except KeyboardInterrupt:
        typer.echo("smelt: interrupted", err=True)
        sys.exit(1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (OSError, RecursionError, MemoryError, UnicodeError) as error:
        typer.echo(f"smelt: {machine_fault(error)}", err=True)
        sys.exit(1)
    except Exception as error:
        said = complaint(error)
        if said is None:
            raise
        typer.echo(said, err=True)
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)
