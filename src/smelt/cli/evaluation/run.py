"""`smelt run`: FusionBench's commands with the program's name replaced."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from smelt.cli.from_function import Argument, Given, Option, command
from smelt.cli.options import ANSWER, TRUST
from smelt.display.blocks import Cell, Table
from smelt.display.shades import full_shade
from smelt.display.text import print_blocks, room
from smelt.errors import RecipeError, unknown
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
    config_name=Option("A whole config to start from: one of FusionBench's, or a file of --config-path.", type=str),
    config_path=Option("The folder of that file.", type=Path),
    cfg=Option("Show the composed config and stop: write `job`.", ("-c", "--cfg"), type=str, default=None, own=True),
    package=Option(
        "Of --cfg: the part to show, such as method.", ("-p", "--package"), type=str, default=None, own=True
    ),
    resolve=Option("Of --cfg: as Hydra has it; here values are always resolved.", type=bool, default=False, own=True),
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

    dry_run=true composes, checks and shows without loading anything. Names of FusionBench's present documentation
    (CLIPVisionModelPool/..., method=regmean/clip_regmean) and its former ones mean the same.
    """
    overrides, multirun, silent = given["overrides"] or [], given["multirun"], given.silent
    if not overrides and not given["config_name"] and not given["cfg"]:
        raise RecipeError("what should run? Give settings: method=ties_merging modelpool=... (see `smelt run --help`)")

    from smelt.compat.fusionbench.experiment import attempt, prepare
    from smelt.tasks.pictures.data_cache import DataCache

    data = DataCache()
    where = {word: given[word] for word in ("config_dir", "config_name", "config_path")}
    if given["cfg"]:
        _show_composed(overrides, multirun, where, given)
        return
    jobs = prepare(overrides, multirun=multirun, **where)
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


def _show_composed(overrides: Sequence[str], multirun: bool, where: dict[str, Any], given: Given) -> None:
    """Hydra's --cfg: the config or a part of it, and nothing runs."""
    from smelt.compat.fusionbench.compose import compose_jobs

    if given["cfg"] != "job":
        raise RecipeError(f"--cfg {given['cfg']}: only the job's config is shown: --cfg job")
    for one in compose_jobs(overrides, sweep=multirun, **where):
        shown: Any = one.config
        for word in (given["package"] or "").split(".") if given["package"] else ():
            if not isinstance(shown, dict) or word not in shown:
                raise RecipeError(f"--package: {unknown('part of the config', word, shown)}")
            shown = shown[word]
        if given.as_json:
            typer.echo(json.dumps(shown, indent=4))
        else:
            _show_yaml(shown)


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
        _show_matrix(scores.pop(one.experiment.method), colours=one.experiment.cosine.picture is not None)
    if scores:
        typer.echo(json.dumps(scores, indent=4))
    if outcome.saved is not None:
        typer.echo(f"report: {outcome.saved}")
    if one.experiment.cosine is not None and one.experiment.cosine.picture is not None:
        typer.echo(f"drawing: {one.experiment.cosine.picture}")
    if one.experiment.out is not None:
        typer.echo(f"merged model: {one.experiment.out}")


def _show_matrix(found: dict[str, Any], *, colours: bool) -> None:
    """With colours for cosines, 0 is pale."""
    pairs = [(i, j, value) for i, row in enumerate(found["matrix"]) for j, value in enumerate(row)]
    full = full_shade(value for i, j, value in pairs if i != j and value is not None)

    def cell(value: float | None) -> Cell:
        return Cell("nan") if value is None else Cell(f"{value:.3f}", value / full if colours else 0.0)

    rows = [[Cell(name), *map(cell, row)] for name, row in zip(found["names"], found["matrix"], strict=True)]
    print_blocks([Table(["", *found["names"]], rows)])


def _show_table(outcomes: Sequence[Outcome]) -> None:
    """One line per job. In a narrow terminal tasks go first and their mean stays: what was swept is never cut."""
    from smelt.compat.fusionbench.experiment import Outcomes

    (table,) = Outcomes(outcomes).shown()
    jobs, (job, *tasks, result) = [str(row[0]) for row in table.rows], table.headings
    wide = max(map(len, jobs)) + sum(2 + max(len(task), 5) for task in tasks) + 2 + _RESULT
    mean = [number for number, task in enumerate(tasks, 1) if task == "average"]
    if len(mean) == len(tasks) or wide <= (room() or wide):
        print_blocks([table])
        return
    rows = [[row[0], *(row[number] for number in mean), row[-1]] for row in table.rows]
    print_blocks([Table([job, *(tasks[number - 1] for number in mean), result], rows, left=(0, len(mean) + 1))])
    typer.echo("each task: in the saved reports, with --json, or in a wider terminal")


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
