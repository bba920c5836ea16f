"""The CoopVec Map: one vector of coefficients per data set, the mean of its examples' CoopVecs.

A row of it merges one model for the whole data set, by an ordinary recipe that streams.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smelt.errors import RecipeError, unknown
from smelt.recipe.schema import Pool, Recipe

if TYPE_CHECKING:
    from smelt.learning.neulig.features import ExpertFeatures
    from smelt.learning.neulig.portland import Portland

__all__ = ["BINS", "CoopVecMap", "coopvec_map", "histograms"]

BINS = 20
"""Of a histogram of coefficients, each as wide: 0 to 0.05, ..., 0.95 to 1."""


@dataclass(frozen=True, eq=False)
class CoopVecMap:
    """Data sets by experts; rows are on the simplex."""

    tasks: tuple[str, ...]
    experts: tuple[str, ...]
    matrix: Tensor
    """[tasks, experts] in float64."""

    def row(self, task: str) -> Tensor:
        """The coefficients of a data set."""
        if task not in self.tasks:
            raise RecipeError(unknown("data set of the CoopVec Map", task, self.tasks))
        return self.matrix[self.tasks.index(task)]

    @property
    def diagonal(self) -> dict[str, float]:
        """What each data set gives to the expert at its own place; where there is none, nothing."""
        places = range(min(len(self.tasks), len(self.experts)))
        return {self.tasks[place]: float(self.matrix[place, place]) for place in places}

    def recipe(self, task: str, pool: Pool | Mapping[str, Any], **words: Any) -> Recipe:
        """The recipe of the model for one data set: the mean of the pool's models, weighted by the row.

        The pool's models bear the experts' names. Other words of a recipe (`include`, `dtype`) may be given.
        """
        models = pool if isinstance(pool, Pool) else Recipe.parse({"pool": dict(pool), "merge": "average"}).pool
        if set(models.models) != set(self.experts):
            raise RecipeError(
                f"the CoopVec Map is of {', '.join(self.experts)}, but the pool's models are {', '.join(models.models)}"
            )
        weights = dict(zip(self.experts, self.row(task).tolist(), strict=True))
        return Recipe.parse({"pool": models, "merge": {"average": {"weights": weights}}, **words})


def coopvec_map(portland: Portland, features: Mapping[str, ExpertFeatures]) -> CoopVecMap:
    """The mean CoopVec of every data set."""
    if not features:
        raise RecipeError("a CoopVec Map needs features of at least one data set")
    rows = []
    with torch.no_grad():
        for task, one in features.items():
            if one.experts and one.experts != portland.experts:
                raise RecipeError(
                    f"{task}: features of {', '.join(one.experts)}, but Portland is for {', '.join(portland.experts)}; "
                    "Portland.for_experts transfers it"
                )
            mean = portland.coopvec(one.z).double().mean(dim=0).cpu()
            rows.append(mean / mean.sum())
    return CoopVecMap(tuple(features), portland.experts, torch.stack(rows))


def histograms(beta: Tensor) -> list[list[int]]:
    """For every expert how many of the CoopVecs `beta` [examples, experts] lie in each bin; 1 is in the last one."""
    places = (beta.double() * BINS).long().clamp(0, BINS - 1).cpu()
    return [torch.bincount(column, minlength=BINS).tolist() for column in places.T]
