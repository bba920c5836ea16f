"""From a recipe that needs data to one that does not: the data is looked at, and what was found is written down.

    fisher, regmean            statistics of every model on its own task            -> the same recipe with `statistics`
    regmean_pp                 the same, layer after layer through the merged model -> regmean with `statistics`
    adamerging, adarank, ...   coefficients, masks or weights are learned           -> an ordinary recipe
    wemoe                      routers are learned                                  -> a mixed model in a folder

Everything found is kept under a hash of what it follows from, so that it is looked for once. Models and data are
paired by name. What comes out streams through the engine like any other recipe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError
from smelt.evaluation.row import Combination
from smelt.recipe.schema import DataBudget, DataUse, Recipe
from smelt.tasks.examples import tasks_for

if TYPE_CHECKING:
    from smelt.methods import Stage
    from smelt.recipe.schema import StageCall

__all__ = [
    "PreparedRecipe",
    "check_data_words",
    "check_recipe",
    "combination_of",
    "measurements",
    "needs_data",
    "prepare",
    "stages_with_data",
]

EXAMPLES = 256
"""Of each task, for a statistic whose recipe does not say."""
PLUS = "regmean_pp"
NOT_KNOWN = DataBudget(split="not known")
"""Of what was learned before and is only loaded: a file of coefficients or routers does not say."""


@dataclass(frozen=True)
class PreparedRecipe:
    """What is left to do: merge by `recipe`, or nothing, since `model` is made already."""

    recipe: Recipe | None
    model: str = ""
    way: Combination = "merge"
    budget: DataBudget = field(default_factory=DataBudget)
    seconds: float = 0.0
    """What looking at the data took when it was done."""
    cached: bool = False
    """Whether all of it had been done before."""
    device: str = "cpu"
    peak_bytes: int = 0
    heat: dict[str, Any] | None = None
    """A picture of what was learned, as data."""
    steps: int | None = None
    """How many steps of learning were taken, where something was learned."""


def combination_of(calls: Sequence[StageCall]) -> Combination:
    """Whether stages merge models into one of their size, or mix them into a larger one."""
    from smelt.mixing.mixers import mixers

    return "mix" if any(call.name in mixers for call in calls) else "merge"


def stages_with_data() -> dict[str, Stage]:
    """Everything beyond the merge stages that a recipe may name under `merge`, with its parameters."""
    from smelt.learning.learner import learners
    from smelt.measurement.regmean_pp import LATEX, RegMeanPlus
    from smelt.methods import Stage
    from smelt.mixing.mixers import mixers

    plus = Stage(PLUS, "method", RegMeanPlus, paper="2508.03121", latex=LATEX)
    return {**{name: one.stage for name, one in learners.items()}, **mixers, PLUS: plus}


def needs_data(recipe: Recipe) -> bool:
    """Whether a recipe can only be merged after data was looked at."""
    return _preparation(recipe) is not None


def check_recipe(recipe: Recipe) -> None:
    """That every stage exists and takes its parameters, and that every model has its data; nothing is computed."""
    from smelt.learning.learner import check_learner
    from smelt.mixing.mixers import read_mixer
    from smelt.recipe.pipeline import bind

    preparation = _preparation(recipe)
    check_data_words(recipe)
    if preparation == "mix":
        read_mixer(recipe)
    elif preparation == "learn":
        check_learner(recipe)
    else:
        _check_plus(recipe)
        bind(_without_plus(recipe).merge, list(recipe.pool.models))
    if preparation is not None:
        tasks_for(list(recipe.pool.models), recipe.data)


def check_data_words(recipe: Recipe) -> None:
    """Refuse words under `data` that nothing reads: they would seem to have been followed."""
    use, preparation = recipe.data, _preparation(recipe)
    if use is None:
        return
    if preparation is None:
        names = ", ".join(call.name for call in recipe.merge)
        why = "`statistics` are given" if recipe.statistics else f"{names} looks at none"
        raise RecipeError(f"data: {why}; leave it out")
    words = {"estimator": use.estimator, "batch": use.batch}
    idle = [word for word, value in words.items() if value is not None and preparation != "fisher"]
    if idle:
        raise RecipeError(f"data.{idle[0]} is about the Fisher information; {recipe.merge[0].name} has no use for it")


def measurements(recipe: Recipe) -> dict[str, dict[str, Any]]:
    """For every model what `smelt.measure` is asked for it, where a recipe needs a statistic of each; else nothing."""
    kind = _preparation(recipe)
    if kind not in ("fisher", "gram"):
        return {}
    use, tasks = recipe.data or DataUse(), tasks_for(list(recipe.pool.models), recipe.data)
    words = _asked(recipe, use, "float32" if kind == "fisher" else "float64")
    if kind == "fisher":
        words |= {"seed": recipe.seed} | ({"estimator": use.estimator} if use.estimator else {})
        words |= {"batch": use.batch} if use.batch else {}
    places = {name: str(task.folder) for name, task in tasks.items()}
    own = {name: {"include": recipe.include} if task.model_kind == "causal_lm" else {} for name, task in tasks.items()}
    return {
        name: {"model": ref, "kind": kind, "task": places[name], **own[name], **words}
        for name, ref in recipe.pool.models.items()
    }


def _asked(recipe: Recipe, use: DataUse, dtype: str) -> dict[str, Any]:
    """What every measurement of a recipe is asked with. Gram matrices are kept in float64: they are solved with."""
    words = {"split": use.split or "train", "examples": use.examples or EXAMPLES, "dtype": dtype}
    return {**words, "text_from": recipe.pool.base, "allow_pickle": recipe.allow_pickle}


def prepare(
    recipe: Recipe,
    *,
    relative_to: Path | None = None,
    device: str = "cpu",
    threads: int | None = None,
    quiet: bool = True,
    learned: Path | None = None,
    save: Path | None = None,
    out: Path | None = None,
    force: bool = False,
) -> PreparedRecipe:
    """Look at the data that a recipe needs; one that needs none comes back as it is.

    `learned` is a file with what was learned before (coefficients, routers), which takes the place of learning; `save`
    is a file for what is learned. A mixture goes to the folder `out`, or to the cache. Relative references are those of
    the folder `relative_to`.
    """
    preparation = _preparation(recipe)
    recipe = recipe if relative_to is None else _absolute(recipe, relative_to)
    how: dict[str, Any] = {"device": device, "threads": threads, "quiet": quiet}
    if preparation is None:
        return PreparedRecipe(recipe)
    check_recipe(recipe)
    if preparation == "mix":
        return _prepared_by_mixing(recipe, {**how, "out": out, "force": force}, learned, save)
    if preparation == "learn":
        return _prepared_by_coefficients(recipe, learned) if learned else _prepared_by_learning(recipe, how, save)
    if learned or save:
        raise RecipeError("only what is learned can be loaded or saved; statistics have `smelt measure` and a folder")
    return _prepared_by_measuring(recipe, preparation, how)


def _preparation(recipe: Recipe) -> str | None:
    """Who looks at the data: `mix`, `learn`, the kind of a statistic, or nobody."""
    from smelt.learning.learner import learners
    from smelt.methods import stages
    from smelt.mixing.mixers import mixers

    names = [call.name for call in recipe.merge]
    if any(name in mixers for name in names):
        return "mix"
    if recipe.statistics:
        return None
    if any(name in learners for name in names):
        return "learn"
    if PLUS in names:
        return PLUS
    kinds = (stages[name].statistics for name in names if name in stages)
    return next((kind for kind in kinds if kind in ("fisher", "gram")), None)  # masks and components are learned


def _prepared_by_mixing(recipe: Recipe, how: dict[str, Any], learned: Path | None, save: Path | None) -> PreparedRecipe:
    from smelt.mixing.checkpoint import save_routers
    from smelt.mixing.mix import mix
    from smelt.mixing.routing import routing_map

    made = mix(recipe, routers=learned, **how)
    if save is not None:
        save_routers(made.load().routers, save)
    return PreparedRecipe(
        None,
        str(made.folder),
        way="mix",
        budget=made.budget,
        seconds=made.seconds,
        cached=made.cached,
        device=how["device"],
        heat=routing_map(made.routing) if made.routing else None,
        steps=made.note.learning.steps,
    )


def _prepared_by_learning(recipe: Recipe, how: dict[str, Any], save: Path | None) -> PreparedRecipe:
    from smelt.learning.coefficients import heat_map, save_coefficients
    from smelt.learning.learn import learn

    found = learn(recipe, **how)
    if save is not None:
        if found.coefficients is None:
            raise RecipeError(f"{recipe.merge[0].name} learns no coefficients that could be saved in {save}")
        save_coefficients(save, found.coefficients)
    return PreparedRecipe(
        found.recipe,
        budget=found.budget,
        seconds=found.seconds,
        cached=found.cached,
        device=found.device,
        peak_bytes=found.peak_bytes,
        heat=heat_map(found.coefficients) if found.coefficients else None,
        steps=len(found.trace),
    )


def _prepared_by_coefficients(recipe: Recipe, path: Path) -> PreparedRecipe:
    from smelt.engine.pool import opened
    from smelt.learning.coefficients import heat_map, load_coefficients
    from smelt.learning.tensor_groups import learned_keys
    from smelt.models.families.load import load
    from smelt.models.families.network import network_of

    with opened(recipe.pool, allow_pickle=recipe.allow_pickle) as pool:
        assert pool.base is not None
        network = network_of(load(recipe.pool.base, allow_pickle=recipe.allow_pickle), recipe.include)
        keys = learned_keys(network, pool.base, recipe)
        found = load_coefficients(path, models=list(recipe.pool.models), keys=keys)
        merge = found.merge(pool.base.tensors)
    ordinary = Recipe.parse({**recipe.dump(), "merge": merge, "data": None})
    return PreparedRecipe(_with_used_data(ordinary, NOT_KNOWN), budget=NOT_KNOWN, heat=heat_map(found))


def _prepared_by_measuring(recipe: Recipe, kind: str, how: dict[str, Any]) -> PreparedRecipe:
    """Every model's statistic on its own task."""
    from smelt.measurement.measure import measure, measure_merged

    use = recipe.data or DataUse()
    if use.corruption:
        raise RecipeError("data.corruption: statistics are measured on data as they are; leave it out")
    if kind == PLUS:
        tasks = tasks_for(list(recipe.pool.models), recipe.data)
        words = {**recipe.merge[0].parameters, **_asked(recipe, use, "float64"), **how}
        found = measure_merged(recipe.pool, tasks, include=recipe.include, skip=recipe.skip, **words)
    else:
        found = {name: measure(**asked, **how) for name, asked in measurements(recipe).items()}
    places = {name: str(one.folder) for name, one in found.items()}
    plain = _without_plus(recipe).model_copy(update={"statistics": places, "data": None})
    budget = DataBudget(
        split=use.split or "train",
        images=sum(one.note.examples for one in found.values()),
        labels=sum(use.labels for one in found.values() for use in one.note.data),
    )
    return PreparedRecipe(
        _with_used_data(plain, budget),
        budget=budget,
        seconds=sum(one.seconds for one in found.values()),
        cached=all(one.cached for one in found.values()),
        device=how["device"],
    )


def _with_used_data(recipe: Recipe, budget: DataBudget) -> Recipe:
    """The recipe with what it used, which its manifest and the rows of its model then tell."""
    return recipe.model_copy(update={"looked_at": budget})


def _without_plus(recipe: Recipe) -> Recipe:
    """RegMean++ is RegMean, measured in another way."""
    calls = []
    for call in recipe.merge:
        if call.name == PLUS:
            own = {name: value for name, value in call.parameters.items() if name != "step"}
            call = call.model_copy(update={"name": "regmean", "parameters": own})
        calls.append(call)
    return recipe.model_copy(update={"merge": calls})


def _check_plus(recipe: Recipe) -> None:
    from smelt.recipe.pipeline import check

    calls = [call for call in recipe.merge if call.name == PLUS]
    faults = [f for call in calls for f in check(stages_with_data()[PLUS], call.parameters, list(recipe.pool.models))]
    if calls and len(recipe.merge) > 1:
        faults.append(f"{PLUS} is measured and merged as it stands; it cannot stand beside other stages")
    if faults:
        raise RecipeError("; ".join(faults))


def _absolute(recipe: Recipe, relative_to: Path) -> Recipe:
    """References that still hold when the recipe has left its folder."""
    from smelt.models.references import absolute_ref

    pool = recipe.pool
    models = {name: absolute_ref(ref, relative_to) for name, ref in pool.models.items()}
    base = absolute_ref(pool.base, relative_to) if pool.base else None
    return recipe.model_copy(update={"pool": pool.model_copy(update={"base": base, "models": models})})
