"""A base that counts as a model: what `slerp` with a base and one model means, in mergekit's configurations too.

Of a method that merges exactly two models and knows no base, a request with a base and one model has one meaning: from
the base (t = 0) to the model (t = 1).
"""

from __future__ import annotations

from smelt.recipe.reference_name import ref_name
from smelt.recipe.schema import Pool, Recipe

__all__ = ["counted_base", "with_base_counted"]


def counted_base(recipe: Recipe) -> str | None:
    """The name that the base gets as a model, if it counts as one."""
    if recipe.pool.base is None or len(recipe.pool.models) != 1 or len(recipe.merge) != 1:
        return None
    if recipe.parts or recipe.slices:
        return None
    from smelt.methods import stages

    call = recipe.merge[0]
    stage = stages.get(call.name)
    if stage is None or stage.kind != "method" or stage.models != (2, 2):
        return None
    defaults = {one.name: one.default for one in stage.parameters.values() if not one.required}
    if stage.needs_base({**defaults, **call.parameters}):
        return None
    name = ref_name(recipe.pool.base)
    return name if name and name != "base" and name not in recipe.pool.models else "base-model"


def with_base_counted(recipe: Recipe) -> Recipe:
    """The recipe with the base as its first model, where it counts as one; a note says so."""
    name = counted_base(recipe)
    if name is None or recipe.pool.base is None:
        return recipe
    (other,) = recipe.pool.models
    graft = {name if one == "base" else one: place for one, place in recipe.pool.graft.items()}
    pool = Pool(base=None, models={name: recipe.pool.base, **recipe.pool.models}, graft=graft)
    note = f"{recipe.merge[0].name} merges two models: the base, {name}, counts as the first, {other} as the second"
    return recipe.model_copy(update={"pool": pool}).noting([*recipe.notes, note])
