"""The greedy soup: sort models by accuracy on validation data, and keep each whose addition does no harm.

    for each model, the best first:  keep it if  accuracy(merge of the kept ones and it) >= accuracy(merge of the kept)
Wortsman et al. 2022, arXiv:2203.05482. It looks at labels, so it is a reference for selections that do not: its split
is `val`, never `test`. Any method of the engine merges, the average by default of the recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.errors import RecipeError
from smelt.files.remote_code import takes_trust
from smelt.recipe.schema import Recipe
from smelt.select.scores import ModelScores
from smelt.select.selection import Asking, Selected, SelectionRun, requested_words, selection_run
from smelt.select.step_choice import ordered
from smelt.select.trace import SelectionStep
from smelt.tasks.registry import Tasks

__all__ = ["Tried", "greedy", "soup"]

_USUAL = {"tasks": "mllm10-val", "split": "val", "limit": None}


@dataclass(frozen=True)
class Tried:
    """One step of a greedy soup: the models kept so far with one more, and whether that one stays."""

    group: tuple[str, ...]
    added: str
    accuracy: float
    kept: bool


def greedy(names: Iterable[str], accuracy: Callable[[Sequence[str]], float]) -> Iterator[Tried]:
    """Try models in turn, the best first; `accuracy` is that of a group's merge. The last kept group is the soup."""
    kept: tuple[str, ...] = ()
    best = -1.0
    for name in names:
        group = (*kept, name)
        value = accuracy(group)
        stays = value >= best
        if stays:
            kept, best = group, value
        yield Tried(group, name, value, stays)


@takes_trust
def soup(
    recipe: Recipe | str | Path | Mapping[str, Any],
    *,
    out: str | Path,
    tasks: Tasks | None = None,
    split: str | None = None,
    limit: int | None = None,
    batch: int = 64,
    text_from: str | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    trust_remote_code: bool = False,
    store: str | Path | None = None,
    force: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> Selected:
    """Choose which models of a recipe to merge, by accuracy on labelled validation data.

    `recipe` names the models and the merge. What is not said here is what the recipe's `select: {soup: {...}}` says,
    else the usual: the tasks `mllm10-val` and their split `val`. The folder `out` is that of `uq_merge`, and `store`
    and `force` are as there.
    """
    words = {**_USUAL, **requested_words(recipe, "soup", {"tasks": tasks, "split": split, "limit": limit})}
    if words["split"] == "test":
        raise RecipeError(
            "a soup is not chosen on `test`: accuracy on examples that chose the models proves nothing; use `val`"
        )
    with selection_run(
        recipe,
        out=out,
        tasks=words["tasks"],
        perturbation=None,
        words={"select": "soup"},
        split=words["split"],
        limit=words["limit"],
        repeats=1,
        chosen_by_labels=True,
        check=lambda sets: None,
        asking=Asking(batch, text_from, device, dtype, store, force, tell),
    ) as found:
        _run(found)
        return found.finish()


def _run(found: SelectionRun) -> None:
    trace = found.trace
    for name in found.recipe.pool.models:
        trace.singles[name] = found.measured([name])
        trace.save(found.folder)
    trace.order = tuple(ordered({name: one.accuracy or 0.0 for name, one in trace.singles.items()}))
    found_at: dict[tuple[str, ...], ModelScores] = {}

    def accuracy(group: Sequence[str]) -> float:
        here = found_at[tuple(group)] = found.measured(group)
        return here.accuracy or 0.0

    for one in greedy(trace.order, accuracy):
        trace.steps.append(SelectionStep(one.group, one.added, found_at[one.group], 1 - one.accuracy, kept=one.kept))
        found.tell(f"{one.added} {'stays' if one.kept else 'goes'}: {100 * one.accuracy:.2f} %")
        if one.kept:
            trace.chosen = len(trace.steps)
        trace.save(found.folder)
