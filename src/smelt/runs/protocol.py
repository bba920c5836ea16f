"""What a run's numbers depend on, in plain words: those that a folder is begun with and held to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from smelt.caller import option
from smelt.engine.pool import opened
from smelt.errors import RecipeError
from smelt.models.references import local_path, ref_seen_from
from smelt.recipe.schema import Recipe
from smelt.runs.fingerprint import source_fingerprint
from smelt.tasks.task import Task, files_digest

__all__ = ["check_kind", "check_split", "content_of", "seen_from"]


def check_split(split: str, tasks: Sequence[Task]) -> None:
    """Refuse `test`, and splits that a task does not have."""
    if split == "test":
        raise RecipeError(
            "settings are not chosen on `test`: a score on examples that chose the setting proves nothing. "
            "Tune on `val`, then evaluate the best recipe on `test`"
        )
    for task in tasks:
        task.check_split(split)


def check_kind(recipe: Recipe, relative_to: Path | None, tasks: Sequence[Task]) -> None:
    """Refuse tasks of two kinds, and those that the models can say nothing about."""
    from smelt.files.reading import read_json_table
    from smelt.models.families.family import families

    pictures = [task.name for task in tasks if task.model_kind == "classifier"]
    texts = [task.name for task in tasks if task.model_kind != "classifier"]
    if pictures and texts:
        raise RecipeError(f"tasks: {pictures[0]} is about pictures and {texts[0]} about text; tune on one kind")
    with opened(recipe.pool, relative_to=relative_to, allow_pickle=recipe.allow_pickle) as pool:
        folder = pool.reference.folder
    config = read_json_table(folder / "config.json") if folder and (folder / "config.json").is_file() else {}
    kind = str(config.get("model_type"))
    asked = {what for one in families.values() if kind in one.model_types for what in one.model_kinds}
    if pictures and "causal_lm" in asked and "classifier" not in asked:
        raise RecipeError(
            f"tasks: {', '.join(pictures)} are about pictures, but the models are language models ({kind}); "
            f"choose tasks of text, as {option('tasks', 'llm5-val')}"
        )
    if texts and "classifier" in asked:
        raise RecipeError(
            f"tasks: {', '.join(texts)} are about text, but the models see pictures ({kind}); "
            f"choose tasks of pictures, as {option('tasks', 'clip8')}"
        )


def content_of(recipe: Recipe, relative_to: Path | None, tasks: Sequence[Task]) -> dict[str, dict[str, str]]:
    """Hashes over the files of every model (its small ones too), statistic and task, by name."""
    with opened(recipe.pool, relative_to=relative_to, allow_pickle=recipe.allow_pickle) as pool:
        models = {name: source_fingerprint(source) for name, source in pool.all.items()}
    places = {name: local_path(ref, relative_to) for name, ref in recipe.statistics.items()}
    measured = {
        name: files_digest(sorted(path.glob("*.safetensors"))) for name, path in places.items() if path is not None
    }
    return {
        "models": models,
        "tasks": {task.name: task.fingerprint() for task in tasks},
        **({"statistics": measured} if measured else {}),
    }


def seen_from(recipe: Recipe, relative_to: Path | None, folder: Path) -> Recipe:
    """The same recipe as a file of `folder`: paths become relative to it, hub and zoo names stay."""
    data = recipe.dump()
    pool: dict[str, Any] = data["pool"]
    if recipe.pool.base is not None:
        pool["base"] = _seen(recipe.pool.base, relative_to, folder)
    pool["models"] = _all_seen(recipe.pool.models, relative_to, folder)
    if recipe.statistics:
        data["statistics"] = _all_seen(recipe.statistics, relative_to, folder)
    return Recipe.parse(data)


def _all_seen(refs: Mapping[str, str], relative_to: Path | None, folder: Path) -> dict[str, str]:
    return {name: _seen(ref, relative_to, folder) for name, ref in refs.items()}


def _seen(ref: str, relative_to: Path | None, folder: Path) -> str:
    path = local_path(ref, relative_to)
    if path is None and "+" in ref:
        return "+".join(_seen(part, relative_to, folder) for part in ref.rsplit("+", 1))
    return ref if path is None else ref_seen_from(str(path), folder.resolve())
