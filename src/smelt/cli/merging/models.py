"""`smelt models`: the zoo, or whether the models of a pool fit each other."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from smelt.cli.from_function import Argument, Given, command
from smelt.cli.options import ALLOW_PICKLE, BASE, JSON, MODEL
from smelt.cli.request import named_models
from smelt.display.text import print_blocks
from smelt.errors import IncompatibleModels, RecipeError

if TYPE_CHECKING:
    from smelt.engine.plan.compatibility import Compatibility

__all__ = ["models"]


@command(
    "smelt.inspection.checks:check_models",
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
        from smelt.inspection.lists import list_models

        zoo = list_models()
        given.answer(lambda: [dataclasses.asdict(one) for one in zoo], zoo.print)
        return
    found: Compatibility = given.call(pool=pool or named_models(model))
    given.answer(found.as_dict, lambda: _report(found))
    if not found.ok:
        raise typer.Exit(1)


def _report(found: Compatibility) -> None:
    print_blocks(found.found())
    if found.faults:
        from smelt.engine.plan.causes import remedy

        refusal = IncompatibleModels(found.faults, causes=found.causes, remedy=remedy(found.causes))
        typer.echo(f"smelt: {refusal}", err=True)
