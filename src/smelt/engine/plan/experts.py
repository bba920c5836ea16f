"""What a recipe says of mixtures of experts, checked against its models: whole experts, equal numbers, whose routers.

Models with other numbers of experts cannot be merged tensor by tensor, and a file that lacks an expert would merge
silently where all lack the same: both are refused by name, before tensors are compared.
"""

from __future__ import annotations

from collections.abc import Sequence

from smelt.caller import word
from smelt.engine.plan.plan import Draft
from smelt.engine.pool import BASE, ModelPool
from smelt.errors import RecipeError, unknown
from smelt.formats.architecture.expert_layers import expert_layers
from smelt.recipe.patterns import chosen
from smelt.recipe.schema import Recipe

__all__ = ["expert_faults", "router_owners"]


def expert_faults(recipe: Recipe, pool: ModelPool) -> list[str]:
    """A sentence for each model whose experts are not whole, or not as many as the reference has."""
    faults: list[str] = []
    ours: dict[str, int] = {}
    for name, source in pool.all.items():
        layers = [
            layer
            for layer in expert_layers(source.tensors)
            if any(chosen(key, recipe.include, recipe.skip) for key in layer.experts)
        ]
        for layer in layers:
            faults += (f"{name}: {fault}" for fault in layer.faults(source.tensors))
        if name == pool.reference_name:
            ours = {layer.name: layer.count for layer in layers}
        elif not recipe.slices:
            other = [layer for layer in layers if ours.get(layer.name, layer.count) != layer.count]
            if other:
                more = f" and in {len(other) - 1} more layers" if len(other) > 1 else ""
                faults.append(
                    f"{name} has {other[0].count} experts in {other[0].name}, but {pool.reference_name} has "
                    f"{ours[other[0].name]}{more}; experts merge one with one, so models must have as many of them; "
                    f"{word('skip', ['experts', 'routers'])} takes those of {pool.reference_name} as they are"
                )
    return faults


def router_owners(recipe: Recipe, pool: ModelPool, drafts: Sequence[Draft]) -> dict[str, str]:
    """For each router's tensor the model that it is copied from, since the recipe does not say `merge`."""
    owner = recipe.routers
    if owner == BASE and pool.base is None:
        raise RecipeError(f"routers: base, but no base is given; name one of the models: {', '.join(pool.models)}")
    if owner not in pool.all:
        raise RecipeError(f"routers: {unknown('model', owner, ['merge', *pool.all])}")
    routers = {name for layer in expert_layers(pool.all[owner].tensors) for name in layer.routers}
    if not routers:
        raise RecipeError(f"routers: {owner}, but {pool.all[owner].label} has no layer with experts and a router")
    owned = {}
    for one in drafts:
        own = one.base_key if owner == BASE else one.taps.get(owner)
        if own is not None and own in routers:
            owned[one.key] = owner
        elif own is None and one.base_key in routers:
            raise RecipeError(f"routers: {owner}, but {owner} is not merged into {one.key!r}")
    return owned
