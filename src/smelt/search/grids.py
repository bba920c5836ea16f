"""The shipped grids: what to try where a recipe has no `tune`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from smelt.errors import RecipeError
from smelt.methods.aliases import ALIASES
from smelt.recipe.read import load_yaml
from smelt.recipe.schema import Recipe
from smelt.recipe.tune import Choices, Spread

__all__ = ["grids", "shipped_phases"]

_FILE = Path(__file__).parent / "grids.yaml"


@cache
def grids() -> dict[str, list[dict[str, Any]]]:
    """Parameters and their values by stage, phase after phase."""
    return dict(load_yaml(_FILE, "grids"))


def shipped_phases(recipe: Recipe) -> list[dict[str, Spread]]:
    """The grid of a recipe's stages. Stages with one phase join the last."""
    phases: list[dict[str, Spread]] = [{}]
    for call in recipe.merge:
        composition = ALIASES.get(call.name, [(call.name, {})])
        for stage, fixed in composition:
            own: list[dict[str, Spread]] = [
                {f"{call.name}.{name}": Choices(tuple(values)) for name, values in phase.items() if name not in fixed}
                for phase in grids().get(stage, [])
            ]
            phases = [*phases[:-1], *own[:-1], phases[-1] | (own[-1] if own else {})]
    phases = [phase for phase in phases if phase]
    if not phases:
        names = ", ".join(call.name for call in recipe.merge)
        raise RecipeError(
            f"nothing to tune: the recipe has no `tune:`, and no grid is shipped for {names} (there is one for: "
            f"{', '.join(grids())}); write one, e.g. `tune: {{{recipe.merge[-1].name}.scale: [0.3, 0.5]}}`"
        )
    return phases
