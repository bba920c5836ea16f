"""A suite as data: which models, which tasks, which merges at which settings. Read from YAML, unknown keys refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, field_validator, model_validator

from smelt.errors import unknown
from smelt.files.schema import Strict
from smelt.recipe.schema import DataUse, Pipeline, Pool, Recipe
from smelt.suites.needs.inputs import SuiteInputs
from smelt.suites.suite import BaseSuite
from smelt.tasks.corruptions.corruption import STORED, Corruption
from smelt.tasks.corruptions.parameters import CorruptionKind, SetName

if TYPE_CHECKING:
    from smelt.suites.plan import BenchOptions

__all__ = ["ClipEntry", "ClipSuite", "Corruptions", "LinePath"]


class ClipEntry(Strict):
    """One predictor of the suite at its published setting: a merge, a mixture, or an ensemble of all models."""

    label: str
    merge: Pipeline | None = None
    ensemble: Literal["mean", "max"] | None = None
    """Ask every model and combine the answers, in the place of `merge`."""
    data: DataUse | None = None
    """The data that it may use, where it uses any."""
    tune: bool = True
    """Whether its scale, if it has one, is tuned too."""
    for_task: str | None = None
    """The parameter, as `stage.parameter`, that names the task a model is made for: one model per task."""
    adapt: Literal["once", "each_corruption"] = "once"
    """Where it looks at data and the test pictures are damaged: one model, or one for each corruption, made with it."""
    note: str = ""

    @field_validator("for_task")
    @classmethod
    def _is_stage_and_parameter(cls, value: str | None) -> str | None:
        if value is not None and value.count(".") != 1:
            raise ValueError("written as stage.parameter")
        return value

    @model_validator(mode="after")
    def _is_one_thing(self) -> ClipEntry:
        if (self.merge is None) == (self.ensemble is None):
            raise ValueError("an entry has either `merge` or `ensemble`")
        if self.adapt == "each_corruption" and self.data is None:
            raise ValueError("adapt: an entry without `data` looks at no pictures; leave it out")
        return self


class Corruptions(Strict):
    """Kinds of damage that the test pictures are given, each at several severities."""

    kinds: Annotated[list[CorruptionKind], Field(min_length=1)]
    severities: Annotated[list[int], Field(min_length=1)] = [1, 2, 3, 4, 5]
    parameters: SetName = "cifar_c"
    stored: bool = False
    """Whether the data sets hold the damaged pictures, in the place of `severities`."""

    @model_validator(mode="after")
    def _says_one_thing(self) -> Corruptions:
        idle = self.model_fields_set & {"severities", "parameters"}
        if self.stored and idle:
            raise ValueError(f"stored pictures are as they are; leave {' and '.join(sorted(idle))} out")
        return self

    @property
    def names(self) -> list[str]:
        """`motion_blur@3` and so on, in order, as rows call them."""
        if self.stored:
            return [Corruption(kind, STORED).name for kind in self.kinds]
        return [Corruption(kind, severity, self.parameters).name for kind in self.kinds for severity in self.severities]


class LinePath(Strict):
    """A straight line between two of the models, and the tasks to look at on the way."""

    start: str
    end: str
    tasks: list[str]


class ClipSuite(BaseSuite):
    """Everything that `smelt bench clip8` runs."""

    kind: Literal["clip"] = "clip"
    pool: Pool
    tasks: list[str]
    experts: Literal["every_task", "own_task"] = "every_task"
    """What the pool's models are asked before they are merged: every task, or the one that each is named after."""
    include: list[str] = []
    """Patterns of the tensors that are merged; the others stay the base's."""
    missing: Literal["refuse", "base"] = "refuse"
    """What merges take in the place of a tensor that a model lacks."""
    config: str | None = None
    """Whose config the merged models have, where configs differ: `base`, or a model's name."""
    text_from: str | None = None
    """Where the pool's models are picture towers alone, the model that has the rest."""
    allow_pickle: bool = False
    scales: list[float] = []
    """The scales that are tried on `val`."""
    curve_limit: Annotated[int, Field(gt=0)] | None = None
    """Pictures of each `val` split that a scale is tried on."""
    points: Annotated[int, Field(ge=2)] = 5
    """Models on a line, its ends included."""
    entries: dict[str, ClipEntry]
    left_out: dict[str, str] = {}
    """Entries that a family of models is not run with, each with the reason, which stands in the table."""
    paths: list[LinePath] = []
    parts: dict[str, list[str]] = {}
    """Where models are left out: by name, the models that every entry is made from, once for each part."""
    corruptions: Corruptions | None = None

    @model_validator(mode="after")
    def _names_exist(self) -> ClipSuite:
        """What the suite refers to within itself has to be there."""
        for name, entry in self.entries.items():
            stages = [call.name for call in entry.merge or ()]
            if entry.adapt == "each_corruption" and self.corruptions is None:
                raise ValueError(f"entries.{name}.adapt: the suite has no corruptions")
            if entry.for_task is not None and entry.for_task.split(".")[0] not in stages:
                raise ValueError(f"entries.{name}.for_task: {entry.for_task.split('.')[0]!r} is not among its stages")
        for name in self.left_out:
            if name not in self.entries:
                raise ValueError(f"left_out: {unknown('entry', name, self.entries)}")
        for path in self.paths:
            for model in (path.start, path.end):
                if model not in self.pool.models:
                    raise ValueError(f"paths: {unknown('model of the pool', model, self.pool.models)}")
        for part, models in self.parts.items():
            for model in models:
                if model not in self.pool.models:
                    raise ValueError(f"parts.{part}: {unknown('model of the pool', model, self.pool.models)}")
        return self

    def inputs(self, options: BenchOptions) -> SuiteInputs:
        """References once, every entry once for each part; a scale that is tuned is one trial for each value."""
        entries = {name: self.entries[name] for name in self._chosen(options.methods, self.run_entries)}
        merges = {name: self.recipe(one, task=self.tasks[0]) for name, one in entries.items() if one.merge}
        tuned = sum(one.tune for one in entries.values()) * len(self.scales) if options.tune else 0
        damaged = len(self.corruptions.names) if self.corruptions else 0
        made = len(entries) * max(len(self.parts), 1)
        tasks = tuple(self._chosen(options.tasks, self.tasks))
        return SuiteInputs(
            {**({"base": self.pool.base} if self.pool.base else {}), **self.pool.models},
            tasks,
            tuple(entries),
            merges,
            (1 + len(self.pool.models) + made) * (1 + damaged),
            tuned,
            tasks if tuned else (),
            self.curve_limit,
        )

    @property
    def run_entries(self) -> dict[str, ClipEntry]:
        """The entries without those that are left out."""
        return {name: entry for name, entry in self.entries.items() if name not in self.left_out}

    def models(self, part: str | None = None) -> dict[str, str]:
        """The models that the entries of a part are made from, in the pool's order."""
        known = self.pool.models
        return {name: ref for name, ref in known.items() if part is None or name in self.parts[part]}

    def recipe(
        self, entry: ClipEntry, *, task: str | None = None, part: str | None = None, corruption: str | None = None
    ) -> Recipe:
        """The recipe of an entry.

        `task` is the one its model is made for, where there is one model per task, and `corruption` the damage of the
        pictures that it looks at.
        """
        if entry.merge is None:
            raise ValueError(f"{entry.label} is an ensemble and has no recipe")
        merge = entry.merge
        if entry.for_task is not None:
            stage, parameter = entry.for_task.split(".")
            merge = [
                call.model_copy(update={"parameters": {**call.parameters, parameter: task}})
                if call.name == stage
                else call
                for call in merge
            ]
        data = entry.data and entry.data.model_copy(update={"corruption": corruption or entry.data.corruption})
        return self.recipe_of(Pool(base=self.pool.base, models=self.models(part)), merge, data)
