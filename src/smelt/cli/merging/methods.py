"""`smelt methods`: what there is, and what one of them does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from smelt.cli.from_function import Argument, Given, command
from smelt.cli.options import JSON
from smelt.errors import RecipeError, unknown

if TYPE_CHECKING:
    from smelt.methods import Stage

__all__ = ["methods"]

_HEADINGS = {
    "step": "Steps, before a method",
    "basis": "Bases, around a method",
    "method": "Methods",
    "wrapper": "Wrappers, after a method",
}


@command(name=Argument("Show one in full.", type=str, default=None), as_json=JSON)
def methods(given: Given) -> None:
    """List the merge methods, or explain one."""
    name, as_json = given["name"], given.as_json
    from smelt.methods import stages
    from smelt.methods.aliases import ALIASES
    from smelt.recipe.pipeline import describe

    if name is not None and name in ALIASES:
        if not as_json:
            typer.echo(f"{name} is {describe(ALIASES[name])}\n")
        name = ALIASES[name][-1][0]
    known = {**stages, **_with_data(stages)}
    if name is not None and name not in known:
        raise RecipeError(unknown("merge method", name, [*known, *ALIASES]))
    chosen = {name: known[name]} if name else known
    if as_json:
        typer.echo(json.dumps({n: _as_dict(s) for n, s in sorted(chosen.items())}, indent=2))
    elif name:
        _explain(known[name])
    else:
        for kind, heading in _HEADINGS.items():
            typer.echo(f"{heading}:")
            for stage in sorted((s for s in stages.values() if s.kind == kind), key=lambda s: s.name):
                typer.echo(f"  {stage.name:<20} {stage.summary}")
            typer.echo("")
        typer.echo("Methods that learn from data (smelt learn, smelt merge; wemoe: smelt mix):")
        for one, stage in sorted(_with_data(stages).items()):
            typer.echo(f"  {one:<20} {stage.summary}")
        typer.echo("")
        typer.echo("Names from other tools:")
        for alias, composition in sorted(ALIASES.items()):
            typer.echo(f"  {alias:<20} {describe(composition)}")


def _with_data(stages: Mapping[str, Stage]) -> dict[str, Stage]:
    """What else a recipe may name under `merge`; of a name that is a stage too, the stage's page says so."""
    from smelt.prepare.prepare import stages_with_data

    return {name: stage for name, stage in stages_with_data().items() if name not in stages}


def _explain(stage: Stage) -> None:
    typer.echo(f"{stage.name} ({stage.kind})\n\n{stage.doc}\n")
    if stage.parameters:
        typer.echo("Parameters:")
    for p in stage.parameters.values():
        default = "required" if p.required else f"default {p.default}"
        typer.echo(f"  {p.name:<12} {p.type_name}{', per model' if p.per_model else ''}; {default}")


def _as_dict(stage: Stage) -> dict[str, Any]:
    return {
        "kind": stage.kind,
        "summary": stage.summary,
        "doc": stage.doc,
        "paper": stage.paper,
        "parameters": {
            p.name: {"type": p.type_name, "per_model": p.per_model, "default": None if p.required else p.default}
            for p in stage.parameters.values()
        },
        "exempt": dict(stage.exempt),
    }
