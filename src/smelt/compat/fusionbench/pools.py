"""Pools by name: those that ship with Smelt (`configs/modelpool`, `names`), or a YAML file of the same form.

In: `MergeBench/Llama-3.2-3B` or a path. Out: the base, the models, and the words of a recipe that go with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from smelt.compat.fusionbench.names import CONFIGS, own_name, shipped
from smelt.errors import RecipeError, unknown

__all__ = ["ShippedPool", "shipped_pool", "shipped_pools"]

_FOLDER = CONFIGS / "modelpool"


class ShippedPool(NamedTuple):
    base: str | None
    models: Mapping[str, str]
    words: dict[str, Any]


def shipped_pools() -> list[str]:
    """The names of the pools that come along."""
    files = (path.relative_to(_FOLDER).as_posix().removesuffix(".yaml") for path in _FOLDER.rglob("*.yaml"))
    return sorted({*files, *(name for name, pool in shipped("modelpool").items() if pool["models"])})


def shipped_pool(name: str) -> ShippedPool:
    """A pool by its name, or by the path of its YAML file."""
    from smelt.compat.fusionbench.reader import read_model_pool
    from smelt.models.references import absolute_ref
    from smelt.recipe.read import load_yaml

    known = shipped_pools()
    path = Path(name)
    if not path.is_file():
        name, _ = own_name("modelpool", name, known)
        path = _FOLDER / f"{name}.yaml" if name in known else path
    if name not in known and path.suffix not in (".yaml", ".yml"):
        raise RecipeError(f"{unknown('pool', name, known)}; a pool of your own is a YAML file")
    content = shipped("modelpool")[name] if name in shipped("modelpool") else load_yaml(path, "pool")
    if isinstance(content, Mapping) and isinstance(content.get("pool"), Mapping):
        content = content["pool"]
    pool, words = read_model_pool(content, str(path))
    folder = path.resolve().parent
    models = {model: absolute_ref(ref, folder) for model, ref in pool.models.items()}
    return ShippedPool(absolute_ref(pool.base, folder) if pool.base else None, models, words)
