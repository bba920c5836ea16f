"""`smelt tune`: the best setting of a recipe, chosen on validation data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from smelt.cli.from_function import Argument, Given, Option, command
from smelt.cli.options import ANSWER, DEVICE, DTYPE, FORCE, OUT, TASKS, TEXT_FROM, TRUST

if TYPE_CHECKING:
    from smelt.search.tune import Tuned

__all__ = ["tune"]


@command(
    "smelt.search.tune:tune",
    recipe=Argument("A recipe; its `tune:` says what may vary.", metavar="RECIPE.yaml", type=Path),
    trials=Option("Settings to try: a whole grid, or 30 of a range, if nothing is said.", min=1),
    out=OUT.but("The study's folder; the recipe's name and -tuned by default."),
    tasks=TASKS,
    split=Option("The examples that settings are chosen on; never test."),
    limit=Option("At most so many examples of each task.", min=1),
    sampler=Option("grid, tpe or random; grid for lists and tpe for ranges by default."),
    prune=Option("Stop trials that cannot become the best any more.", switch=True),
    seed=Option("For the order of a grid and the choices of a sampler.", min=0),
    workers=Option("Trials at the same time.", min=1),
    executor=Option("Where trials run: inline, local, ray[:ADDRESS] or slurm[:WORDS]."),
    text_from=TEXT_FROM,
    device=DEVICE.but("Where models are evaluated: cpu, cuda or mps."),
    dtype=DTYPE.but("In what format they compute: float32, bfloat16, float16."),
    trust_remote_code=TRUST,
    force=FORCE.but("Begin anew in a folder that has a study."),
    **ANSWER,
)
def tune(given: Given) -> None:
    """Try settings of a recipe on validation data and write the best as a recipe.

    What may vary is the recipe's `tune:`, or the shipped grid of its method. A study that was stopped goes on where it
    was when the same command is given again.

    \b
    smelt tune RECIPE.yaml --trials 30 --tasks clip8 --limit 200 -o study
    smelt tune RECIPE.yaml --tasks llm5-val --device cuda --dtype bfloat16
    smelt tune RECIPE.yaml --workers 4 --executor ray
    """
    tuned: Tuned = given.call()
    given.answer(tuned.to_json, tuned.print, ascii=False)
