"""`smelt verify`: whether a merged model is still what its manifest says."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from smelt.cli.request import JsonOption
from smelt.files.kinds import some_of

__all__ = ["verify"]


def verify(
    folder: Annotated[Path, typer.Argument(metavar="OUT", help="The folder of a merged model.")],
    as_json: JsonOption = False,
) -> None:
    """Recompute the hash of every file, compare it with the manifest, and name what lies there beside.

    A file that the manifest does not know is a fault where a program would load it (weights, code, pickles, configs,
    templates, tokenizer files, also in sub-folders); any other is only listed.
    """
    from smelt.api import verify as verify_model

    found = verify_model(folder)
    if as_json:
        typer.echo(json.dumps({**dataclasses.asdict(found), "ok": found.ok}, indent=2))
    else:
        for fault in found.faults:
            typer.echo(f"smelt: {fault}", err=True)
        if found.ok:
            typer.echo(f"{found.folder}: {found.checked} files, all as the manifest says")
        if found.unknown:
            typer.echo(
                f"{len(found.unknown)} more that it does not know and no program would load: {some_of(found.unknown)}"
            )
    if not found.ok:
        raise typer.Exit(1)
