"""UQ-Merge: sort models by their uncertainty, merge the first one, two, three, ..., and take the least uncertain merge.

    u_i = uncertainty of model i        sort by descending u        M_t = merge of the first t        argmin_t u(M_t)
Single models that are hardly uncertain are often over-confident, so they come last; of merges the least uncertain is
taken. No labels are needed; where there are some, accuracy goes into the trace. With `guide="accuracy"` accuracy takes
the place of uncertainty in both: models are sorted by it, and the merge with the fewest wrong answers is taken. Labels
are used then, so the split has to be named.

UQ-Merge: Uncertainty Guided Multimodal Large Language Model Merging (2024). Same as its Algorithm 1: descending,
`global_min`. Differs from its code: the uniform mean instead of a chain of halves, float32 sums, seeded perturbations
that are the same for all models, entropies with a shift. The paper's own trace has its minimum at all ten models, and
it reports seven, the first local minimum: `choose="first_local_min"` does that.
The merge of one model is the model, whatever the method would make of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

from smelt.errors import RecipeError, unknown
from smelt.files.remote_code import takes_trust
from smelt.recipe.schema import Recipe
from smelt.select.option_sets import OptionSets
from smelt.select.scores import ModelScores
from smelt.select.selection import Asking, Selected, SelectionRun, requested_words, selection_run
from smelt.select.step_choice import Choice, Guide, Order, chosen_step, ordered
from smelt.select.trace import SelectionStep
from smelt.tasks.perturbations.perturbation import Perturbation
from smelt.tasks.registry import Tasks

__all__ = ["CHOOSING", "uq_merge"]

_PERTURBED = ("image", "text", "model", "passes", "dropout", "seed")
_USUAL = {"tasks": "mllm10", "split": "test", "limit": None, "repeats": 1}
CHOOSING = {"guide": "uncertainty", "order": "descending", "choose": "global_min"}
"""What guides, in which order groups grow, and which step is taken, where nothing is said."""


@takes_trust
def uq_merge(
    recipe: Recipe | str | Path | Mapping[str, Any],
    *,
    out: str | Path,
    tasks: Tasks | None = None,
    split: str | None = None,
    limit: int | None = None,
    image: bool | None = None,
    text: bool | None = None,
    model: bool | None = None,
    passes: int | None = None,
    dropout: float | None = None,
    seed: int | None = None,
    repeats: int | None = None,
    guide: Guide | None = None,
    order: Order | None = None,
    choose: Choice | None = None,
    batch: int = 64,
    text_from: str | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    trust_remote_code: bool = False,
    store: str | Path | None = None,
    force: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> Selected:
    """Choose which models of a recipe to merge, by their uncertainty on unlabelled tasks.

    `recipe` names the models and the merge. What is not said here is what its `select: {uq: {...}}` says, else the
    usual: the tasks `mllm10`, the split `test` (no labels are used), four `passes` with pictures (`image`), texts
    (`text`) and the model's attention (`model`, `dropout` 0.1) perturbed, asked once (`repeats`), `guide` by
    uncertainty in descending `order`, and `choose` the global minimum. Tasks are question sets, or picture tasks for
    CLIP models. `store` is a folder for the answers that several runs may share. `guide="accuracy"` uses labels: the
    split has to be named then, here or in the recipe.

    The folder `out` gets `trace.json`, `chosen.yaml`, `model` and `logits`. A run that was stopped goes on where it was
    when it is called again; a folder that was begun with another request is refused, `force` begins anew, with the
    answers too (but for those in a `store` elsewhere).
    """
    said: dict[str, Any] = {"tasks": tasks, "split": split, "limit": limit, "image": image, "text": text}
    said |= {"model": model, "passes": passes, "dropout": dropout, "seed": seed, "repeats": repeats}
    named = requested_words(recipe, "uq", {**said, "guide": guide, "order": order, "choose": choose})
    words = {**_USUAL, **CHOOSING, **named}
    for word, options in (("guide", get_args(Guide)), ("order", get_args(Order)), ("choose", get_args(Choice))):
        if words[word] not in options:
            raise RecipeError(unknown(f"word for `{word}`", str(words[word]), options))
    if words["guide"] == "accuracy" and "split" not in named:
        raise RecipeError(
            "split: `guide: accuracy` looks at labels, and accuracy on examples that chose the models proves nothing; "
            "name the split, `val` where there is one, or `test` where that is meant"
        )
    perturbation = Perturbation(**{word: words[word] for word in _PERTURBED if word in words})
    own = {word: words[word] for word in ("repeats", *CHOOSING)}
    with selection_run(
        recipe,
        out=out,
        tasks=words["tasks"],
        perturbation=perturbation,
        words={"select": "uq", **perturbation.words(), **own},
        split=words["split"],
        limit=words["limit"],
        repeats=words["repeats"],
        chosen_by_labels=words["guide"] == "accuracy",
        check=lambda sets: _check_perturbed(sets, words["guide"]),
        asking=Asking(batch, text_from, device, dtype, store, force, tell),
    ) as found:
        _run(found, words["guide"], words["order"], words["choose"])
        return found.finish()


def _run(found: SelectionRun, guide: Guide, order: Order, choose: Choice) -> None:
    trace = found.trace
    for name in found.recipe.pool.models:
        trace.singles[name] = found.measured([name])
        found.tell(f"{name}: {_said(trace.singles[name])}")
        trace.save(found.folder)
    values = {name: _guiding(one, guide) for name, one in trace.singles.items()}
    trace.order = tuple(ordered(values, order))
    for size in range(1, len(trace.order) + 1):
        group = trace.order[:size]
        here = trace.singles[group[0]] if size == 1 else found.measured(group)
        value = here.uncertainty if guide == "uncertainty" else 1 - _guiding(here, guide)
        trace.steps.append(SelectionStep(group, group[-1], here, value))
        found.tell(f"step {size} of {len(trace.order)}, with {group[-1]}: {_said(here)}")
        trace.save(found.folder)
    trace.chosen = chosen_step([step.value for step in trace.steps], choose)


def _guiding(one: ModelScores, guide: Guide) -> float:
    if guide == "uncertainty":
        return one.uncertainty
    assert one.accuracy is not None
    return one.accuracy


def _said(one: ModelScores) -> str:
    accuracy = "" if one.accuracy is None else f", accuracy {100 * one.accuracy:.2f} %"
    return f"uncertainty {one.uncertainty:.5f}{accuracy}"


def _check_perturbed(sets: OptionSets, guide: Guide) -> None:
    how = sets.perturbation
    assert how is not None
    if guide == "uncertainty" and not (how.image or how.text or how.rate > 0):
        raise RecipeError(
            "nothing is perturbed, so every uncertainty is 0 and no model differs from another; "
            "leave image, text or model (with a dropout above 0) on"
        )
    if guide == "uncertainty" and how.passes < 2:
        raise RecipeError("passes: one pass cannot disagree with itself, so every uncertainty is 0; give at least 2")
