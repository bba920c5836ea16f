"""`smelt bench`: a whole suite, from the models to the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from smelt.cli.from_function import REQUIRED, Argument, Given, Option, command
from smelt.cli.options import ANSWER, DEVICE, DTYPE, FORCE, OUT, THREADS, TRUST

if TYPE_CHECKING:
    from smelt.suites.run import BenchResult

__all__ = ["bench"]


@command(
    "smelt.suites.run:bench",
    "smelt.suites.plan:BenchOptions",
    suite=Argument("A suite's name (clip8), or a YAML file.", metavar="SUITE", default=REQUIRED, complete="suites"),
    out=OUT.but("The folder for rows and report."),
    methods=Option("Which of the suite's merges, e.g. ties,tsv.", type=str, complete="methods"),
    tasks=Option("Which of its tasks, e.g. photos,digits.", type=str, complete="tasks"),
    family=Option("One of the suite's families of models: ViT-L-14.", ("--family", "--base")),
    preset=Option("A suite's own name for other limits and grids: fast."),
    limit=Option("Examples of each test split.", min=1),
    curve_limit=Option("Examples of each val split for a setting.", min=1),
    tune=Option("Scale curves on val, tuned merges, and paths.", switch=True),
    device=DEVICE.but("Where models are evaluated: cpu or cuda."),
    dtype=DTYPE.but("In what format they compute: float32 or bfloat16."),
    threads=THREADS,
    executor=Option("Who computes: local (processes), inline, ray[:ADDRESS] or slurm[:WORDS].", complete="executors"),
    workers=Option("How many models are made and evaluated at once.", min=1),
    trial_workers=Option("How many settings of one merge are tried at once (llm5).", min=1),
    keep_models=Option("Keep the merged models' folders."),
    trust_remote_code=TRUST,
    force=FORCE.but("Begin anew in a folder that has rows."),
    dry_run=Option("Say what it would fetch and need; compute nothing.", type=bool, default=False, own=True),
    table=Option("Print the table at the end.", switch=True, type=bool, default=True, own=True),
    **ANSWER,
)
def bench(given: Given) -> None:
    """Run a suite: references, every merge and mixture, scales tuned on val; rows, analyses and a report.

    A run that was stopped goes on where it was when the same command is given again.

    \b
    smelt bench clip8 -o clip8
    smelt bench clip8 -o quick --methods average,ties,tsv --limit 200 --no-tune
    smelt bench clip8-generalization -o unseen
    smelt bench clip8-robustness -o damaged --limit 500 --workers 2
    smelt bench llm5 --preset fast
    smelt bench mllm10 --preset fast --workers 2
    """
    chosen = {"methods": _listed(given["methods"]), "tasks": _listed(given["tasks"])}
    if given["dry_run"]:
        _show_needs(given, chosen)
        return
    done: BenchResult = given.call(**chosen, tell=given.tell)

    from smelt.suites.report import show as show_tables

    def show() -> None:
        if given["table"]:
            show_tables(done.folder, done.rows)
        typer.echo(f"{done.computed} numbers computed in {done.seconds:.0f} s; the report: {done.report}")

    given.answer(lambda: _as_dict(done), show)


def _show_needs(given: Given, chosen: dict[str, list[str] | None]) -> None:
    from smelt.suites.needs.needs import check_needs
    from smelt.suites.run import bench_needs

    others = ("out", "force", "trust_remote_code", "tell")
    words = {name: value for name, value in given.words().items() if name not in others}
    needs = bench_needs(**{**words, **chosen})
    given.answer(needs.as_dict, needs.print)
    check_needs(needs)


def _as_dict(done: BenchResult) -> dict[str, Any]:
    rows = [row.model_dump(mode="json") for row in done.rows]
    return {"folder": str(done.folder), "report": str(done.report), "rows": rows}


def _listed(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]
