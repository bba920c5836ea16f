"""`smelt verify`: whether a merged model is still what its manifest says."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from smelt.cli.from_function import Argument, Given, command
from smelt.cli.options import JSON
from smelt.display.text import print_blocks

if TYPE_CHECKING:
    from smelt.engine.sink.verify import Verification

__all__ = ["verify"]


@command(
    "smelt.inspection.checks:verify",
    folder=Argument("The folder of a merged model; also s3://bucket/name.", metavar="OUT", type=Path, stores=True),
    as_json=JSON,
)
def verify(given: Given) -> None:
    """Recompute the hash of every file, compare it with the manifest, and name what lies there beside.

    A file that the manifest does not know is a fault where a program would load it (weights, code, pickles, configs,
    templates, tokenizer files, also in sub-folders); any other is only listed.
    """
    found: Verification = given.call()
    given.answer(lambda: {**dataclasses.asdict(found), "ok": found.ok}, lambda: _show(found))
    if not found.ok:
        raise typer.Exit(1)


def _show(found: Verification) -> None:
    for fault in found.faults:
        typer.echo(f"smelt: {fault}", err=True)
    print_blocks(found.found())
