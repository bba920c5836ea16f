"""`smelt average`: the checkpoints of a training run, averaged."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from smelt.cli.request import AllowPickleOption, JsonOption, ThreadsOption

__all__ = ["average"]


def average(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a training run: checkpoint-500, ...")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder to write.")],
    last: Annotated[int | None, typer.Option(min=1, help="How many of the steps, counted from the end.")] = None,
    every: Annotated[int, typer.Option(min=1, help="Only every so many-th step, counted from the end.")] = 1,
    since: Annotated[int | None, typer.Option("--from", "--since", help="No step before this one.")] = None,
    until: Annotated[int | None, typer.Option("--to", "--until", help="No step after this one.")] = None,
    weights: Annotated[str, typer.Option(help="uniform, linear (later steps more) or ema.")] = "uniform",
    decay: Annotated[float, typer.Option(help="For ema: what a step weighs against the next.")] = 0.9,
    each: Annotated[
        bool, typer.Option("--each", help="Slide the window over the run: one model for every place.")
    ] = False,
    base: Annotated[str | None, typer.Option("--base", help="Adapters: the model that they adapt.")] = None,
    lora: Annotated[int | None, typer.Option(min=1, help="Write a LoRA adapter of this rank.")] = None,
    dtype: Annotated[str | None, typer.Option(help="Of the output: bfloat16, float16, float32, float64.")] = None,
    threads: ThreadsOption = None,
    allow_pickle: AllowPickleOption = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing output, at the end.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Average the checkpoints of a training run into one model.

    \b
    smelt average RUN --last 5 -o OUT
    smelt average RUN --from 1000 --every 2 --weights ema --decay 0.8 -o OUT
    """
    from smelt.prepare.average import average as average_steps

    words: dict[str, Any] = {"dtype": dtype, "allow_pickle": allow_pickle or None}
    done = average_steps(
        run,
        out=out,
        last=last,
        every=every,
        since=since,
        until=until,
        weights=weights,  # type: ignore[arg-type]
        decay=decay,
        each=each,
        base=base,
        lora=lora,
        threads=threads,
        force=force,
        quiet=quiet or as_json,
        **{name: value for name, value in words.items() if value is not None},
    )
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(one) for one in done], indent=2))
    elif not quiet:
        for one in done:
            listed = ", ".join(f"{step} ({weight:.3f})" for step, weight in zip(one.steps, one.weights, strict=True))
            typer.echo(f"{one.summary.out}: the average of steps {listed} in {one.summary.seconds:.1f} s")
            for note in one.summary.notes:
                typer.echo(f"note: {note}")
