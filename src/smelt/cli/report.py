"""`smelt report`: the page and the tables of a suite's folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from smelt.cli.request import JsonOption

__all__ = ["report"]


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `smelt bench -o DIR` wrote.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The HTML file to write; DIR/report.html unless given.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write the report of a suite: one HTML page, and its table as Markdown, CSV and LaTeX beside it."""
    from smelt.reporting.write import TABLES
    from smelt.suites.report import report as write

    page = write(folder, out)
    tables = [str(page.with_name(name)) for name in TABLES]
    if as_json:
        typer.echo(json.dumps({"report": str(page), "tables": tables}, indent=2))
    elif not quiet:
        typer.echo(str(page))
        typer.echo(f"the table alone: {', '.join(tables)}")
