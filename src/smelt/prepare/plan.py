"""The plan of a merge whose statistics are not there yet: with their names and shapes, which follow from the models'.

In: a recipe that looks at data first. Out: the merge that follows, ready to be described. Its stage is the one that
runs in the end, so that bytes, passes and memory are those of the real merge; nothing of it can be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.engine.merge import planned
from smelt.errors import RecipeError
from smelt.formats.safetensors.header import TensorInfo
from smelt.formats.source import Source
from smelt.models.pool import ModelPool, opened
from smelt.prepare.data_needs import is_language_model
from smelt.recipe.schema import Recipe, StageCall

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.engine.plan.prepared import Ready

__all__ = ["ExpectedSource", "planned_after_looking"]

_FOLLOWS = {"regmean_pp": "regmean", "localize": "stitch"}
"""What merges in the end, where it has another name; learned coefficients are those of task arithmetic."""


class ExpectedSource(Source):
    """The statistics that a model will have: names and shapes, no numbers."""

    def __init__(self, name: str, kind: str, model: Source):
        from smelt.engine.plan.statistics import statistic_shape
        from smelt.formats.layout import Layout
        from smelt.formats.orientation import Orientation
        from smelt.measurement.needs import is_measured

        self.label = f"the {kind} statistics of {name}"
        some = is_language_model(model)
        layers = Orientation.in_source(model)
        wanted = {key: layers.of(key) for key in model.tensors if not some or is_measured(key)}
        if kind == "gram":  # measured at layers that are modules of their own, which experts in a stack are not
            wanted = {key: one for key, one in wanted.items() if one.count == 1 and Layout.is_matrix(key, one.shape)}
        code = {"mask": "BOOL", "gram": "F64"}.get(kind, "F32")
        self.tensors = {
            key: TensorInfo(code, statistic_shape(kind, model.tensors[key].shape, one)) for key, one in wanted.items()
        }

    def read(self, key: str, start: int, out: Tensor) -> None:
        raise RecipeError(f"{self.label} are not measured yet; they are planned with, and cannot be read")


@contextmanager
def planned_after_looking(recipe: Recipe, relative_to: Path | None, pool: ModelPool | None) -> Iterator[Ready]:
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
    """The stages that merge in the end. What is learned becomes parameters, which change no cost."""
    from smelt.methods import stages

    names = [_FOLLOWS.get(call.name, call.name) for call in recipe.merge]
    if any(name not in stages for name in names):
        return [StageCall(name="task_arithmetic")]
    return [call if call.name == name else StageCall(name=name) for call, name in zip(recipe.merge, names, strict=True)]


def _expected(calls: list[StageCall], pool: ModelPool) -> dict[str, Source] | None:
    """For every model its statistics, of the kind that the stages read; None where no tensor would have any."""
    from smelt.methods import stages

    kind = next(filter(None, (stages[call.name].statistics for call in calls)), None)
    if kind is None:
        return {}
    found: dict[str, Source] = {name: ExpectedSource(name, kind, model) for name, model in pool.models.items()}
    return found if all(one.tensors for one in found.values()) else None
