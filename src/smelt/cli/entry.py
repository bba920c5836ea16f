"""How a command line becomes a call, and how errors leave the process."""

from __future__ import annotations

import io
import os
import sys

import typer

from smelt.cli.commands import COMMANDS, application
from smelt.cli.parser import complaint
from smelt.errors import SmeltError, shortened
from smelt.files.bounded import os_reason

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
        typer.echo(f"smelt: {_machine_fault(error)}", err=True)
        sys.exit(1)
    except Exception as error:
        said = complaint(error)
        if said is None:
            raise
        typer.echo(said, err=True)
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


def _machine_fault(error: BaseException) -> str:
    """What the machine refused, where no room of Smelt foresaw it. Any other exception is a mistake of Smelt's own and
    keeps its traceback.
    """
    if isinstance(error, OSError):
        where = f"{shortened(str(error.filename))}: " if error.filename is not None else ""
        return f"{where}{os_reason(error)}"
    if isinstance(error, RecursionError):
        return "something that was given is nested too deep to be worked with"
    if isinstance(error, MemoryError):
        return "this machine has not enough memory for that; `smelt plan` tells what a merge needs"
    return f"a name or a text is not valid Unicode ({shortened(str(error))})"
