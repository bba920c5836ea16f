"""A selection suite as data: the experts, the sets that choose and those that judge, perturbations, and merges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field, model_validator

from smelt.errors import unknown
from smelt.files.schema import Strict
from smelt.recipe.schema import Pipeline, Pool, Recipe
from smelt.suites.needs.inputs import SuiteInputs
from smelt.suites.suite import BaseSuite
from smelt.tasks.perturbations.perturbation import Perturbation

if TYPE_CHECKING:
    from smelt.suites.plan import BenchOptions

__all__ = ["Disturbance", "Harmful", "RandomSizes", "SelectionEntry", "SelectionPreset", "SelectionSuite"]

Count: TypeAlias = Annotated[int, Field(gt=0)]
Split: TypeAlias = Literal["test", "val"]
KINDS = ("held_in", "held_out", "validation")
"""The three kinds of sets."""


class SelectionEntry(Strict):
    """One way to merge a group."""

    label: str
    merge: Pipeline
    setting: Literal["default", "standard"] | None = None
    """mergekit's defaults, or what the method's authors use; nothing where a method has no setting."""
    paper: str | None = None
    """What the paper's tables call it, where they have it."""
    note: str = ""


class Disturbance(Strict):
    """What is perturbed."""

    label: str
    image: bool = False
    text: bool = False
    model: bool = False


class RandomSizes(Strict):
    """Random groups of every one of some sizes, averaged."""

    sizes: list[Count] = []
    count: Count = 10


class Harmful(Strict):
    """Experts that were made to harm a merge. No choice knows of them; reports say whether it leaves them out."""

    kind: str
    """How they harm, as reports call it: `over-confident`."""
    models: Annotated[list[str], Field(min_length=1)]


class SelectionPreset(Strict):
    """Other words for the same suite, under a name: how much of everything."""

    limit: Count | None = None
    passes: Count | None = None
    repeats: Count | None = None
    subsets: Count | None = None
    random: RandomSizes | None = None
    harm: bool | None = None
    held_in: list[str] | None = None
    held_out: list[str] | None = None
    validation: list[str] | None = None
    perturbations: list[str] | None = None
    """Those that stay; the first of the suite always does."""
    entries: list[str] | None = None
    """Those that stay; the one that averages always does."""


class SelectionSuite(BaseSuite):
    """Everything that `smelt bench mllm10` runs."""

    kind: Literal["selection"]
    pool: Pool
    joint: str | None = None
    """A model that was trained on all of the experts' data: the upper reference."""
    harmful: Harmful | None = None
    held_in: Annotated[list[str], Field(min_length=1)]
    """Sets that models are chosen by, without their labels."""
    held_out: Annotated[list[str], Field(min_length=1)]
    """Sets that no choice looks at."""
    validation: list[str] = []
    """Labelled sets for the greedy soup, which has to look at some; every step is asked by them."""
    validation_split: Split = "val"
    soup: bool = True
    """Whether the greedy soup is searched, where there are validation sets."""
    published_uncertainty: list[str] = []
    """Printed tables of uncertainties, in nats, as `published` are those of accuracies."""
    include: list[str] = []
    dtype: str | None = None
    allow_pickle: bool = False
    seed: int = 0
    """Of the perturbations, the random groups, and the merges that draw."""
    limit: Count | None = None
    """Questions of each set, where the command says nothing."""
    passes: Annotated[int, Field(ge=2)] = 4
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    repeats: Count = 1
    perturbations: Annotated[dict[str, Disturbance], Field(min_length=1)]
    """The first one guides; the others are compared with it."""
    both_orders: bool = False
    """Whether groups grow in both orders under every perturbation; else in ascending order under the first alone."""
    choose: Literal["global_min", "first_local_min"] = "first_local_min"
    """By which of the two the group is chosen that everything else is compared with; both are reported."""
    subsets: Count = 3
    """Random groups of the chosen size, the same for every entry."""
    subset_size: Annotated[int, Field(ge=2)] = 7
    """Their size where all models are chosen, or one: then there is no random group of that size to merge."""
    random: RandomSizes = RandomSizes()
    harm: bool = True
    """Whether the average of all is compared with that of all but one, for each."""
    average: str = "average"
    """The entry by which groups grow."""
    entries: Annotated[dict[str, SelectionEntry], Field(min_length=1)]
    presets: dict[str, SelectionPreset] = {}

    @model_validator(mode="after")
    def _fits_together(self) -> SelectionSuite:
        """What the suite refers to within itself has to be there, once."""
        if self.pool.base is None:
            raise ValueError("pool: needs a base; changes are measured from it")
        if len(self.pool.models) < 3:
            raise ValueError(f"pool.models: a choice needs at least three models; got {len(self.pool.models)}")
        taken = next((name for name in ("base", "joint") if name in self.pool.models), None)
        if taken:
            raise ValueError(f"pool.models.{taken}: that is what a reference is called; take another name")
        if self.average not in self.entries:
            raise ValueError(f"average: {unknown('entry', self.average, self.entries)}")
        harmful = self.harmful.models if self.harmful else []
        strange = next((name for name in harmful if name not in self.pool.models), None)
        if strange:
            raise ValueError(f"harmful.models: {unknown('model', strange, self.pool.models)}")
        if len(self.pool.models) - len(set(harmful)) < 2:
            raise ValueError("harmful.models: leaves fewer than two models, so there is no merge without them")
        every = [*self.held_in, *self.held_out, *self.validation]
        twice = [name for name in every if every.count(name) > 1]
        if twice:
            raise ValueError(f"the set {twice[0]!r} is listed twice")
        for name, one in self.perturbations.items():
            if not (one.image or one.text or (one.model and self.dropout > 0)):
                raise ValueError(f"perturbations.{name}: perturbs nothing, so that every uncertainty is 0")
        for size in self.random.sizes:
            if not 2 <= size < len(self.pool.models):
                raise ValueError(f"random.sizes: {size} of {len(self.pool.models)} models leaves nothing to draw")
        for name, preset in self.presets.items():
            for word, known in (("perturbations", self.perturbations), ("entries", self.entries)):
                strange = next((one for one in getattr(preset, word) or () if one not in known), None)
                if strange:
                    raise ValueError(f"presets.{name}.{word}: {unknown(word[:-1], strange, known)}")
        return self

    def inputs(self, options: BenchOptions) -> SuiteInputs:
        """Every model and all sets; groups grow one by one, so that about twice as many models are asked."""
        entries = self._chosen(options.methods, self.entries)
        models = self.pool.refs | ({"joint": self.joint} if self.joint else {})
        count = len(self.pool.models)
        looks = (1 + self.passes) * len(self.perturbations) * self.repeats
        return SuiteInputs(
            models=models,
            tasks=tuple(self._chosen(options.tasks, [*self.held_in, *self.held_out])),
            methods=tuple(self.entries),
            merges={name: self.recipe(name) for name in entries},
            asked=len(models) + 2 * count + len(entries) * (2 + self.subsets) + count * looks,
            validation=tuple(self.validation),
            trials=count if self.validation else 0,
            trial_examples=options.limit or self.limit,
        )

    @property
    def guide(self) -> str:
        """The perturbation that guides."""
        return next(iter(self.perturbations))

    def sets(self, kind: str) -> list[str]:
        """The sets of a kind, as the suite spells them."""
        return {"held_in": self.held_in, "held_out": self.held_out, "validation": self.validation}[kind]

    def split(self, kind: str) -> Split:
        """By which the sets of a kind are asked."""
        return self.validation_split if kind == "validation" else "test"

    def perturbation(self, name: str) -> Perturbation:
        """One of the perturbations with all its numbers."""
        words = self.perturbations[name].model_dump(exclude={"label"})
        return Perturbation(**words, passes=self.passes, dropout=self.dropout, seed=self.seed)

    def recipe(self, entry: str) -> Recipe:
        """The merge of all models by an entry."""
        return self.recipe_of(self.pool, self.entries[entry].merge)

    def at_preset(self, words: dict[str, Any], preset: SelectionPreset) -> dict[str, Any]:
        """Other numbers, and fewer perturbations and entries."""
        words |= preset.model_dump(exclude={"perturbations", "entries"}, exclude_none=True)
        for word, first in (("perturbations", self.guide), ("entries", self.average)):
            stay = getattr(preset, word)
            if stay is not None:
                words[word] = {one: value for one, value in words[word].items() if one in stay or one == first}
        return words

    def protocol(self) -> Mapping[str, Any]:
        """What the numbers follow from, beside the contents of models and sets."""
        same = (
            "include seed passes dropout repeats choose subsets subset_size harm soup average validation_split".split()
        )
        return {
            "merged_dtype": self.dtype,
            **{word: getattr(self, word) for word in same},
            "random": self.random.model_dump(),
            **{kind: self.sets(kind) for kind in KINDS},
            "perturbations": {name: one.model_dump(exclude={"label"}) for name, one in self.perturbations.items()},
        }
