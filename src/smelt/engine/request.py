"""The words of a call -> a recipe: models as references or in memory, a method by name, or a recipe in any form.

In: what `smelt.merge`, `smelt.plan` and the analyses take. Out: a checked Recipe, and the pool if it lies in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from smelt.errors import RecipeError, nearest, unknown
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
        strange = sorted(set(words) - _RECIPE_WORDS)
        if strange:
            raise RecipeError(unknown("word of the recipe", strange[0], _RECIPE_WORDS))
        if base is not None or method is not None:
            raise RecipeError(
                "a recipe already says what to merge and how; give either a recipe or models and a method"
            )
        return Request(*read_recipe(models, words), None)
    named = _named(models)
    memory = [m for m in (base, *named.values()) if m is not None and not isinstance(m, str | Path)]
    if memory and len(memory) < len(named) + (base is not None):
        raise RecipeError("give either references for all models or state dicts and modules for all")
    words, measured = _without_tensors(words, bool(memory))
    recipe = Recipe.parse(
        {
            "pool": {"base": _ref(base, "base"), "models": {name: _ref(m, name) for name, m in named.items()}},
            "merge": _pipeline(method or "average", {k: v for k, v in words.items() if k not in _RECIPE_WORDS}),
            **{key: value for key, value in words.items() if key in _RECIPE_WORDS},
        }
    )
    return Request(recipe, None, _in_memory(base, named, measured) if memory else None)


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


def _pipeline(method: Any, parameters: Mapping[str, Any]) -> Any:
    """Loose parameters belong to the method when it is given by name alone."""
    if not parameters:
        return method
    if isinstance(method, str):
        _refuse_misspelt_words(method, parameters)
        return [{method: dict(parameters)}]
    raise RecipeError(
        f"write {', '.join(parameters)} beside the stage it belongs to: method=[('dare', {{...}}), 'ties']"
    )


def _refuse_misspelt_words(method: str, parameters: Mapping[str, Any]) -> None:
    """A keyword that is no parameter may be meant as a word of the recipe."""
    from smelt.methods import stages
    from smelt.methods.aliases import ALIASES

    names = [name for name, _ in ALIASES.get(method, [(method, {})]) if name in stages]
    known = {parameter for name in names for parameter in stages[name].parameters}
    for word in parameters:
        if names and word not in known and nearest(word, _RECIPE_WORDS | known) in _RECIPE_WORDS:
            raise RecipeError(unknown("parameter or word of the recipe", word, _RECIPE_WORDS | known))


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

    state = model.state_dict() if isinstance(model, torch.nn.Module) else model
    if not isinstance(state, Mapping) or not all(isinstance(t, torch.Tensor) for t in state.values()):
        raise RecipeError(f"{name}: expected a reference, a state dict or a module, got {type(model).__name__}")
    return MemorySource(f"state dict {name!r}", state)
