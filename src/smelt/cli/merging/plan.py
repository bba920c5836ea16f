"""`smelt plan`: what a merge would do, from headers alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.cli.from_function import Given, command
from smelt.cli.options import (
    ALLOW_PICKLE,
    DEVICE,
    JSON,
    LORA,
    LORA_FORMAT,
    MEMORY,
    METHOD,
    MODELS,
    POOL,
    RECIPE,
    STREAM,
    THREADS,
)
from smelt.cli.request import request

if TYPE_CHECKING:
    from smelt.engine.plan.describe import PlanReport

__all__ = ["plan"]


@command(
    "smelt.prepare.plan:plan",
    "smelt.recipe.words:RecipeWords",
    recipe=RECIPE,
    method=METHOD,
    **MODELS,
    pool=POOL,
    lora=LORA,
    lora_format=LORA_FORMAT,
    threads=THREADS,
    memory=MEMORY,
    device=DEVICE.but("cpu, cuda or auto.", complete="merge devices"),
    allow_pickle=ALLOW_PICKLE,
    stream=STREAM,
    as_json=JSON,
)
def plan(given: Given) -> None:
    """Say what a merge would do, or everything that is wrong with it, from headers alone.

    \b
    smelt plan RECIPE.yaml
    smelt plan -m ties --pool MergeBench/Llama-3.1-8B

    Public models that are not on this machine are planned from their shapes, where these are known.
    """
    models, words = request(given)
    report: PlanReport = given.call(models, **words)
    given.answer(report.as_dict, report.print)
