"""A language suite as data: specialists by domain, the tests of each domain, merges, and what may vary in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field, field_validator, model_validator

from smelt.errors import unknown
from smelt.files.schema import Strict
from smelt.recipe.schema import DataUse, Pipeline, Pool, Recipe
from smelt.recipe.tune import Tune
from smelt.suites.needs.inputs import SuiteInputs
from smelt.suites.suite import BaseSuite

if TYPE_CHECKING:
    from smelt.suites.plan import BenchOptions

__all__ = ["Domain", "LanguageEntry", "LanguagePreset", "LanguageSuite"]

Count: TypeAlias = Annotated[int, Field(gt=0)]
RULE = "rule"
"""The word for Smelt's own rule in the place of a model that judges."""
REFERENCES = ("pretrained", "multitask")
"""What the suite's own lines are called, and `expert-` with a domain."""


class Domain(Strict):
    """What one specialist is for: the tasks that it is tested by, and another one that settings are chosen on."""

    tests: list[str]
    """None where nothing of it can be tested: the specialist is merged all the same."""
    validation: str | None = None
    """A task with a `val` split. Settings are chosen by the mean over those of all domains."""
    training: str | None = None
    """A task with a `train` split, which statistics and masks look at; without it the task with the domain's name."""

    @model_validator(mode="after")
    def _differ(self) -> Domain:
        if self.validation in self.tests:
            raise ValueError(f"{self.validation!r} is a test too; settings are chosen on another task")
        return self


class LanguageEntry(Strict):
    """One merge of all specialists."""

    label: str
    merge: Pipeline
    data: DataUse | None = None
    """The data that it may look at, where it needs any."""
    tune: bool | Tune = False
    """What may vary: the shipped grid (true), nothing (false), or a table as in a recipe."""
    note: str = ""

    @field_validator("data")
    @classmethod
    def _is_no_test(cls, value: DataUse | None) -> DataUse | None:
        if value is not None and value.split == "test":
            raise ValueError("split: a merge that has looked at `test` cannot be reported on it; use train")
        return value


class LanguagePreset(Strict):
    """Other words for the same suite, under a name: how much of everything."""

    limit: Count | None = None
    curve_limit: Count | None = None
    general_limit: Count | None = None
    experts: Literal["all", "own"] | None = None
    judge: str | None = None
    leave_out: list[str] = []
    """Tests, general and validation tasks that are not asked."""
    entries: dict[str, dict[str, Any]] = {}
    """By name, the words of an entry that are others."""


class LanguageSuite(BaseSuite):
    """Everything that `smelt bench llm5` runs."""

    kind: Literal["language"]
    pool: Pool
    """The specialists, each under the name of its domain."""
    multitask: str | None = None
    """A model that was trained on all domains together: a reference."""
    domains: Annotated[dict[str, Domain], Field(min_length=1)]
    general: list[str] = []
    """Tasks of no domain, which the base knows: what merging forgets."""
    split: str = "test"
    """Of the tests and of the general tasks."""
    include: list[str] = []
    """Patterns of the tensors that are merged; the others stay the base's."""
    dtype: str | None = None
    """Of the merged models; the base's own if nothing is said."""
    allow_pickle: bool = False
    limit: Count | None = None
    """Examples of each test, where the command says nothing."""
    curve_limit: Count | None = None
    """Examples of each validation task."""
    general_limit: Count | None = None
    """Examples of each general task; as many as of a test if nothing is said."""
    judge: str = RULE
    """Who judges replies where a task asks for a judge: a model's reference, or our rule for refusals (`rule`)."""
    experts: Literal["all", "own"] = "all"
    """Whether specialists are asked about everything, or about their own domain alone."""
    entries: Annotated[dict[str, LanguageEntry], Field(min_length=1)]
    presets: dict[str, LanguagePreset] = {}

    @model_validator(mode="after")
    def _names_exist(self) -> LanguageSuite:
        """What the suite refers to within itself has to be there, once."""
        if self.pool.base is None:
            raise ValueError("pool: needs a base; changes and forgetting are measured from it")
        for name in self.domains:
            if name not in self.pool.models:
                raise ValueError(f"domains.{name}: {unknown('model of the pool', name, self.pool.models)}")
        for name in self.pool.models:
            if name not in self.domains:
                raise ValueError(f"pool.models.{name}: {unknown('domain', name, self.domains)}")
        if not self.tests:
            raise ValueError("domains: none has a test")
        named = [*self.tests, *self.general]
        twice = [name for name in named if named.count(name) > 1]
        if twice:
            raise ValueError(f"the task {twice[0]!r} is listed twice")
        for name, entry in self.entries.items():
            if name in REFERENCES or name.startswith("expert-"):
                raise ValueError(f"entries.{name}: that is what the references are called; take another name")
            if entry.tune and not self.validation:
                raise ValueError(f"entries.{name}.tune: no domain has a `validation` task to choose by")
        for name, preset in self.presets.items():
            for task in preset.leave_out:
                if task not in (*named, *self.validation):
                    raise ValueError(f"presets.{name}.leave_out: {unknown('task', task, [*named, *self.validation])}")
            for other in preset.entries:
                if other not in self.entries:
                    raise ValueError(f"presets.{name}.entries: {unknown('entry', other, self.entries)}")
        return self

    def inputs(self, options: BenchOptions) -> SuiteInputs:
        """Models, tests and merges; a judge is a model too."""
        from smelt.search.tune import grid_size

        asked = self._chosen(options.tasks, [*self.tests, *self.general])
        entries = {name: self.entries[name] for name in self._chosen(options.methods, self.entries)}
        merges = {name: self.recipe(entry).model_copy(update={"tune": None}) for name, entry in entries.items()}
        tuned = [self.recipe(entry) for entry in entries.values() if entry.tune and options.tune]
        models = self.pool.refs | ({"multitask": self.multitask} if self.multitask else {})
        said = [self.said(word) for word in asked]
        judged = {"judge": self.judge} if said != asked else {}
        looks = any(recipe.data for recipe in merges.values())
        training = {one.training for one in self.domains.values() if one.training and looks}
        return SuiteInputs(
            models=models | judged,
            tasks=tuple(asked),
            methods=tuple(self.entries),
            merges=merges,
            asked=1 + (self.multitask is not None) + (len(self.domains) if self.experts == "all" else 1) + len(entries),
            trials=sum(grid_size(recipe) for recipe in tuned),
            validation=tuple(self.validation) if tuned else (),
            trial_examples=self.curve_limit,
            data=tuple(sorted(training)),
        )

    @property
    def tests(self) -> list[str]:
        """The tests of all domains, in order."""
        return [task for domain in self.domains.values() for task in domain.tests]

    @property
    def validation(self) -> list[str]:
        """The tasks that settings are chosen on."""
        return list(self.validation_tasks.values())

    @property
    def validation_tasks(self) -> dict[str, str]:
        """The same by their domains."""
        return {name: one.validation for name, one in self.domains.items() if one.validation is not None}

    def at_preset(self, words: dict[str, Any], preset: LanguagePreset) -> dict[str, Any]:
        """Other limits, tasks left out, other words of entries."""
        words |= preset.model_dump(exclude={"entries", "leave_out"}, exclude_none=True)
        for part in (words, *words["domains"].values()):
            for kind in part.keys() & {"general", "tests"}:
                part[kind] = [task for task in part[kind] if task not in preset.leave_out]
            if part.get("validation") in preset.leave_out:
                part["validation"] = None
        for entry, others in preset.entries.items():
            words["entries"][entry] |= others
        return words

    def column_means(self) -> dict[str, list[str]]:
        """Domains, each the mean over its tests."""
        from smelt.tasks.registry import find_task

        return {name: [find_task(word).name for word in domain.tests] for name, domain in self.domains.items()}

    def said(self, word: str) -> str:
        """A task as it is asked: with the judge of the suite where it needs one."""
        from smelt.tasks.language.task import LanguageTask
        from smelt.tasks.registry import find_task

        task = None if self.judge == RULE else find_task(word)
        return f"{word}@{self.judge}" if isinstance(task, LanguageTask) and task.judged and not task.judge else word

    def recipe(self, entry: LanguageEntry) -> Recipe:
        """The recipe of an entry at its published setting; what may vary stands in its `tune`."""
        data, training = entry.data, {name: one.training for name, one in self.domains.items() if one.training}
        if data is not None and training:
            data = data.model_copy(update={"tasks": {**training, **data.tasks}})
        recipe = self.recipe_of(self.pool, entry.merge, data)
        if isinstance(entry.tune, bool):
            return recipe
        return recipe.model_copy(update={"tune": entry.tune})

    def protocol(self) -> Mapping[str, Any]:
        """What the numbers follow from, beside the contents of models and tasks."""
        return {
            "split": self.split,
            "include": self.include,
            "merged_dtype": self.dtype,
            "seed": self.seed,
            **({"judge": self.judge} if self.judge != RULE else {}),
            "domains": {name: [*domain.tests, domain.validation] for name, domain in self.domains.items()},
            "general": self.general,
        }
