"""`smelt pack`: a fine-tune as its base plus a small change."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from smelt.cli.request import AllowPickleOption, JsonOption

__all__ = ["pack"]


def pack(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model to pack: a folder, hf:org/name, zoo:name.")],
    base: Annotated[str, typer.Option("--base", help="The model it was fine-tuned from.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder to write.")],
    bits: Annotated[int | None, typer.Option("--bits", help="Bits per number: 2, 4 (the default) or 8.")] = None,
    rank: Annotated[int | None, typer.Option("--rank", help="Store low-rank changes of this rank instead.")] = None,
    allow_pickle: AllowPickleOption = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing output, at the end.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Store a fine-tuned model as its base plus a small change (a delta pack).

    \b
    smelt pack MODEL --base B --bits 4 -o OUT
    smelt pack MODEL --base B --rank 16 -o OUT
    """
    from smelt.engine.convert.pack import pack as pack_model

    done = pack_model(
        model,
        base=base,
        out=out,
        bits=bits,
        rank=rank,
        force=force,
        quiet=quiet or as_json,
        allow_pickle=allow_pickle,
    )
    if as_json:
        typer.echo(json.dumps({**dataclasses.asdict(done), "ratio": done.ratio}, indent=2))
    elif not quiet:
        stored = ", ".join(f"{count} {_WORDS[how]}" for how, count in done.tensors.items() if count)
        typer.echo(
            f"{done.out}: {done.bytes_before / 1e6:,.1f} MB -> {done.bytes_after / 1e6:,.1f} MB "
            f"({done.ratio:.1f} times smaller) in {done.seconds:.1f} s"
        )
        typer.echo(f"tensors: {stored}")
        worst = f"; worst {done.worst_error:.4f} in {done.worst_tensor}" if done.worst_tensor else ""
        typer.echo(f"relative error of the change: {done.error:.4f}{worst}")
        for note in done.notes:
            typer.echo(f"note: {note}")


_WORDS = {
    "codes": "as codes",
    "low_rank": "of low rank",
    "exact": "exact",
    "base": "the base's",
    "absent": "of the base absent",
}
