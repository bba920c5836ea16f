"""`smelt bench`: a whole suite, from the models to the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from smelt.cli.request import JsonOption, ThreadsOption, TrustOption

__all__ = ["bench"]


def bench(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="A suite's name (clip8), or a YAML file.")],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The folder for rows and report.")] = None,
    methods: Annotated[str | None, typer.Option(help="Which of the suite's merges, e.g. ties,tsv.")] = None,
    tasks: Annotated[str | None, typer.Option(help="Which of its tasks, e.g. photos,digits.")] = None,
    preset: Annotated[str | None, typer.Option(help="A suite's own name for other limits and grids: fast.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Examples of each test split.")] = None,
    curve_limit: Annotated[int | None, typer.Option(min=1, help="Examples of each val split for a setting.")] = None,
    tune: Annotated[bool, typer.Option(help="Scale curves on val, tuned merges, and paths.")] = True,
    device: Annotated[str, typer.Option(help="Where models are evaluated: cpu or cuda.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="In what format they compute: float32 or bfloat16.")] = "float32",
    threads: ThreadsOption = None,
    executor: Annotated[
        str | None,
        typer.Option(help="Who computes: local (processes), inline, ray[:ADDRESS] or slurm[:WORDS]."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="How many models are made and evaluated at once.")] = 1,
    trial_workers: Annotated[
        int, typer.Option(min=1, help="How many settings of one merge are tried at once (llm5).")
    ] = 1,
    keep_models: Annotated[bool, typer.Option("--keep-models", help="Keep the merged models' folders.")] = False,
    trust_remote_code: TrustOption = False,
    force: Annotated[bool, typer.Option("--force", help="Begin anew in a folder that has rows.")] = False,
    table: Annotated[bool, typer.Option(help="Print the table at the end.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: JsonOption = False,
) -> None:
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
    from smelt.suites.clip.loop import bench as run
    from smelt.suites.report import show

    silent = quiet or as_json
    chosen = {"executor": executor} if executor else {}
    words: dict[str, Any] = {**chosen, "limit": limit, "curve_limit": curve_limit, "tune": tune, "threads": threads}
    words |= {"preset": preset} if preset else {}
    done = run(
        suite,
        out=out,
        methods=_listed(methods),
        tasks=_listed(tasks),
        force=force,
        device=device,
        dtype=dtype,
        workers=workers,
        trial_workers=trial_workers,
        keep_models=keep_models,
        trust_remote_code=trust_remote_code,
        tell=(lambda line: None) if silent else (lambda line: typer.echo(line, err=True)),
        **words,
    )
    if as_json:
        rows = [row.model_dump(mode="json") for row in done.rows]
        typer.echo(json.dumps({"folder": str(done.folder), "report": str(done.report), "rows": rows}, indent=2))
    elif not quiet:
        if table:
            show(done.folder, done.rows)
        typer.echo(f"{done.computed} numbers computed in {done.seconds:.0f} s; the report: {done.report}")


def _listed(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]
