"""What all selections share: a request checked, models and sets open, the chosen model written.

OUT holds `trace.json`, `chosen.yaml` (an ordinary recipe), `model` (what it makes, with its manifest) and `logits`, the
answers. A run that was stopped goes on where it was; a folder that was begun with another request is refused, and
`force` empties it, but for answers that lie in a shared store elsewhere.
"""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.display.blocks import Lines, Table
from smelt.display.shown import Shown
from smelt.engine.merge import Options, merge_to_folder
from smelt.errors import RecipeError
from smelt.recipe.read import read_recipe
from smelt.recipe.schema import DataBudget, Recipe
from smelt.runs.protocol import content_of, seen_from
from smelt.runs.run_folder import RunFolder
from smelt.select.group_merges import GroupMerges
from smelt.select.logit_store import LogitStore
from smelt.select.option_sets import OptionSets, open_option_sets
from smelt.select.scores import ModelScores, Scorer
from smelt.select.subset_recipe import in_pool_order, narrowed, single
from smelt.select.trace import FILE, Trace
from smelt.tasks.perturbations.perturbation import Perturbation
from smelt.tasks.registry import Tasks, find_tasks

__all__ = ["Asking", "Selected", "SelectionRun", "requested_words", "selection_run"]

_CHOSEN, _MODEL, _LOGITS = "chosen.yaml", "model", "logits"


@dataclass(frozen=True)
class Selected(Shown):
    """What a selection found."""

    models: tuple[str, ...]
    """The chosen group, in the order in which it grew."""
    recipe: Recipe
    """The recipe that makes it, as in `chosen.yaml`; its models are in the order of the pool."""
    trace: Trace
    folder: Path
    asked: int
    """Passes over a set that this run made; the others were there."""
    seconds: float

    def shown(self) -> list[Table | Lines]:
        again = shlex.join(["smelt", "merge", str(self.recipe_file), "-o", "OUT"])
        said = [
            *(f"note: {note}" for note in self.trace.notes),
            f"{self.asked} passes made now, in {self.seconds:.0f} s; all answers are kept",
            f"chosen: {', '.join(self.models)}. The model: {self.model}. The same again: {again}",
        ]
        return [*self.trace.shown(), Lines(said)]

    @property
    def model(self) -> Path:
        """Where the chosen model lies."""
        return self.folder / _MODEL

    @property
    def recipe_file(self) -> Path:
        """Where its recipe lies."""
        return self.folder / _CHOSEN

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "folder": str(self.folder),
            "model": str(self.model),
            "recipe": self.recipe.dump(),
            "asked": self.asked,
            "seconds": self.seconds,
            **self.trace.to_json(),
        }


@dataclass
class SelectionRun:
    """A selection on its way."""

    recipe: Recipe
    relative_to: Path | None
    groups: GroupMerges
    measure: Scorer
    trace: Trace
    folder: Path
    tell: Callable[[str], None]
    began: float
    chosen_by_labels: bool

    def measured(self, names: Sequence[str]) -> ModelScores:
        """What a group's merge is like; it is made if it has not been asked before."""
        return self.measure.of(self.groups.identity(names), lambda: self.groups.at(names))

    def finish(self) -> Selected:
        """Write the recipe of the chosen group, and the model that it makes."""
        group = self.trace.group
        own = in_pool_order(self.recipe, group)
        recipe = narrowed(self.recipe, own) if len(own) > 1 else single(self.recipe, own[0])
        images = sum(one.n for one in self.measure.option_sets.sets)
        used = DataBudget(
            split=self.measure.option_sets.split, images=images, labels=images if self.chosen_by_labels else 0
        )
        recipe = recipe.model_copy(update={"looked_at": used})
        seen = seen_from(recipe, self.relative_to, self.folder)
        seen.save(self.folder / _CHOSEN)
        self.trace.save(self.folder)
        merge_to_folder(seen, self.folder / _MODEL, Options(resume=True, force=True), relative_to=self.folder.resolve())
        seconds = time.perf_counter() - self.began
        return Selected(group, seen, self.trace, self.folder, self.measure.asked, seconds)


@dataclass(frozen=True)
class Asking:
    """How models are asked, where the answers go, and who hears of it."""

    batch: int
    text_from: str | None
    device: str
    dtype: str
    store: str | Path | None
    force: bool
    tell: Callable[[str], None]


@contextmanager
def selection_run(
    recipe: Recipe | str | Path | Mapping[str, Any],
    *,
    out: str | Path,
    tasks: Tasks,
    perturbation: Perturbation | None,
    words: Mapping[str, Any],
    split: str,
    limit: int | None,
    repeats: int,
    chosen_by_labels: bool,
    check: Callable[[OptionSets], None],
    asking: Asking,
) -> Iterator[SelectionRun]:
    """Everything that a selection needs, checked before the first pass.

    `words` are its own part of the request, `check` refuses what it cannot go by.
    """
    began = time.perf_counter()
    read, relative_to = read_recipe(recipe)
    if len(read.pool.models) < 2:
        raise RecipeError(
            f"pool.models: {next(iter(read.pool.models))} is the only model, so there is nothing to choose"
        )
    if repeats < 1:
        raise RecipeError(f"repeats: how often all is asked with other draws, at least 1; got {repeats}")
    loading = {"text_from": asking.text_from, "device": asking.device, "dtype": asking.dtype}
    more: dict[str, Any] = {**loading, "allow_pickle": read.allow_pickle}
    sets = open_option_sets(tasks, perturbation, split=split, limit=limit, batch=asking.batch, **more)
    _check_labels(sets, chosen_by_labels)
    check(sets)
    content = content_of(read, relative_to, find_tasks(tasks))
    told = {"text tower": sets.text_fingerprint} if asking.text_from is not None else {}
    request = {**words, "split": split, "limit": limit, **loading}
    plain = read.model_copy(update={"select": None})
    folder = RunFolder(Path(out), {"recipe": plain.hash[:16], **request, **content, **told}, force=asking.force)
    try:
        if asking.force:
            _clear(folder.path, asking.store)
        groups = GroupMerges(plain, relative_to, content["models"], content.get("statistics"))
        try:
            measure = Scorer(sets, LogitStore(asking.store or folder.path / _LOGITS), repeats=repeats)
            trace = Trace({**request, "tasks": [one.task.name for one in sets.sets]}, sets.notes)
            yield SelectionRun(
                plain, relative_to, groups, measure, trace, folder.path, asking.tell, began, chosen_by_labels
            )
        finally:
            groups.close()
    finally:
        folder.close()


def requested_words(recipe: Any, kind: str, words: Mapping[str, Any]) -> dict[str, Any]:
    """What a call says (None is nothing) over what the recipe's `select` says."""
    read, _ = read_recipe(recipe)
    own = getattr(read.select, kind, None)
    said = own.model_dump(exclude_unset=True) if own is not None else {}
    return {**said, **{word: value for word, value in words.items() if value is not None}}


def _check_labels(sets: OptionSets, needed: bool) -> None:
    without = [one.task.name for one in sets.sets if one.labels is None]
    if needed and without:
        raise RecipeError(f"tasks: {without[0]} has no labels, so accuracy cannot choose; go by uncertainty")


def _clear(folder: Path, store: str | Path | None) -> None:
    """Take away what an earlier run chose, and what it asked; a store that was named is not this run's to empty."""
    for name in (FILE, _CHOSEN):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / _MODEL, ignore_errors=True)
    if store is None or Path(store).resolve() != (folder / _LOGITS).resolve():
        shutil.rmtree(folder / _LOGITS, ignore_errors=True)
