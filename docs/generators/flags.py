"""The flags of every command, and the variables, as tables: blocks for docs/reference/commands.md, from the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any


def blocks() -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    flags = {"flags " + name: table(command) for name, command in commands()}
    return {"reference/commands.md": {**flags, "variables": variables()}}


def variables() -> str:
    """The environment variables that Smelt reads."""
    from smelt.system.variables import VARIABLES

    return "\n".join(
        ["| variable | meaning |", "|---|---|", *(f"| `{name}` | {what} |" for name, what in VARIABLES.items())]
    )


def commands() -> Iterator[tuple[str, Any]]:
    """Every command by what one types: `merge`, `analyse cosine`, `hub token new`."""
    import typer

    from smelt.cli.app import app

    return _inside(typer.main.get_command(app), ())


def _inside(group: Any, before: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _inside(command, (*before, name))
        else:
            yield " ".join((*before, name)), command


def table(command: Any) -> str:
    """One line per argument and flag."""
    lines = ["| flag | meaning | default |", "|---|---|---|"]
    for parameter in command.params:
        if "--help" not in parameter.opts:
            lines.append(f"| {_name(parameter)} | {_meaning(parameter)} | {_default(parameter)} |")
    return "\n".join(lines)


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    short_first = sorted([*parameter.opts, *parameter.secondary_opts], key=lambda flag: flag.startswith("--"))
    return ", ".join(f"`{flag}`" for flag in short_first)


def _meaning(parameter: Any) -> str:
    return re.sub(r"([*|])", r"\\\1", (parameter.help or "").removesuffix("."))


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if isinstance(parameter.show_default, str):
        return str(parameter.show_default)
    if parameter.default is None or parameter.default is False or parameter.default == "":
        return ""
    return "on" if parameter.default is True else f"`{parameter.default}`"
