"""A collaboration suite as data: pools of experts, groups of them, baselines, and how Portland is fitted."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from smelt.errors import unknown
from smelt.recipe.schema import DataUse, Pipeline, Pool, Recipe

Boosting = Literal["supervised", "semi"]
AlignmentKind = Literal["scalar", "gram", "off"]

__all__ = ["Baseline", "CollaborationSuite", "Fit", "Series", "Transfer"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Baseline(_Strict):
    """A way to merge that others published."""

    label: str
    merge: Pipeline
    data: DataUse | None = None
    ensemble: bool = False
    """Whether it has coefficients of whole models, so that the same models can be ensembled with them."""
    batch_norm: bool = False
    """Whether BatchNorm's statistics are estimated again in the merged model, on unlabelled `val` pictures."""
    only: list[str] = []
    """The groups that it is computed for; every one if nothing is said."""


class Fit(_Strict):
    """What Portland is fitted on, and how long."""

    examples: Annotated[int, Field(gt=0)] | None = None
    """Pictures of every `train` split."""
    validation: Annotated[int, Field(gt=0)] | None = None
    """Pictures of every `val` split, on which the epoch is chosen."""
    epochs: Annotated[int, Field(gt=0)] = 10
    rate: Annotated[float, Field(gt=0)] = 1e-3
    batch: Annotated[int, Field(gt=0)] = 128
    alignment_weight: Annotated[float, Field(ge=0)] = 0.01
    seed: int = 0


class Group(_Strict):
    """Some experts of a pool."""

    pool: str
    experts: Annotated[list[str], Field(min_length=2)]


class Series(_Strict):
    """Portland fitted on shares of the examples."""

    groups: list[str]
    boosting: Boosting = "semi"
    fractions: list[float]


class Transfer(_Strict):
    """Portland of one group, unchanged, for the experts of another, after every epoch."""

    group: str
    to: str
    """The pool with the other experts, under the same names."""
    boosting: Boosting = "semi"
    epochs: list[int]


class CollaborationSuite(_Strict):
    """Everything that `smelt bench neulig` runs."""

    kind: Literal["collaboration"]
    name: str
    version: int
    title: str
    limit: Annotated[int, Field(gt=0)] | None = None
    """Pictures of each `test` split, where the command says nothing."""
    pools: dict[str, Pool]
    groups: dict[str, Group]
    """By the name that the report shows."""
    include: list[str] = []
    seed: int = 0
    baselines: dict[str, Baseline]
    fit: Fit = Fit()
    boosting: list[Boosting] = ["semi", "supervised"]
    alignment: AlignmentKind = "scalar"
    variants: list[str] = []
    """The groups for which all modes and alignments are compared."""
    transfer: Transfer | None = None
    fractions: Series | None = None

    @model_validator(mode="after")
    def _names_exist(self) -> CollaborationSuite:
        for name, group in self.groups.items():
            if group.pool not in self.pools:
                raise ValueError(f"groups.{name}.pool: {unknown('pool', group.pool, self.pools)}")
            for expert in group.experts:
                if expert not in self.pools[group.pool].models:
                    raise ValueError(f"groups.{name}: {unknown('expert', expert, self.pools[group.pool].models)}")
        named = [*self.variants, *(self.fractions.groups if self.fractions else [])]
        named += [self.transfer.group] if self.transfer else []
        named += [one for baseline in self.baselines.values() for one in baseline.only]
        for name in named:
            if name not in self.groups:
                raise ValueError(unknown("group", name, self.groups))
        if self.transfer and self.transfer.to not in self.pools:
            raise ValueError(f"transfer.to: {unknown('pool', self.transfer.to, self.pools)}")
        return self

    @property
    def tasks(self) -> list[str]:
        """Every expert's task, in order."""
        return list(dict.fromkeys(expert for group in self.groups.values() for expert in group.experts))

    @property
    def entries(self) -> list[str]:
        """What `--methods` may name."""
        return [*self.baselines, *(f"neulig-{mode}" for mode in self.boosting), "transfer", "fractions"]

    def pool(self, group: str) -> Pool:
        """The models of a group, with the base."""
        pool, experts = self.pools[self.groups[group].pool], self.groups[group].experts
        return Pool(base=pool.base, models={name: pool.models[name] for name in experts})

    def recipe(self, baseline: Baseline, group: str) -> Recipe:
        """The recipe of a baseline for a group."""
        data: dict[str, Any] = {
            "pool": self.pool(group),
            "merge": [{call.name: dict(call.parameters)} for call in baseline.merge],
            "data": baseline.data.model_dump() if baseline.data else None,
            "include": self.include,
            "seed": self.seed,
        }
        return Recipe.parse(data)
