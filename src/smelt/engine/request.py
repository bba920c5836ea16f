"""The words of a call -> a recipe: models as references or in memory, a method by name, or a recipe in any form.

In: what `smelt.merge`, `smelt.plan` and the analyses take. Out: a checked Recipe, and the pool if it lies in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from smelt.errors import RecipeError, nearest, unknown
from smelt.recipe.base_as_model import counted_base, with_base_counted
from smelt.recipe.read import read_recipe
from smelt.recipe.schema import Recipe

if TYPE_CHECKING:
    from smelt.engine.pool import ModelPool
    from smelt.formats.source import Source

__all__ = ["Request", "read_request"]

_RECIPE_WORDS = frozenset(Recipe.model_fields) - {"pool", "merge"}
_RECIPE_MARKS = frozenset({"pool", "merge_method"})
"""Keys by which a table is a recipe (Smelt's or mergekit's) and not a table of models."""


class Request(NamedTuple):
    """What was asked for, read."""

    recipe: Recipe
    relative_to: Path | None
    """The folder that the recipe's paths are relative to: that of its file, if it has one."""
    pool: ModelPool | None
    """The models, where they lie in memory; references are opened by whoever needs them."""


def read_request(models: Any, base: Any = None, method: Any = None, words: Mapping[str, Any] | None = None) -> Request:
    """What `smelt.merge` and its kin are given, checked: a recipe in any of its forms, or models and a method."""
    words = words or {}
    if isinstance(models, Recipe | str | Path) or (isinstance(models, Mapping) and models.keys() & _RECIPE_MARKS):
        if base is not None or method is not None:
            raise RecipeError(
                "a recipe already says what to merge and how; give either a recipe or models and a method"
            )
        said, parameters = _sorted_words(words)
        recipe, relative_to = read_recipe(models, said)
        return Request(with_base_counted(_placed(recipe, parameters)), relative_to, None)
    named = _named(models)
    memory = [m for m in (base, *named.values()) if m is not None and not isinstance(m, str | Path)]
    if memory and len(memory) < len(named) + (base is not None):
        raise RecipeError("give either references for all models or state dicts and modules for all")
    words, measured = _without_tensors(words, bool(memory))
    said, parameters = _sorted_words(words)
    recipe = Recipe.parse(
        {
            "pool": {"base": _ref(base, "base"), "models": {name: _ref(m, name) for name, m in named.items()}},
            "merge": method or "average",
            **said,
        }
    )
    recipe = _placed(recipe, parameters)
    counted = counted_base(recipe)
    if counted is not None:
        recipe, base, named = with_base_counted(recipe), None, {counted: base, **named}
    return Request(recipe, None, _in_memory(base, named, measured) if memory else None)


def _sorted_words(words: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Words of the recipe, and those that are parameters of its stages."""
    said = {word: value for word, value in words.items() if word in _RECIPE_WORDS}
    return said, {word: value for word, value in words.items() if word not in _RECIPE_WORDS}


def _named(models: Any) -> dict[str, Any]:
    if isinstance(models, Mapping):
        return {str(name): model for name, model in models.items()}
    if isinstance(models, Sequence):
        if all(isinstance(model, str | Path) for model in models):
            return dict(Recipe.parse({"pool": {"models": [str(m) for m in models]}, "merge": "average"}).pool.models)
        return {f"model-{number}": model for number, model in enumerate(models, 1)}
    raise RecipeError(f"models are a table {{name: model}} or a list, got {type(models).__name__}")


def _ref(model: Any, name: str) -> str | None:
    if model is None:
        return None
    return str(model) if isinstance(model, str | Path) else f"memory:{name}"


def _placed(recipe: Recipe, parameters: Mapping[str, Any]) -> Recipe:
    """The recipe with parameters that were given beside it, each with the stage that it belongs to."""
    if not parameters:
        return recipe
    from smelt.recipe.stage_parameters import parameters_of, with_parameters

    known = {name for call in recipe.merge for name in parameters_of(call)}
    for word in parameters:  # one that is no parameter may be meant as a word of the recipe
        if known and word not in known and nearest(word, _RECIPE_WORDS | known) in _RECIPE_WORDS:
            raise RecipeError(unknown("parameter or word of the recipe", word, _RECIPE_WORDS | known))
    if any(one.merge for one in (*recipe.parts, *(recipe.slices or ()))):
        raise RecipeError(
            f"{next(iter(parameters))}: parts or slices of this recipe have stages of their own; write it beside the "
            "stage that is meant"
        )
    return recipe.model_copy(update={"merge": with_parameters(recipe.merge, parameters)})


def _without_tensors(words: Mapping[str, Any], in_memory: bool) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """The words as a recipe can hold them, and the statistics that are no references but lie in memory."""
    given = words.get("statistics")
    if not isinstance(given, Mapping):
        return words, {}
    given = {str(name): one for name, one in given.items()}
    tensors = {name: one for name, one in given.items() if not isinstance(one, str | Path)}
    if tensors and not in_memory:
        raise RecipeError(
            "statistics in memory go with models in memory; save them in a folder and give its path, or load the models"
        )
    return {**words, "statistics": {name: _ref(one, name) for name, one in given.items()}}, tensors


def _in_memory(base: Any, named: Mapping[str, Any], statistics: Mapping[str, Any]) -> ModelPool:
    from smelt.engine.pool import ModelPool
    from smelt.formats.source import Source

    return ModelPool(
        _source(base, "base") if base is not None else None,
        {name: _source(m, name) for name, m in named.items()},
        {
            name: one if isinstance(one, Source) else _source(one, f"statistics of {name}")
            for name, one in statistics.items()
        },
    )


def _source(model: Any, name: str) -> Source:
    import torch

    from smelt.formats.source import MemorySource
    from smelt.formats.views.experts import with_experts_apart

    state = model.state_dict() if isinstance(model, torch.nn.Module) else model
    if not isinstance(state, Mapping) or not all(isinstance(t, torch.Tensor) for t in state.values()):
        raise RecipeError(f"{name}: expected a reference, a state dict or a module, got {type(model).__name__}")
    config = getattr(model, "config", None)
    words = config.to_dict() if hasattr(config, "to_dict") else None  # type: ignore[union-attr]
    return with_experts_apart(MemorySource(f"state dict {name!r}", state), words)
