"""A recipe over some of its models, in a given order: what is said of the others is left out.

Parameters with one value per model keep those of the models that stay. What ties a recipe to one model by name (its
config, its vocabulary, slices of layers) is refused before anything is asked, since that model may not be chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smelt.errors import RecipeError
from smelt.methods import stages
from smelt.methods.aliases import ALIASES
from smelt.recipe.schema import Part, Recipe, StageCall

__all__ = ["check_narrowable", "in_pool_order", "narrowed", "single"]

_NOT_OF_MODELS = frozenset({"depth", "value", "filter"})


def in_pool_order(recipe: Recipe, names: Sequence[str]) -> list[str]:
    """Some models in the order of the pool: a group is the same group in whatever order it grew."""
    return [name for name in recipe.pool.models if name in names]


def narrowed(recipe: Recipe, names: Sequence[str]) -> Recipe:
    """The recipe of these models alone."""
    every = list(recipe.pool.models)
    pool = recipe.pool.model_copy(update={"models": {name: recipe.pool.models[name] for name in names}})
    parts = [part for part in (_part(part, every, names) for part in recipe.parts) if part is not None]
    changes = {
        "pool": pool,
        "merge": _calls(recipe.merge, every, names),
        "parts": parts,
        "statistics": {name: ref for name, ref in recipe.statistics.items() if name in names},
        "select": None,
        "tune": None,
    }
    return recipe.model_copy(update=changes)


def single(recipe: Recipe, name: str) -> Recipe:
    """The recipe whose result is this model itself, whatever the method would make of one model."""
    whole = narrowed(recipe, [name])
    return whole.model_copy(update={"merge": [StageCall(name="average")], "parts": [], "statistics": {}})


def check_narrowable(recipe: Recipe) -> None:
    """Refuse what only holds for all models together."""
    if recipe.slices or any(part.slices for part in recipe.parts):
        raise RecipeError("slices: name layers of given models, so groups of models cannot be merged by them")
    words = {"config": recipe.config, "vocab": recipe.vocab, "chat_template": recipe.chat_template}
    tied = next((word for word, name in words.items() if name in recipe.pool.models), None)
    if tied:
        raise RecipeError(f"{tied}: {words[tied]!r} may not be among the chosen models; name the base")
    if recipe.lora is not None:
        raise RecipeError("lora: whole models are asked; leave `lora` out, and write it into the chosen recipe")


def _part(part: Part, every: Sequence[str], names: Sequence[str]) -> Part | None:
    models = None if part.models is None else [name for name in part.models if name in names]
    if models == []:
        return None
    merge = None if part.merge is None else _calls(part.merge, every, names)
    return part.model_copy(update={"models": models, "merge": merge})


def _calls(calls: Sequence[StageCall], every: Sequence[str], names: Sequence[str]) -> list[StageCall]:
    return [
        call.model_copy(
            update={
                "parameters": {
                    word: _value(value, every, names) if _per_model(call.name, word) else value
                    for word, value in call.parameters.items()
                }
            }
        )
        for call in calls
    ]


def _per_model(name: str, word: str) -> bool:
    composition = [stage for stage, _ in ALIASES.get(name, [(name, {})]) if stage in stages]
    return any(word in stages[stage].parameters and stages[stage].parameters[word].per_model for stage in composition)


def _value(value: Any, every: Sequence[str], names: Sequence[str]) -> Any:
    if isinstance(value, Mapping) and not value.keys() & _NOT_OF_MODELS:
        return {name: value[name] for name in names if name in value}
    if isinstance(value, list | tuple) and len(value) == len(every) and not any(isinstance(v, Mapping) for v in value):
        by_name = dict(zip(every, value, strict=True))
        return [by_name[name] for name in names]
    return value
