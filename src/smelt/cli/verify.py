"""`smelt verify`: whether a merged model is still what its manifest says."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from smelt.cli.request import JsonOption

__all__ = ["verify"]


def verify(
    folder: Annotated[Path, typer.Argument(metavar="OUT", help="The folder of a merged model.")],
    as_json: JsonOption = False,
) -> None:
    """Recompute the hash of every file and compare it with the manifest."""
    from smelt.api import verify as verify_model

    found = verify_model(folder)
    if as_json:
        typer.echo(json.dumps({**dataclasses.asdict(found), "ok": found.ok}, indent=2))
    else:
        for fault in found.faults:
            typer.echo(f"smelt: {fault}", err=True)
        if found.ok:
            typer.echo(f"{found.folder}: {found.checked} files, all as the manifest says")
    if not found.ok:
        raise typer.Exit(1)
