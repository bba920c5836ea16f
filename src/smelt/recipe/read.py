"""Reading recipes: native or mergekit YAML, from a file, a table or a Recipe, with changes on top."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smelt.errors import RecipeError
from smelt.files.reading import is_there
from smelt.files.yaml_reader import read_yaml
from smelt.recipe.schema import Recipe

__all__ = ["load_yaml", "read_recipe", "with_found_models"]


def read_recipe(
    source: Recipe | str | Path | Mapping[str, Any], changes: Mapping[str, Any] | None = None
) -> tuple[Recipe, Path | None]:
    """The recipe and the folder that its relative paths start from."""
    relative_to, notes = None, list[str]()
    if isinstance(source, Recipe):
        data: Any = source.dump()
        notes += source.notes
    elif isinstance(source, Mapping):
        data = dict(source)
    else:
        path = Path(source)
        data = load_yaml(path)
        relative_to = path.resolve().parent
    if isinstance(data, Mapping) and "merge_method" in data:
        from smelt.recipe.mergekit.reader import from_mergekit

        data, notes = from_mergekit(data)
    if changes:
        data = {**data, **changes}
    if isinstance(data, Mapping) and isinstance(data.get("pool"), Mapping):
        data = {**data, "pool": with_found_models(data["pool"], relative_to)}
    return Recipe.parse(data).noting(notes).as_stated(), relative_to


def with_found_models(pool: Mapping[str, Any], relative_to: Path | None) -> Mapping[str, Any]:
    """`models: run/checkpoint-*` means every folder or file of that pattern, by name, in the order of their numbers."""
    pattern = pool.get("models")
    if not isinstance(pattern, str):
        return pool
    import glob

    from smelt.files.reading import natural

    text = pattern.removeprefix("dir:")
    found = sorted(glob.glob(text, root_dir=relative_to), key=natural)
    if not found:
        raise RecipeError(
            f"pool.models: {pattern!r} matches no folder or file; write a table {{name: reference}}, a list, or a "
            "pattern such as run/checkpoint-*"
        )
    return {**pool, "models": found}


def load_yaml(path: Path, what: str = "recipe") -> Any:
    """The content of a YAML file in which no key stands twice; `what` it should be is said where it is none."""
    if not is_there(path):
        raise RecipeError(f"no {what} at {path}")
    if path.is_dir():
        raise RecipeError(f"{path} is a folder; a {what} is a YAML file")
    return read_yaml(path, kind=RecipeError)
