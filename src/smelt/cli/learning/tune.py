"""`smelt tune`: the best setting of a recipe, chosen on validation data."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from smelt.cli.from_function import Argument, Given, Option, command
from smelt.cli.learning.table import print_table
from smelt.cli.options import ANSWER, DEVICE, DTYPE, FORCE, OUT, TASKS, TEXT_FROM, TRUST

if TYPE_CHECKING:
    from smelt.search.study import Trial
    from smelt.search.tune import Tuned

__all__ = ["tune"]

_SHOWN = 10
"""Trials in the table that is printed; the file has all."""


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
    given.answer(tuned.to_json, lambda: _show(tuned), ascii=False)


def _show(tuned: Tuned) -> None:
    whole = [trial for trial in tuned.trials if trial.state == "complete"]
    ranked = sorted(whole, key=lambda trial: (trial.values != tuned.values, -(trial.accuracy or 0), trial.number))
    stopped = sum(trial.state == "pruned" for trial in tuned.trials)
    title = f"mean accuracy on {tuned.split}, {len(tuned.tasks)} tasks"
    words = list(dict.fromkeys(word for trial in ranked for word in trial.values))
    headings = ["trial", *words, "accuracy %", "merge s", "evaluate s"]
    rows = [_cells(trial, words) for trial in ranked[:_SHOWN]]
    print_table(headings, rows, left=(), title=title, title_justify="left")
    parts = [f"{len(whole)} whole trials", f"{stopped} stopped early"]
    parts += [f"{tuned.untried} points of the grid not tried"] if tuned.untried else []
    typer.echo(f"{', '.join(parts)}; {tuned.computed} computed now, in {tuned.seconds:.0f} s")
    setting = ", ".join(f"{word} {value}" for word, value in tuned.values.items())
    typer.echo(f"best: {setting} with {100 * tuned.value:.2f} %. Next: {_next(tuned)}")


def _cells(trial: Trial, words: list[str]) -> list[str]:
    values = [str(trial.values.get(word, "")) for word in words]
    score = f"{100 * (trial.accuracy or 0):.2f}"
    return [str(trial.number), *values, score, f"{trial.merge_seconds:.2f}", f"{trial.evaluate_seconds:.2f}"]


def _next(tuned: Tuned) -> str:
    return shlex.join(["smelt", "merge", str(tuned.recipe_file), "-o", "OUT"])
