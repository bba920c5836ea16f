"""`smelt unpack`: a delta pack as an ordinary model folder."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from smelt.cli.request import AllowPickleOption, JsonOption, ThreadsOption

__all__ = ["unpack"]


def unpack(
    pack: Annotated[str, typer.Argument(metavar="PACK", help="A delta pack, or any other reference to a model.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder to write.")],
    shard_size: Annotated[str, typer.Option(help="Largest weights file, e.g. 2GB.")] = "5GB",
    threads: ThreadsOption = None,
    allow_pickle: AllowPickleOption = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing output, at the end.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a delta pack as an ordinary folder that `from_pretrained` loads."""
    from smelt.engine.convert.pack import unpack as unpack_model

    done = unpack_model(
        pack,
        out=out,
        shard_size=shard_size,
        threads=threads,
        force=force,
        quiet=quiet or as_json,
        allow_pickle=allow_pickle,
    )
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(done), indent=2))
    elif not quiet:
        typer.echo(f"{done.out}: {done.tensors} tensors, {done.bytes / 1e6:,.1f} MB in {done.seconds:.1f} s")
        for note in done.notes:
            typer.echo(f"note: {note}")
