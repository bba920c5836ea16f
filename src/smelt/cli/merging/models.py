"""`smelt models`: the zoo, or whether the models of a pool fit each other."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from smelt.cli.from_function import Argument, Given, command
from smelt.cli.options import ALLOW_PICKLE, BASE, JSON, MODEL
from smelt.cli.request import named_models
from smelt.errors import RecipeError

if TYPE_CHECKING:
    from smelt.engine.plan.compatibility import Compatibility, ModelFit
    from smelt.models.zoo.catalogue import ZooModel

__all__ = ["models"]

_SHOWN = 3


@command(
    "smelt.inspection:check_models",
    pool=Argument("A file with `base` and `models` (or a recipe).", metavar="POOL.yaml", type=Path, default=None),
    base=BASE.but(own=False),
    model=MODEL,
    allow_pickle=ALLOW_PICKLE,
    as_json=JSON,
)
def models(given: Given) -> None:
    """List the zoo's models, or report whether the models of a pool fit each other.

    \b
    smelt models
    smelt models POOL.yaml
    smelt models --base B --model A1 --model A2
    """
    pool, base, model = given["pool"], given["base"], given["model"]
    if pool is not None and (base or model):
        raise RecipeError("give either a pool file or --base and --model, not both")
    if pool is None and not model:
        if base is not None:
            raise RecipeError("a base alone is no pool: give the models to compare with it")
        from smelt.inspection import list_models

        zoo = list_models()
        given.answer(lambda: [dataclasses.asdict(one) for one in zoo], lambda: _list(zoo))
        return
    found: Compatibility = given.call(pool=pool or named_models(model))
    given.answer(found.as_dict, lambda: _report(found))
    if not found.ok:
        raise typer.Exit(1)


def _list(found: Sequence[ZooModel]) -> None:
    rows = [("name", "kind", "parameters", "size", "")]
    rows += [(f"zoo:{m.name}", m.kind, f"{m.parameters:,}", f"{m.bytes / 1e6:.1f} MB", m.description) for m in found]
    wide = [max(len(row[column]) for row in rows) for column in range(4)]
    for name, kind, parameters, size, description in rows:
        line = f"{name:<{wide[0]}}  {kind:<{wide[1]}}  {parameters:>{wide[2]}}  {size:>{wide[3]}}  {description}"
        typer.echo(line.rstrip())


def _report(found: Compatibility) -> None:
    typer.echo(f"reference  {found.reference}: {found.tensors} tensors, {found.parameters:,} parameters")
    for fit in found.models:
        typer.echo(f"{fit.model:<10} shares {fit.shared} of {found.tensors}" + ("" if fit.same else _differences(fit)))
    if found.doubts:
        typer.echo("these models are of one shape and would be merged, but:")
        for doubt in found.doubts:
            typer.echo(f"  {doubt}")
    elif found.ok:
        typer.echo("these models can be merged")
    for fault in found.faults:
        typer.echo(f"smelt: {fault}", err=True)


def _differences(fit: ModelFit) -> str:
    shapes = [f"{d.tensor} {d.model} instead of {d.reference}" for d in fit.shapes]
    kinds = [f"{d.tensor} {d.model} instead of {d.reference}" for d in fit.dtypes]
    parts = (("lacks", fit.missing), ("has beside", fit.extra), ("other shape:", shapes), ("other dtype:", kinds))
    return "".join(f"\n  {what} {_some(names)}" for what, names in parts if names)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
