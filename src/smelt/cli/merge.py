"""`smelt merge`: models in, one model folder out."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from smelt.cli.request import (
    AllowPickleOption,
    BaseOption,
    DeviceOption,
    JsonOption,
    MemoryOption,
    MethodOption,
    ModelOption,
    PoolOption,
    RecipeArgument,
    SetOption,
    ThreadsOption,
    TrustOption,
    request,
)
from smelt.errors import RecipeError

__all__ = ["merge"]


def merge(
    recipe: RecipeArgument = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The folder to write.", show_default=False)] = None,
    method: MethodOption = None,
    base: BaseOption = None,
    model: ModelOption = None,
    set_: SetOption = None,
    pool: PoolOption = None,
    dtype: Annotated[str | None, typer.Option(help="Of the output: bfloat16, float16, float32, float64.")] = None,
    seed: Annotated[int | None, typer.Option(help="For methods that drop at random.", min=0)] = None,
    shard_size: Annotated[str | None, typer.Option(help="Largest weights file, e.g. 2GB.")] = None,
    threads: ThreadsOption = None,
    memory: MemoryOption = None,
    device: DeviceOption = "cpu",
    data_device: Annotated[
        str | None,
        typer.Option(help="Where data is looked at, for methods that do so; --device by default.", show_default=False),
    ] = None,
    allow_pickle: AllowPickleOption = False,
    trust_remote_code: TrustOption = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was killed.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing output, at the end.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Merge models into one.

    \b
    smelt merge RECIPE.yaml -o OUT
    smelt merge -m ties --base B --model A1 --model A2 --set density=0.2 -o OUT
    """
    if out is None:
        raise RecipeError("where should the merged model go? Give -o OUT")
    models, words = request(recipe, method, base, model, set_, pool)
    flags: dict[str, Any] = {
        "dtype": dtype,
        "seed": seed,
        "shard_size": shard_size,
        "allow_pickle": allow_pickle or None,
    }
    words |= {key: value for key, value in flags.items() if value is not None}

    from smelt.engine.merge import Summary
    from smelt.prepare.merge import merge as merge_models

    summary = merge_models(
        models,
        out=out,
        threads=threads,
        memory=memory,
        device=device,
        data_device=data_device,
        trust_remote_code=trust_remote_code,
        resume=resume,
        force=force,
        quiet=quiet or as_json,
        **words,
    )
    assert isinstance(summary, Summary)
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(summary), indent=2))
    elif not quiet:
        for note in summary.notes:
            typer.echo(f"note: {note}")
        resumed = f", {summary.resumed} of them from the run before" if summary.resumed else ""
        typer.echo(
            f"{summary.out}: {summary.tensors} tensors{resumed}, {summary.bytes / 1e6:,.1f} MB "
            f"in {summary.seconds:.1f} s ({' + '.join(summary.stages)})"
        )
