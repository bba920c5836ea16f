"""`smelt pack` and `smelt unpack`: a fine-tune as its base plus a small change, and back."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from smelt.cli.from_function import Argument, Given, Option, command
from smelt.cli.options import ALLOW_PICKLE, ANSWER, FORCE, MODEL_OUT, OUT, SHARD_SIZE, THREADS

if TYPE_CHECKING:
    from smelt.engine.convert.pack import PackSummary, UnpackSummary

__all__ = ["pack", "unpack"]


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
    given.answer(lambda: {**dataclasses.asdict(done), "ratio": done.ratio}, done.print)


@command(
    "smelt.engine.convert.pack:unpack",
    pack=Argument("A delta pack, or any other reference to a model.", metavar="PACK", complete="models"),
    out=MODEL_OUT,
    shard_size=SHARD_SIZE,
    threads=THREADS,
    resume=Option("Continue a run that was stopped."),
    allow_pickle=ALLOW_PICKLE,
    force=FORCE,
    **ANSWER,
)
def unpack(given: Given) -> None:
    """Write a delta pack as an ordinary folder that `from_pretrained` loads."""
    done: UnpackSummary = given.call()
    given.answer(lambda: dataclasses.asdict(done), done.print)
