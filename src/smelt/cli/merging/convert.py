"""`smelt convert`: any model as an ordinary safetensors folder, or as one file."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from smelt.cli.from_function import Argument, Given, Option, command
from smelt.cli.options import ALLOW_PICKLE, ANSWER, FORCE, MEMORY, MODEL_OUT, SHARD_SIZE, THREADS

if TYPE_CHECKING:
    from smelt.engine.convert.convert import ConvertSummary

__all__ = ["convert"]


@command(
    "smelt.engine.convert.convert:convert",
    model=Argument("A folder, a file, hf:org/name, zoo:name, BASE+ADAPTER.", metavar="MODEL", complete="models"),
    out=MODEL_OUT.but("The folder to write (also s3://BUCKET/NAME), or NAME.safetensors for the weights in one file."),
    dtype=Option(
        "bfloat16, float16, float32, float64; as stored by default, and bfloat16 of a quantised model.",
        complete="dtypes",
    ),
    layout=Option("How tensors are named and cut in the output; same: as they are.", complete="layouts"),
    shard_size=SHARD_SIZE,
    threads=THREADS,
    memory=MEMORY,
    resume=Option("Continue a run that was stopped."),
    allow_pickle=ALLOW_PICKLE,
    force=FORCE,
    **ANSWER,
)
def convert(given: Given) -> None:
    """Write any model as an ordinary safetensors folder that `from_pretrained` loads.

    \b
    smelt convert model-Q4_K_M.gguf -o OUT
    smelt convert MODEL -o OUT --dtype float16 --shard-size 2GB
    smelt convert MODEL -o OUT.safetensors
    """
    done: ConvertSummary = given.call()
    given.answer(lambda: dataclasses.asdict(done), done.print)
