"""`smelt diff`: how two models differ, and where over depth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from smelt.cli.from_function import Argument, Given, Option, command
from smelt.cli.options import ALLOW_PICKLE, ANSWER, OUT

if TYPE_CHECKING:
    from smelt.inspection.difference import Difference

__all__ = ["diff"]


@command(
    "smelt.inspection.diff:diff",
    first=Argument("A model: a folder, a file, zoo:name, hf:org/name, BASE+ADAPTER.", metavar="A", complete="models"),
    second=Argument("Another model, of the same format or another.", metavar="B", complete="models"),
    keys=Option("Only tensors whose name matches, e.g. '*.mlp.*'. May be given again.", type=list[str]),
    skip=Option("All but tensors whose name matches.", type=list[str]),
    tolerance=Option("Numbers that differ by no more than this are equal.", min=0),
    exit_code=Option(
        "End with exit code 1 if the models differ, as `git diff --exit-code` does.", type=bool, default=False, own=True
    ),
    allow_pickle=ALLOW_PICKLE,
    out=OUT.but("Write the heat map over depth to a .svg or .html file, or all data to .json.", default=None, own=True),
    **ANSWER,
)
def diff(given: Given) -> None:
    """Say how two models differ: tensors, shapes, dtypes, numbers, small files; and where over depth.

    \b
    smelt diff A B
    smelt diff BASE BASE+ADAPTER --keys '*.mlp.*' -o diff.svg
    smelt diff A B --tolerance 1e-6 --exit-code --quiet
    """
    out: Path | None = given["out"]
    if out is not None:
        from smelt.inspection.drawing import check_name

        check_name(out)
    found: Difference = given.call()
    if out is not None:
        from smelt.inspection.drawing import write

        write(found, out)
    given.answer(found.to_json, found.print)
    if given["exit_code"] and not found.same:
        raise typer.Exit(1)
