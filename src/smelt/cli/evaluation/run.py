"""`smelt run`: FusionBench's commands with the program's name replaced."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import typer

from smelt.cli.from_function import Argument, Given, Option, command
from smelt.cli.options import ANSWER, TRUST
from smelt.errors import RecipeError
from smelt.files.remote_code import trusting

if TYPE_CHECKING:
    from smelt.compat.fusionbench.experiment import Outcome, PreparedRun

__all__ = ["run"]

_RESULT = 30
"""Letters of a sweep's results before they are folded."""


@command(
    "smelt.compat.fusionbench.experiment:run",
    overrides=Argument(
        "What to run, in Hydra's grammar.", metavar="NAME=VALUE...", type=list[str], default=None, own=True
    ),
    multirun=Option("Run every combination of listed values (a=1,2 or range(0,1,0.1)).", ("-m", "--multirun")),
    config_dir=Option("A folder with your own method/, modelpool/ and taskpool/ configs.", type=Path),
    trust_remote_code=TRUST,
    **ANSWER,
)
def run(given: Given) -> None:
    """Merge, evaluate and report, in FusionBench's words.

    \b
    smelt run method=ties_merging method.scaling_factor=0.3 method.threshold=20 \\
      modelpool=clip-vit-base-patch32_TA8 taskpool=clip-vit-classification_TA8 save_report=out.json
    smelt run -m method=task_arithmetic method.scaling_factor=0.1,0.2,0.3 \\
      modelpool=clip-tiny_TA8 taskpool=clip-tiny_TA8 'save_report=ta_${method.scaling_factor}.json'

    dry_run=true composes, checks and shows without loading anything.
    """
    overrides, multirun, silent = given["overrides"], given["multirun"], given.silent
    if not overrides:
        raise RecipeError("what should run? Give settings: method=ties_merging modelpool=... (see `smelt run --help`)")

    from smelt.compat.fusionbench.experiment import attempt, prepare
    from smelt.tasks.pictures.data_cache import DataCache

    data = DataCache()
    jobs = prepare(overrides, multirun=multirun, config_dir=given["config_dir"])
    outcomes = []
    for number, one in enumerate(jobs, 1):
        if multirun and not silent:
            typer.echo(f"# job {number} of {len(jobs)}: {' '.join(one.job.swept)}")
        if not silent and (one.experiment.dry_run or (one.experiment.print_config and number == 1)):
            _show_config(one)
        with trusting(given["trust_remote_code"]):
            outcome = attempt(one, quiet=silent, data=data)
        outcomes.append(outcome)
        if outcome.error is not None:
            if not multirun:
                raise outcome.error
            typer.echo(f"smelt: job {number} ({' '.join(one.job.swept)}) failed: {outcome.error}", err=True)
        elif not silent and not one.experiment.dry_run:
            _show_report(one, outcome)
    if given.as_json:
        found = [_as_dict(one, outcome) for one, outcome in zip(jobs, outcomes, strict=True)]
        typer.echo(json.dumps(found if multirun else found[0], indent=4))
    elif multirun and not given.quiet:
        _show_table(outcomes)
    codes = [outcome.error.exit_code for outcome in outcomes if outcome.error is not None]
    if codes:
        raise typer.Exit(2 if set(codes) == {2} else 1)


def _show_config(one: PreparedRun) -> None:
    """The composed config; with dry_run also the recipe that it means."""
    _show_yaml(one.job.config)
    if one.experiment.dry_run:
        recipe = one.experiment.recipe
        typer.echo("# as a recipe of Smelt" if recipe else "# nothing is merged")
        if recipe:
            _show_yaml(recipe.dump())


def _show_yaml(table: dict[str, Any]) -> None:
    import yaml
    from rich.console import Console
    from rich.syntax import Syntax

    text = yaml.safe_dump(table, sort_keys=False, allow_unicode=True)
    console = Console()
    if console.is_terminal:
        console.print(Syntax(text, "yaml", background_color="default", word_wrap=True))
    else:
        typer.echo(text)


def _show_report(one: PreparedRun, outcome: Outcome) -> None:
    """The numbers as JSON, in FusionBench's shape; where they come from stands in the saved report."""
    scores = {name: value for name, value in (outcome.report or {}).items() if name != "provenance"}
    if one.experiment.cosine is not None:
        _show_matrix(scores.pop(one.experiment.method), colours=one.experiment.cosine.heatmap)
    if scores:
        typer.echo(json.dumps(scores, indent=4))
    if outcome.saved is not None:
        typer.echo(f"report: {outcome.saved}")
    if one.experiment.out is not None:
        typer.echo(f"merged model: {one.experiment.out}")


def _show_matrix(found: dict[str, Any], *, colours: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("", *found["names"])
    for name, row in zip(found["names"], found["matrix"], strict=True):
        cells = [Text("nan" if value is None else f"{value:.3f}", _shade(value) if colours else "") for value in row]
        table.add_row(name, *cells)
    Console().print(table)


def _shade(cosine: float | None) -> str:
    """Red for the same direction, blue for the opposite, grey for none."""
    if cosine is None:
        return "dim"
    pale = round(235 * (1 - abs(cosine)))
    return f"black on rgb(235,{pale},{pale})" if cosine >= 0 else f"black on rgb({pale},{pale},235)"


def _show_table(outcomes: Sequence[Outcome]) -> None:
    """One line per job: what was swept, the accuracy on each task and their mean, or the failure."""
    from rich.console import Console
    from rich.table import Table

    scores = [
        {task: value["accuracy"] for task, value in (outcome.report or {}).items() if "accuracy" in value}
        for outcome in outcomes
    ]
    tasks = list(dict.fromkeys(task for score in scores for task in score))
    jobs = [" ".join(outcome.swept) for outcome in outcomes]
    said = [_result(outcome) for outcome in outcomes]
    console = Console()
    # A column has three cells of its own beside its text. Settings are never cut: tasks go first, the mean stays.
    texts = [max(map(len, jobs)), *(max(len(task), 5) for task in tasks), min(max(map(len, said)), _RESULT)]
    wide = 1 + sum(3 + text for text in texts)
    shown = tasks if not console.is_terminal or wide <= console.width else [task for task in tasks if task == "average"]
    table = Table()
    table.add_column("job", overflow="fold", min_width=min(max(map(len, jobs)), console.width // 2))
    for heading in (*shown, "result"):
        table.add_column(heading, overflow="fold")
    for job, score, result in zip(jobs, scores, said, strict=True):
        table.add_row(job, *(f"{100 * score[task]:.1f}" if task in score else "" for task in shown), result)
    (console if console.is_terminal else Console(width=max(console.width, wide))).print(table)
    if shown != tasks:
        typer.echo("each task: in the saved reports, with --json, or in a wider terminal")


def _result(outcome: Outcome) -> str:
    return f"failed: {shorten(str(outcome.error), 120)}" if outcome.error else str(outcome.saved or "done")


def _as_dict(one: PreparedRun, outcome: Outcome) -> dict[str, Any]:
    """What `--json` prints: the report itself, with what sets the job apart where there are several."""
    recipe = one.experiment.recipe
    content: dict[str, Any] = outcome.report or {}
    if one.experiment.dry_run:
        content = {"config": one.job.config, "recipe": recipe.dump() if recipe else None}
    if not one.job.swept:
        return content
    failed = {"error": str(outcome.error)} if outcome.error else {"report": content}
    return {"job": list(one.job.swept), "saved": str(outcome.saved) if outcome.saved else None, **failed}
