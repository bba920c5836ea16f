"""`smelt export`: a language model as a GGUF file."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from smelt.cli.request import AllowPickleOption, JsonOption

__all__ = ["export"]


def export(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A folder, hf:org/name, zoo:name, BASE+ADAPTER.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The file to write: NAME.gguf.")],
    type_: Annotated[
        str | None, typer.Option("--type", help="f32, f16, bf16, q8_0, q5_0, q4_0, q4_1; as stored by default.")
    ] = None,
    pre: Annotated[
        str | None, typer.Option("--pre", help="llama.cpp's name for how the tokenizer cuts text, if it is not found.")
    ] = None,
    allow_pickle: AllowPickleOption = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file, at the end.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a language model as a GGUF file, with its tokenizer and chat template, for llama.cpp and its kin.

    \b
    smelt export MODEL -o OUT.gguf
    smelt export MODEL -o OUT.gguf --type q8_0
    """
    from smelt.engine.convert.export import export as export_model

    done = export_model(
        model, out=out, type=type_, pre=pre, force=force, quiet=quiet or as_json, allow_pickle=allow_pickle
    )
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(done), indent=2))
    elif not quiet:
        for note in done.notes:
            typer.echo(f"note: {note}")
        typer.echo(
            f"{done.out}: {done.tensors} tensors as {done.type} ({done.architecture}), {done.bytes / 1e6:,.1f} MB "
            f"in {done.seconds:.1f} s"
        )
