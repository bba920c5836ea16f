"""`smelt merge`: models in, one model folder out."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from smelt.cli.from_function import Given, Option, command
from smelt.cli.options import (
    ALLOW_PICKLE,
    ANSWER,
    DEVICE,
    DTYPE,
    FORCE,
    LORA,
    LORA_FORMAT,
    MEMORY,
    METHOD,
    MODEL_OUT,
    MODELS,
    POOL,
    RECIPE,
    SHARD_SIZE,
    STREAM,
    THREADS,
    TRUST,
)
from smelt.cli.request import request
from smelt.errors import RecipeError

if TYPE_CHECKING:
    from smelt.engine.merge import Summary

__all__ = ["merge"]


@command(
    "smelt.prepare.merge:merge",
    "smelt.recipe.words:RecipeWords",
    recipe=RECIPE,
    out=MODEL_OUT,
    method=METHOD,
    **MODELS,
    pool=POOL,
    dtype=DTYPE,
    lora=LORA,
    lora_format=LORA_FORMAT,
    seed=Option("For methods that drop at random.", min=0),
    shard_size=SHARD_SIZE,
    threads=THREADS,
    memory=MEMORY,
    device=DEVICE.but("cpu, cuda or auto.", complete="merge devices"),
    data_device=Option("Where data is looked at, for methods that do so; --device by default."),
    executor=Option(
        "Merge by several processes: local, ray[:ADDRESS] or slurm[:WORDS]; they see the same paths.",
        type=str,
        complete="executors",
    ),
    workers=Option("How many processes of the executor.", min=1),
    allow_pickle=ALLOW_PICKLE,
    trust_remote_code=TRUST,
    resume=Option("Continue a run that was killed."),
    force=FORCE,
    stream=STREAM,
    **ANSWER,
)
def merge(given: Given) -> None:
    """Merge models into one.

    \b
    smelt merge RECIPE.yaml -o OUT
    smelt merge -m ties --base B --model A1 --model A2 --set density=0.2 -o OUT
    """
    if given["out"] is None:
        raise RecipeError("where should the merged model go? Give -o OUT")
    models, words = request(given)
    summary: Summary = given.call(models, **words)
    given.answer(lambda: dataclasses.asdict(summary), summary.print)
