"""`smelt methods`: what there is, and what one of them does."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from smelt.cli.from_function import Argument, Given, command
from smelt.cli.options import JSON
from smelt.errors import RecipeError
from smelt.recipe.method_names import method_name, unknown_method

if TYPE_CHECKING:
    from smelt.methods import Stage

__all__ = ["methods"]

_HEADINGS = {
    "step": "Steps, before a method",
    "basis": "Bases, around a method",
    "method": "Methods",
    "wrapper": "Wrappers, after a method",
}


@command(name=Argument("Show one in full.", type=str, default=None, complete="methods"), as_json=JSON)
def methods(given: Given) -> None:
    """List the merge methods, or explain one."""
    name, as_json = given["name"], given.as_json
    from smelt.methods import stages
    from smelt.methods.aliases import ALIASES
    from smelt.recipe.pipeline import describe

    name = method_name(name) if name is not None else None
    if name is not None and name in ALIASES:
        if not as_json:
            typer.echo(f"{name} is {describe(ALIASES[name])}\n")
        name = ALIASES[name][-1][0]
    known = {**stages, **_with_data(stages)}
    if name is not None and name not in known:
        raise RecipeError(unknown_method(name, [*known, *ALIASES]))
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
    from smelt.methods import stages
    from smelt.methods.explanation import declared_costs, example_recipe, explain

    said, width = explain(stage), min(shutil.get_terminal_size().columns, 120)
    typer.echo(f"{stage.name} ({stage.kind})\n")
    for paragraph in (*said.text.split("\n\n"), said.use, said.avoid):
        if paragraph:
            typer.echo(paragraph if paragraph.startswith("    ") else textwrap.fill(paragraph, width))
            typer.echo("")
    _parameters(stage, "Parameters:", width)
    if learner := _learner(stage):
        _parameters(learner, "While it learns, where the recipe gives no `statistics`:", width)
    if stage.name in stages:
        typer.echo(textwrap.fill(" ".join(declared_costs(stage)), width) + "\n")
    if recipe := example_recipe(stage):
        typer.echo("Example:")
        typer.echo(textwrap.indent(recipe, "  "))


def _parameters(stage: Stage, heading: str, width: int) -> None:
    from smelt.methods.explanation import explain

    said = explain(stage).parameters
    if stage.parameters:
        typer.echo(heading)
    for p in stage.parameters.values():
        default = "required" if p.required else f"default {p.default}"
        typer.echo(f"  {p.name:<12} {p.type_name}{', per model' if p.per_model else ''}; {default}")
        if p.name in said:
            indent = " " * 15
            typer.echo(textwrap.fill(said[p.name].text, width, initial_indent=indent, subsequent_indent=indent))
    if stage.parameters:
        typer.echo("")


def _learner(stage: Stage) -> Stage | None:
    """What learns the statistics of a stage of the same name."""
    from smelt.prepare.prepare import stages_with_data

    found = stages_with_data().get(stage.name)
    return found if found is not stage else None


def _as_dict(stage: Stage) -> dict[str, Any]:
    from smelt.methods.explanation import example_recipe, explain

    said = explain(stage)
    return {
        "kind": stage.kind,
        "summary": stage.summary,
        "doc": said.text,
        "use": said.use,
        "avoid": said.avoid,
        "paper": stage.paper,
        "latex": stage.latex,
        "parameters": {
            p.name: {
                "type": p.type_name,
                "per_model": p.per_model,
                "default": None if p.required else p.default,
                "text": said.parameters[p.name].text if p.name in said.parameters else "",
            }
            for p in stage.parameters.values()
        },
        "example": example_recipe(stage),
        "exempt": dict(stage.exempt),
    }
