"""`smelt pack` and `smelt unpack`: a fine-tune as its base plus a small change, and back."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import typer

from smelt.cli.from_function import Argument, Given, Option, command
from smelt.cli.options import ALLOW_PICKLE, ANSWER, FORCE, OUT, SHARD_SIZE, THREADS

if TYPE_CHECKING:
    from smelt.engine.convert.pack import PackSummary, UnpackSummary

__all__ = ["pack", "unpack"]

_WORDS = {
    "codes": "as codes",
    "low_rank": "of low rank",
    "exact": "exact",
    "base": "the base's",
    "absent": "of the base absent",
}


@command(
    "smelt.engine.convert.pack:pack",
    model=Argument("The model to pack: a folder, hf:org/name, zoo:name.", metavar="MODEL", complete="models"),
    base=Option("The model it was fine-tuned from.", complete="models"),
    out=OUT,
    bits=Option("Bits per number: 2, 4 (the default) or 8."),
    rank=Option("Store low-rank changes of this rank instead."),
    allow_pickle=ALLOW_PICKLE,
    force=FORCE,
    **ANSWER,
)
def pack(given: Given) -> None:
    """Store a fine-tuned model as its base plus a small change (a delta pack).

    \b
    smelt pack MODEL --base B --bits 4 -o OUT
    smelt pack MODEL --base B --rank 16 -o OUT
    """
    done: PackSummary = given.call()
    given.answer(lambda: {**dataclasses.asdict(done), "ratio": done.ratio}, lambda: _show(done))


def _show(done: PackSummary) -> None:
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


@command(
    "smelt.engine.convert.pack:unpack",
    pack=Argument("A delta pack, or any other reference to a model.", metavar="PACK", complete="models"),
    out=OUT,
    shard_size=SHARD_SIZE,
    threads=THREADS,
    allow_pickle=ALLOW_PICKLE,
    force=FORCE,
    **ANSWER,
)
def unpack(given: Given) -> None:
    """Write a delta pack as an ordinary folder that `from_pretrained` loads."""
    done: UnpackSummary = given.call()
    given.answer(lambda: dataclasses.asdict(done), lambda: _show_unpacked(done))


def _show_unpacked(done: UnpackSummary) -> None:
    typer.echo(f"{done.out}: {done.tensors} tensors, {done.bytes / 1e6:,.1f} MB in {done.seconds:.1f} s")
    for note in done.notes:
        typer.echo(f"note: {note}")
