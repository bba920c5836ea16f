"""One trial as a job: merge a recipe, evaluate it task after task, stop where it is hopeless.

Everything that the numbers follow from is an argument, hashes of models and tasks among it. A worker keeps the models,
data and tokenizer of the study that it worked on last, so that the next trial costs little more than its evaluation.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.recipe.schema import DataBudget, Recipe
from smelt.search.pruning import PruningThreshold

if TYPE_CHECKING:
    from smelt.prepare.repeated_merges import RepeatedMerges
    from smelt.tasks.pictures.data_cache import DataCache
    from smelt.tasks.task import Task

__all__ = ["forget", "run_trial"]

_held: dict[str, _Held] = {}
"""The study that this process worked on last, under what it is about."""


def run_trial(
    *,
    recipe: dict[str, Any],
    recipe_hash: str,
    content: dict[str, Any],
    relative_to: str | None,
    tasks: list[str],
    split: str,
    limit: int | None,
    text_from: str | None,
    device: str,
    dtype: str,
    bar: dict[str, Any] | None,
    about: dict[str, Any],
) -> dict[str, Any]:
    """Rows, scores in the order of the tasks, and what merging and evaluating took.

    `content` holds the fingerprints of models and tasks, `recipe_hash` the order of the models: they are what makes two
    jobs equal. `tasks` are folders, or names where there is none. `bar` says when to stop; `about` are words of rows.
    """
    began = time.perf_counter()
    made = Recipe.parse(recipe)
    study = _study(made, relative_to, {"content": content, "pool": _models(made)}, device)
    state = study.merges.at(made, once=not _tries_scales(about))
    merged = time.perf_counter()
    rows, stopped = study.rows(
        state,
        tasks,
        PruningThreshold(bar["best"], tuple(bar["ceiling"])) if bar else None,
        {"recipe": made.dump(), "recipe_hash": recipe_hash, "seed": made.seed, **about},
        split=split,
        limit=limit,
        text_from=text_from,
        device=device,
        dtype=dtype,
    )
    return {
        "scores": [row["accuracy"] for row in rows],
        "stopped": stopped,
        "rows": rows,
        "merge_seconds": merged - began,
        "evaluate_seconds": time.perf_counter() - merged,
    }


def forget() -> None:
    """Let go of the models and pictures that are kept for the next trial."""
    _held.clear()


def _tries_scales(about: Mapping[str, Any]) -> bool:
    """Whether a scale is among what the study varies: if not, a change would be kept for nobody."""
    return any(word.split(".")[1] == "scale" for word in about["setting"])


def _models(recipe: Recipe) -> list[list[str]]:
    """The models of a recipe, in order."""
    return [list(pair) for pair in recipe.pool.refs.items()]


class _Held:
    """What a study's trials share: models, data, tasks, and the tokenizer of a language model."""

    def __init__(self, merges: RepeatedMerges, data: DataCache):
        self.merges, self._data = merges, data
        self._tasks: dict[str, Task] = {}
        self._sizes: dict[tuple[str, str, int | None], int] = {}
        self._text: Any = None

    def rows(
        self,
        state: Mapping[str, Any],
        places: Sequence[str],
        bar: PruningThreshold | None,
        about: Mapping[str, Any],
        *,
        split: str,
        limit: int | None,
        **how: Any,
    ) -> tuple[list[dict[str, Any]], bool]:
        """The rows of one merged model, task after task, and whether it was stopped before the last."""
        from smelt.evaluation.evaluate import evaluate_model

        tasks = [self._task(place) for place in places]
        model = self._loaded(state, tasks, **how)
        budget = _together(self.merges.budget, self._budget(tasks, split, limit))
        words = {**about, "variant": "curve", "data_budget": budget}
        rows: list[dict[str, Any]] = []
        for task in tasks:
            (row,) = evaluate_model(model, [task], split=split, limit=limit, data=self._data, **words).rows
            rows.append(row.model_dump(mode="json"))
            if bar is not None and bar.beyond([row["accuracy"] for row in rows]):
                return rows, True
        return rows, False

    def _loaded(self, state: Mapping[str, Any], tasks: Sequence[Task], text_from: Any, **how: Any) -> Any:
        """The merged model, ready to be asked; config and tokenizer of a language model are read once."""
        from smelt.evaluation.load import load_model
        from smelt.formats.source import MemorySource
        from smelt.models.families.causal_lm.model import CausalLM

        source = MemorySource("merged", state)
        if self._text is None:
            source.folder = self.merges.pool.reference.folder
        model = load_model(source, tasks, text_from=self._text or text_from, **how)
        if isinstance(model, CausalLM):
            self._text = replace(model, module=None)
        return model

    def _task(self, place: str) -> Task:
        from smelt.tasks.registry import find_task

        if place not in self._tasks:
            self._tasks[place] = find_task(place)
        return self._tasks[place]

    def _budget(self, tasks: Sequence[Task], split: str, limit: int | None) -> DataBudget:
        """The labelled examples that settings of this study are chosen by."""
        images = sum(self._size(task, split, limit) for task in tasks)
        return DataBudget(split=split, images=images, labels=images)

    def _size(self, task: Task, split: str, limit: int | None) -> int:
        asked = (task.name, split, limit)
        if asked not in self._sizes:
            self._sizes[asked] = task.number_asked(split, limit, self._data)
        return self._sizes[asked]


def _together(looked: DataBudget, chosen_by: DataBudget) -> DataBudget:
    """What a merge looked at, and what its setting is chosen by."""
    if not looked.images:
        return chosen_by
    splits = ", ".join(dict.fromkeys(str(one.split) for one in (looked, chosen_by)))
    images, labels = looked.images + chosen_by.images, looked.labels + chosen_by.labels
    return DataBudget(split=splits, images=images, labels=labels)


def _study(recipe: Recipe, relative_to: str | None, about: Mapping[str, Any], device: str) -> _Held:
    from smelt.prepare.repeated_merges import RepeatedMerges
    from smelt.tasks.pictures.data_cache import DataCache

    key = json.dumps([about, relative_to, device], sort_keys=True)
    if key not in _held:
        _held.clear()  # the old study's models go before the new one's come
        _held[key] = _Held(
            RepeatedMerges(recipe, Path(relative_to) if relative_to else None, device=device), DataCache()
        )
    return _held[key]
