"""`smelt report`: the page and the tables of a suite's folder."""

from __future__ import annotations

from pathlib import Path

import typer

from smelt.cli.from_function import Argument, Given, command
from smelt.cli.options import ANSWER, OUT

__all__ = ["report"]


@command(
    "smelt.suites.report:report",
    folder=Argument("The folder that `smelt bench -o DIR` wrote.", metavar="DIR", type=Path),
    out=OUT.but("The HTML file to write; DIR/report.html unless given."),
    **ANSWER,
)
def report(given: Given) -> None:
    """Write the report of a suite: one HTML page, and its table as Markdown, CSV and LaTeX beside it."""
    page: Path = given.call()
    from smelt.reporting.write import TABLES

    tables = [str(page.with_name(name)) for name in TABLES]

    def show() -> None:
        typer.echo(str(page))
        typer.echo(f"the table alone: {', '.join(tables)}")

    given.answer(lambda: {"report": str(page), "tables": tables}, show)
