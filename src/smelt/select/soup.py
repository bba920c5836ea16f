"""The greedy soup: sort models by accuracy on validation data, and keep each whose addition does no harm.

    for each model, the best first:  keep it if  accuracy(merge of the kept ones and it) >= accuracy(merge of the kept)
Wortsman et al. 2022, arXiv:2203.05482. It looks at labels, so it is a reference for selections that do not: its split
is `val`, never `test`. Any method of the engine merges, the average by default of the recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from smelt.errors import RecipeError
from smelt.evaluate.find import Tasks
from smelt.recipe.schema import Recipe
from smelt.room import callable_room
from smelt.select.call import Frame, Selected, frame, given
from smelt.select.choose import ordered
from smelt.select.trace import Step

__all__ = ["soup"]

_USUAL = {"tasks": "mllm10-val", "split": "val", "limit": None}


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
    store: str | Path | None = None,
    force: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> Selected:
    """Choose which models of a recipe to merge, by accuracy on labelled validation data.

    What is not said here is what the recipe's `select: {soup: {...}}` says, else the usual: the tasks `mllm10-val` and
    their split `val`. The folder `out` is that of `uq_merge`.
    """
    words = {**_USUAL, **given(recipe, "soup", {"tasks": tasks, "split": split, "limit": limit})}
    if words["split"] == "test":
        raise RecipeError(
            "a soup is not chosen on `test`: accuracy on examples that chose the models proves nothing; use `val`"
        )
    with frame(
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
        batch=batch,
        text_from=text_from,
        device=device,
        dtype=dtype,
        store=store,
        force=force,
        tell=tell,
    ) as found:
        _run(found)
        return found.finish()


def _run(found: Frame) -> None:
    trace = found.trace
    for name in found.recipe.pool.models:
        trace.singles[name] = found.measured([name])
        trace.save(found.folder)
    trace.order = tuple(ordered({name: one.accuracy or 0.0 for name, one in trace.singles.items()}))
    kept: tuple[str, ...] = ()
    best = -1.0
    for name in trace.order:
        group = (*kept, name)
        here = found.measured(group)
        accuracy = here.accuracy or 0.0
        stays = accuracy >= best
        trace.steps.append(Step(group, name, here, 1 - accuracy, kept=stays))
        found.tell(f"{name} {'stays' if stays else 'goes'}: {100 * accuracy:.2f} %")
        if stays:
            kept, best, trace.chosen = group, accuracy, len(trace.steps)
        trace.save(found.folder)


callable_room(__name__, __name__)
