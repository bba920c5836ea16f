"""`smelt tune`: the best setting of a recipe, chosen on validation data."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smelt.cli.request import JsonOption, TrustOption

if TYPE_CHECKING:
    from smelt.search.study import Trial
    from smelt.search.tune import Tuned

__all__ = ["tune"]

_SHOWN = 10
"""Trials in the table that is printed; the file has all."""


def tune(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE.yaml", help="A recipe; its `tune:` says what may vary.")],
    trials: Annotated[
        int | None, typer.Option(min=1, help="Settings to try: a whole grid, or 30 of a range, if nothing is said.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The study's folder; the recipe's name and -tuned by default.")
    ] = None,
    tasks: Annotated[str, typer.Option("--tasks", help="Names, a group or folders (see `smelt tasks`).")] = "clip8",
    split: Annotated[str, typer.Option(help="The examples that settings are chosen on; never test.")] = "val",
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many examples of each task.")] = None,
    sampler: Annotated[
        str | None, typer.Option(help="grid, tpe or random; grid for lists and tpe for ranges by default.")
    ] = None,
    prune: Annotated[bool, typer.Option(help="Stop trials that cannot become the best any more.")] = True,
    seed: Annotated[int, typer.Option(min=0, help="For the order of a grid and the choices of a sampler.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Trials at the same time.")] = 1,
    executor: Annotated[
        str | None, typer.Option(help="Where trials run: inline, local, ray[:ADDRESS] or slurm[:WORDS].")
    ] = None,
    text_from: Annotated[
        str | None, typer.Option(help="The CLIP model with the text tower, if the models are picture towers alone.")
    ] = None,
    device: Annotated[str, typer.Option(help="Where models are evaluated: cpu, cuda or mps.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="In what format they compute: float32, bfloat16, float16.")] = "float32",
    trust_remote_code: TrustOption = False,
    force: Annotated[bool, typer.Option("--force", help="Begin anew in a folder that has a study.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Try settings of a recipe on validation data and write the best as a recipe.

    What may vary is the recipe's `tune:`, or the shipped grid of its method. A study that was stopped goes on where it
    was when the same command is given again.

    \b
    smelt tune RECIPE.yaml --trials 30 --tasks clip8 --limit 200 -o study
    smelt tune RECIPE.yaml --tasks llm5-val --device cuda --dtype bfloat16
    smelt tune RECIPE.yaml --workers 4 --executor ray
    """
    from smelt.search.tune import tune as run

    silent = quiet or as_json
    tuned = run(
        recipe,
        trials=trials,
        out=out,
        tasks=tasks,
        split=split,
        limit=limit,
        sampler=sampler,
        prune=prune,
        seed=seed,
        workers=workers,
        executor=executor,
        text_from=text_from,
        device=device,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
        force=force,
        tell=(lambda line: None) if silent else (lambda line: typer.echo(line, err=True)),
    )
    if as_json:
        typer.echo(json.dumps(tuned.to_json(), indent=2, ensure_ascii=False))
    elif not quiet:
        _show(tuned)


def _show(tuned: Tuned) -> None:
    from rich.console import Console
    from rich.table import Table

    whole = [trial for trial in tuned.trials if trial.state == "complete"]
    ranked = sorted(whole, key=lambda trial: (trial.values != tuned.values, -(trial.accuracy or 0), trial.number))
    stopped = sum(trial.state == "pruned" for trial in tuned.trials)
    title = f"mean accuracy on {tuned.split}, {len(tuned.tasks)} tasks"
    table = Table(title=title, title_justify="left")
    words = list(dict.fromkeys(word for trial in ranked for word in trial.values))
    table.add_column("trial", justify="right")
    for word in words:
        table.add_column(word, justify="right")
    for heading in ("accuracy %", "merge s", "evaluate s"):
        table.add_column(heading, justify="right")
    for trial in ranked[:_SHOWN]:
        table.add_row(*_cells(trial, words))
    Console(soft_wrap=False).print(table)
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
