"""A collaboration suite as data: pools of experts, groups of them, baselines, and how Portland is fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from smelt.errors import unknown
from smelt.files.schema import Strict
from smelt.recipe.schema import DataUse, Pipeline, Pool, Recipe
from smelt.suites.suite import BaseSuite

if TYPE_CHECKING:
    from smelt.suites.needs.inputs import SuiteInputs
    from smelt.suites.plan import BenchOptions

Boosting = Literal["supervised", "semi"]
AlignmentKind = Literal["scalar", "gram", "off"]

__all__ = ["Baseline", "Bounds", "CollaborationSuite", "DataFractions", "ExpertGroup", "Fit", "Transfer"]


class Baseline(Strict):
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


class Fit(Strict):
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


class Bounds(Strict):
    """At most so much of what baselines look at and learn, whatever they say themselves."""

    steps: Annotated[int, Field(gt=0)] | None = None
    examples: Annotated[int, Field(gt=0)] | None = None


class ExpertGroup(Strict):
    """Some experts of a pool."""

    pool: str
    experts: Annotated[list[str], Field(min_length=2)]


class DataFractions(Strict):
    """Portland fitted on shares of the examples."""

    groups: list[str]
    boosting: Boosting = "semi"
    fractions: Annotated[list[Annotated[float, Field(gt=0, le=1)]], Field(min_length=1)]


class Transfer(Strict):
    """Portland of one group, unchanged, for the experts of another, after every epoch."""

    group: str
    to: str
    """The pool with the other experts, under the same names."""
    boosting: Boosting = "semi"
    epochs: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    """0 is before training."""


class CollaborationSuite(BaseSuite):
    """Everything that `smelt bench neulig` runs."""

    kind: Literal["collaboration"]
    limit: Annotated[int, Field(gt=0)] | None = None
    """Pictures of each `test` split, where the command says nothing."""
    pools: dict[str, Pool]
    groups: Annotated[dict[str, ExpertGroup], Field(min_length=1)]
    """By the name that the report shows."""
    include: list[str] = []
    missing: Literal["refuse", "base"] = "refuse"
    """Whether experts may lack tensors of their base, which then stay the base's."""
    config: str | None = None
    """Whose config merged models have, where configs differ: `base`, or an expert's name."""
    baselines: dict[str, Baseline]
    fit: Fit = Fit()
    boosting: list[Boosting] = ["semi", "supervised"]
    alignment: AlignmentKind = "scalar"
    variants: list[str] = []
    """The groups for which all modes and alignments are compared."""
    batch_norm: list[str] = []
    """The groups whose models of the CoopVec Map are also asked with BatchNorm's statistics estimated again."""
    transfer: Transfer | None = None
    fractions: DataFractions | None = None
    absent: dict[str, str] = {}
    """Baselines (or `transfer`, `fractions`) that are not computed, and why: the table has a line for each."""
    towers: bool = False
    """Whether experts are picture towers alone, which are nothing without their base."""
    allow_pickle: bool = False
    make: str = ""
    """How to make an expert that a pool names and that is not there: `{base}`, `{task}` and `{folder}` are its own."""
    series: list[str] = []
    """Printed tables along an axis that the report shows beside ours (published_series.py)."""
    at_most: Bounds = Bounds()
    presets: dict[str, dict[str, Any]] | None = None
    """By name, other words of the suite: another pool, fewer pictures."""

    @model_validator(mode="before")
    @classmethod
    def _with_each(cls, content: Any) -> Any:
        """A pool may say `each: PATH/{task}` instead of its models: one for every expert that the groups name."""
        if not isinstance(content, dict) or not isinstance(content.get("pools"), dict):
            return content
        groups = [one for one in (content.get("groups") or {}).values() if isinstance(one, dict)]
        tasks = dict.fromkeys(task for one in groups for task in one.get("experts") or ())
        pools = {}
        for name, pool in content["pools"].items():
            if isinstance(pool, dict) and "each" in pool:
                rest = {word: value for word, value in pool.items() if word != "each"}
                pool = {**rest, "models": {task: str(pool["each"]).replace("{task}", task) for task in tasks}}
            pools[name] = pool
        return {**content, "pools": pools}

    @model_validator(mode="after")
    def _names_exist(self) -> CollaborationSuite:
        """What the suite refers to within itself has to be there."""
        for name, pool in self.pools.items():
            if not pool.base:
                raise ValueError(f"pools.{name}: needs a base: it has the text tower and the head of every task")
        for name, group in self.groups.items():
            if group.pool not in self.pools:
                raise ValueError(f"groups.{name}.pool: {unknown('pool', group.pool, self.pools)}")
            self._check_experts(f"groups.{name}", group.experts, group.pool)
            twice = [expert for expert in group.experts if group.experts.count(expert) > 1]
            if twice:
                raise ValueError(f"groups.{name}: {twice[0]!r} is listed twice")
        named = [*self.variants, *self.batch_norm, *(self.fractions.groups if self.fractions else [])]
        named += [self.transfer.group] if self.transfer else []
        named += [one for baseline in self.baselines.values() for one in baseline.only]
        for name in named:
            if name not in self.groups:
                raise ValueError(unknown("group", name, self.groups))
        self._check_transfer()
        for name in self.absent:
            if name not in (*self.baselines, "transfer", "fractions"):
                raise ValueError(f"absent.{name}: {unknown('baseline', name, self.baselines)}")
            if getattr(self, name, None) is not None:
                raise ValueError(f"absent.{name}: the suite has one; leave out the one or the other")
        for name in self.baselines:
            if name in ("transfer", "fractions") or name.startswith("neulig-"):
                raise ValueError(f"baselines.{name}: that is what the suite's own lines are called; take another name")
        return self

    def _check_experts(self, where: str, experts: list[str], pool: str) -> None:
        for expert in experts:
            if expert not in self.pools[pool].models:
                raise ValueError(f"{where}: {unknown('expert', expert, self.pools[pool].models)}")

    def _check_transfer(self) -> None:
        if self.transfer is None:
            return
        if self.transfer.to not in self.pools:
            raise ValueError(f"transfer.to: {unknown('pool', self.transfer.to, self.pools)}")
        self._check_experts("transfer.to", self.groups[self.transfer.group].experts, self.transfer.to)
        if max(self.transfer.epochs) > self.fit.epochs:
            last = max(self.transfer.epochs)
            raise ValueError(f"transfer.epochs: Portland is fitted for {self.fit.epochs} epochs, there is no {last}")

    @property
    def tasks(self) -> list[str]:
        """Every expert's task, in order."""
        return list(dict.fromkeys(expert for group in self.groups.values() for expert in group.experts))

    @property
    def entries(self) -> list[str]:
        """What `--methods` may name."""
        series = {"transfer": self.transfer, "fractions": self.fractions}
        there = [name for name, wanted in series.items() if wanted is not None]
        baselines = [name for name in self.baselines if name not in self.absent]
        return [*baselines, *(f"neulig-{mode}" for mode in self.boosting), *there]

    def at_preset(self, words: dict[str, Any], preset: dict[str, Any]) -> dict[str, Any]:
        """A preset's words take the place of the suite's; what it brings is not absent any more."""
        changed = {**words, **preset}
        there = {name for name in ("transfer", "fractions") if preset.get(name) is not None}
        changed["absent"] = {name: why for name, why in changed["absent"].items() if name not in there}
        return changed

    def inputs(self, options: BenchOptions) -> SuiteInputs:
        """Every model of every pool, and the merges of all groups."""
        from smelt.suites.needs.inputs import SuiteInputs

        methods = self._chosen(options.methods, self.entries)
        several = len(self.pools) > 1
        models = {
            f"{pool}: {name}" if several else name: ref
            for pool, one in self.pools.items()
            for name, ref in {"base": str(one.base), **one.models}.items()
        }
        merges = {
            f"{group}: {name}": self.recipe(baseline, group)
            for name, baseline in self.baselines.items()
            for group in baseline.only or self.groups
            if name in methods
        }
        learned = len([name for name in methods if name not in self.baselines]) * len(self.groups)
        asked = len(merges) + learned + sum(1 + len(one.experts) for one in self.groups.values())
        return SuiteInputs(models, tuple(self.tasks), tuple(self.entries), merges, asked)

    def pool(self, group: str) -> Pool:
        """The models of a group, with the base."""
        pool, experts = self.pools[self.groups[group].pool], self.groups[group].experts
        return Pool(base=pool.base, models={name: pool.models[name] for name in experts})

    def recipe(self, baseline: Baseline, group: str) -> Recipe:
        """The recipe of a baseline for a group."""
        merge, data, most = baseline.merge, baseline.data, self.at_most
        if most.steps is not None:
            merge = [
                call.model_copy(update={"parameters": {**call.parameters, "steps": min(most.steps, said)}})
                if isinstance(said := call.parameters.get("steps"), int)
                else call
                for call in merge
            ]
        if data is not None and most.examples is not None:
            data = data.model_copy(update={"examples": min(most.examples, data.examples or most.examples)})
        return self.recipe_of(self.pool(group), merge, data)
