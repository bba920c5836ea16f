"""`smelt.plan`: what `smelt.merge` with the same words would do, from headers alone.

A merge that looks at data first is planned with the names and shapes that its statistics will have, which follow from
the models'. Its stage is the one that runs in the end, so that bytes, passes and memory are those of the real merge;
nothing of it can be read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from smelt.engine.merge import planned
from smelt.engine.plan.describe import DataNeeds, PlanReport, describe_plan
from smelt.engine.pool import ModelPool, opened, without_secrets
from smelt.engine.request import read_request
from smelt.errors import RecipeError
from smelt.files.remote.mounts import reading_from_afar
from smelt.formats.architecture.layout import Layout, Matrices, Orientation
from smelt.formats.source import Source, TensorInfo
from smelt.methods import stages
from smelt.models.families.causal_lm.pass_memory import is_language_model, is_measured
from smelt.prepare.merge import is_data_missing
from smelt.recipe.schema import Recipe, StageCall
from smelt.recipe.words import MergeWords

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.engine.plan.ready_merge import ReadyMerge
    from smelt.prepare.memory_needs import Method

__all__ = ["ExpectedSource", "plan", "plan_recipe"]

_FOLLOWS = {"regmean_pp": "regmean", "localize": "stitch"}
"""What merges in the end, where it has another name; learned coefficients are those of task arithmetic."""
_LIKE: dict[str, Method] = {"fisher": "fisher", "regmean": "regmean", "regmean_pp": "regmean", "localize": "localize"}
_TAKES_MEMORY = ("deltas", "delta_dtype", "step_by", "batch", "steps")
"""Parameters of `localize` that change how much memory or disk it takes."""
_GPU = 80 * 10**9
"""The room that `step_by: auto` is planned with where this machine has no GPU."""
_EXAMPLES, _TOKENS = 1000, 512
"""What is counted with where the recipe does not say: the paper's budget, and texts of an ordinary length."""


def plan(
    models: Any,
    *,
    base: Any = None,
    method: Any = None,
    threads: int | None = None,
    memory: int | str | None = None,
    device: str = "cpu",
    stream: bool = False,
    **words: Unpack[MergeWords],
) -> PlanReport:
    """What `merge` with the same words would do, from headers alone; raises with every fault it finds.

    `models`, `base`, `method`, `threads`, `memory`, `stream` and other words are those of `smelt.merge`.

    Public models that are not on this machine are planned from their shapes, where these are known
    (`smelt/formats/sizes`), and are not downloaded. `device` need not be on this machine either.
    """
    recipe, relative_to, pool = read_request(models, base, method, words)
    words_of_a_run: dict[str, Any] = {"threads": threads, "memory": memory, "device": device}
    with reading_from_afar(hub=stream):
        return plan_recipe(
            without_secrets(recipe), pool, from_references=pool is None, relative_to=relative_to, **words_of_a_run
        )


def plan_recipe(
    recipe: Recipe,
    pool: ModelPool | None = None,
    *,
    from_references: bool = True,
    relative_to: Path | None = None,
    threads: int | None = None,
    memory: int | str | None = None,
    device: str = "cpu",
) -> PlanReport:
    """What merging a recipe would do; `pool` are its models where they are open already.

    Models that are not `from_references` lie in memory and have no data of their own.
    """
    if not is_data_missing(recipe, None if from_references else pool):
        with planned(recipe, relative_to=relative_to, pool=pool, shapes=True) as ready:
            return describe_plan(ready, threads, memory, device)
    with _planned_with_data(recipe, relative_to, pool) as ready:
        budget = recipe.data.examples if recipe.data else None
        looking = _data_needs(recipe.merge, ready.pool, budget)
        return describe_plan(ready, threads, memory, device, looking)


class ExpectedSource(Source):
    """The statistics that a model will have: names and shapes, no numbers."""

    def __init__(self, name: str, kind: str, model: Source):
        from smelt.engine.plan.statistics import statistic_shape

        self.label = f"the {kind} statistics of {name}"
        some = is_language_model(model)
        layers = Orientation.in_source(model)
        wanted = {key: layers.of(key) for key in model.tensors if not some or is_measured(key)}
        if kind == "gram":
            wanted = {key: _as_measured(one) for key, one in wanted.items()}
        if kind in ("gram", "components"):
            wanted = {key: one for key, one in wanted.items() if Layout.is_matrix(key, one.shape)}
        if kind == "gram":  # measured at layers that are modules of their own, which experts in a stack are not
            wanted = {key: one for key, one in wanted.items() if one.count == 1}
        code = {"mask": "BOOL", "gram": "F64"}.get(kind, "F32")
        self.tensors = {
            key: TensorInfo(code, statistic_shape(kind, model.tensors[key].shape, one)) for key, one in wanted.items()
        }

    def read(self, key: str, start: int, out: Tensor) -> None:
        raise RecipeError(f"{self.label} are not measured yet; they are planned with, and cannot be read")


def _as_measured(matrices: Matrices) -> Matrices:
    """A convolution as the matrix that its patches are given to; one with a group for every channel stays as it is."""
    out, *inputs = matrices.shape or (0,)
    return Matrices(1, (out, math.prod(inputs))) if len(inputs) == 3 and inputs[0] > 1 else matrices


@contextmanager
def _planned_with_data(recipe: Recipe, relative_to: Path | None, pool: ModelPool | None) -> Iterator[ReadyMerge]:
    """The merge that follows when data was looked at, under the names and the hash of the recipe that was asked for."""
    from smelt.prepare.prepare import check_recipe

    check_recipe(recipe)
    with ExitStack() as stack:
        if pool is None:
            pool = stack.enter_context(
                opened(recipe.pool, relative_to=relative_to, allow_pickle=recipe.allow_pickle, shapes=True)
            )
        calls = _calls(recipe)
        statistics = _expected(calls, pool)
        if statistics is None:
            calls, statistics = [StageCall(name="task_arithmetic")], {}
        follows = recipe.model_copy(update={"merge": calls, "data": None})
        ready = stack.enter_context(planned(follows, pool=replace(pool, statistics=statistics)))
        asked = tuple(call.name for call in recipe.merge)
        note = f"{', '.join(asked)} looks at data first; this is the plan of the merge that follows"
        plan = replace(ready.plan, recipe=recipe, stage_names=asked, notes=(note, *ready.plan.notes))
        yield replace(ready, plan=plan)


def _calls(recipe: Recipe) -> list[StageCall]:
    """The stages that merge in the end, without what is said about learning. What is learned changes no cost."""
    names = [_FOLLOWS.get(call.name, call.name) for call in recipe.merge]
    if any(name not in stages for name in names):
        return [StageCall(name="task_arithmetic")]
    kept = [
        {key: value for key, value in call.parameters.items() if call.name == name and key in stages[name].parameters}
        for call, name in zip(recipe.merge, names, strict=True)
    ]
    return [StageCall(name=name, parameters=values) for name, values in zip(names, kept, strict=True)]


def _expected(calls: list[StageCall], pool: ModelPool) -> dict[str, Source] | None:
    """For every model its statistics, of the kind that the stages read; None where no tensor would have any."""
    kind = next(filter(None, (stages[call.name].statistics for call in calls)), None)
    if kind is None:
        return {}
    found: dict[str, Source] = {name: ExpectedSource(name, kind, model) for name, model in pool.models.items()}
    return found if all(one.tensors for one in found.values()) else None


def _data_needs(calls: Iterable[StageCall], pool: ModelPool, examples: int | None = None) -> list[DataNeeds]:
    """For a language model; of other kinds nothing is said."""
    asked = [stage for stage in calls if stage.name in _LIKE]
    reference, models = pool.reference, len(pool.models)
    if not asked or not is_language_model(reference):
        return []
    from smelt.learning.localize_room import checkpoint_bytes
    from smelt.prepare.memory_needs import memory_needs
    from smelt.system.hardware import usable_gpus

    shapes = {name: info.shape for name, info in reference.tensors.items()}
    count = examples or _EXAMPLES
    found = []
    for stage in asked:
        how: Any = {}
        if stage.name == "localize":
            room = max((gpu.bytes for gpu in usable_gpus().found), default=_GPU)
            how = {"step_by": "auto", "room": room, **checkpoint_bytes(pool)}
            how |= {word: stage.parameters[word] for word in _TAKES_MEMORY if word in stage.parameters}
        needs = memory_needs(shapes, _LIKE[stage.name], examples=count, tokens=_TOKENS, device="cuda", **how)
        found.append(
            DataNeeds(
                stage.name,
                count,
                _TOKENS,
                needs.device,
                needs.total - needs.device,
                models * needs.disk + needs.scratch,
                needs.passes,
                needs.note,
            )
        )
    return found
