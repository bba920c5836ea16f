"""The models that an analysis looks at, however they are given: opened for the time of a `with`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from smelt.engine.pool import ModelPool, opened, read_pool
from smelt.engine.request import read_request
from smelt.errors import RecipeError
from smelt.formats.source import Source
from smelt.models.references import open_ref
from smelt.recipe.read import load_yaml
from smelt.recipe.schema import Pool, Recipe

__all__ = ["open_models", "open_one"]

_RECIPE = frozenset({"merge", "merge_method"})
"""Keys by which a table says how to merge, in Smelt's words or mergekit's; a pool does not."""


@contextmanager
def open_models(models: Any, base: Any = None, *, allow_pickle: bool = False) -> Iterator[ModelPool]:
    """An open pool from a pool, a recipe, the path of either's YAML, or models and base as `smelt.merge` takes them.

    A ModelPool that was open stays open; what is opened here is closed again. With `allow_pickle` references may name
    pickles, as they may in a recipe that says so itself.
    """
    if base is not None and isinstance(models, ModelPool | Pool | Recipe | str | Path):
        raise RecipeError("a recipe or pool already names its base; give either that or models and a base")
    if isinstance(models, ModelPool):
        yield models
    elif isinstance(models, Pool) or _is_pool_file(models):
        pool, folder = read_pool(models)
        with opened(pool, relative_to=folder, allow_pickle=allow_pickle) as fresh:
            yield fresh
    else:
        recipe, relative_to, in_memory = read_request(models, base)
        if in_memory is not None:
            yield in_memory
            return
        allow_pickle = allow_pickle or recipe.allow_pickle
        with opened(recipe.pool, relative_to=relative_to, allow_pickle=allow_pickle) as fresh:
            yield fresh


@contextmanager
def open_one(model: Any, *, allow_pickle: bool = False) -> Iterator[Source]:
    """One model as a Source. A reference is opened and closed again; a Source, state dict or module is as it is."""
    if isinstance(model, Source):
        yield model
        return
    if isinstance(model, str | Path):
        with closing(open_ref(str(model), allow_pickle=allow_pickle)) as source:
            yield source
        return
    pool = read_request({"model": model}).pool
    assert pool is not None  # a model that is no reference lies in memory
    yield pool.models["model"]


def _is_pool_file(models: Any) -> bool:
    """Whether this is the path of a YAML file that names models and says nothing of merging them."""
    if not isinstance(models, str | Path):
        return False
    table = load_yaml(Path(models), "recipe or pool")
    return isinstance(table, Mapping) and not table.keys() & _RECIPE
