"""`smelt.list_models`: what the zoo has, or how the models of a pool fit each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError

if TYPE_CHECKING:
    from smelt.engine.plan.compatibility import Compatibility
    from smelt.models.zoo import ZooModel

__all__ = ["list_models"]


def list_models(
    pool: str | Path | Mapping[str, Any] | Sequence[str] | None = None,
    *,
    base: str | None = None,
    allow_pickle: bool = False,
) -> list[ZooModel] | Compatibility:
    """The models of the zoo, or the compatibility report of a pool.

    `pool` is a YAML file with `base` and `models`, a table {name: reference} or a list of references. With
    `allow_pickle` these may name pickles.
    """
    if pool is None:
        if base is not None:
            raise RecipeError("a base alone is no pool: give the models to compare with it")
        from smelt.models.zoo import zoo_models

        return zoo_models()
    from smelt.models.pool import ModelPool

    with ModelPool.open(pool, base=base, allow_pickle=allow_pickle) as opened:
        return opened.compatibility()
