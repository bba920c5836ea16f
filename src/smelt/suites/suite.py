"""What all kinds of suites have in common: their YAML has a name and a version, unknown keys are refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from pydantic import ValidationError

from smelt.errors import RecipeError, unknown
from smelt.files.schema import Strict, faults_of
from smelt.recipe.schema import DataUse, Pool, Recipe, StageCall
from smelt.suites.needs.inputs import SuiteInputs
from smelt.suites.order import OrderOf

if TYPE_CHECKING:
    from smelt.suites.plan import BenchOptions

__all__ = ["BaseSuite"]


class BaseSuite(Strict):
    """A suite as data; each kind adds its own fields."""

    kind: str
    name: str
    version: int
    title: str
    family: str | None = None
    """Which of its families of models it is about, where it has several (families.py)."""
    run: str | None = None
    """What its runs are called, and the folder of one if nothing else is given; else its name and its family."""
    published: list[str] = []
    """The printed tables that the report shows beside our numbers (published.py)."""
    order: list[OrderOf] = []
    """The printed tables whose order of methods stands beside ours, although models and tasks are others (order.py)."""
    seed: int = 0

    @property
    def run_name(self) -> str:
        """What a run of it is called: its name, and its family where it has several."""
        if self.run is not None:
            return self.run
        return self.name if self.family is None else f"{self.name}-{self.family}"

    def inputs(self, options: BenchOptions) -> SuiteInputs:
        """What it refers to; nothing of it is opened. A kind that says nothing is run without a look ahead."""
        return SuiteInputs({}, ())

    def with_preset(self, name: str | None) -> Self:
        """The suite at one of its presets; as it is if none is named."""
        if name is None:
            return self
        presets: Mapping[str, Any] | None = getattr(self, "presets", None)
        if presets is None:
            raise RecipeError(f"preset: {self.name} has none; leave it out")
        if name not in presets:
            raise RecipeError(f"{self.name}: {unknown('preset', name, presets)}")
        words = self.at_preset(self.model_dump(mode="json", exclude={"presets"}), presets[name])
        try:
            return type(self).model_validate(words)
        except ValidationError as error:
            raise RecipeError(f"{self.name}, preset {name}: " + "; ".join(faults_of(error))) from None

    def _chosen(self, names: Sequence[str] | None, known: Iterable[str]) -> list[str]:
        """The named ones in the suite's own order, or all; unknown names are refused when the run is planned."""
        return [name for name in known if names is None or name in names]

    def at_preset(self, words: dict[str, Any], preset: Any) -> dict[str, Any]:
        """The suite's words, changed as one of its presets says."""
        return {**words, **preset.model_dump(exclude_none=True)}

    def column_means(self) -> dict[str, list[str]]:
        """Columns of printed tables that are means over several of our tasks."""
        return {}

    def recipe_of(self, pool: Pool, merge: Sequence[StageCall], data: DataUse | None = None) -> Recipe:
        """A merge of the suite, with what the suite says of all merges."""
        shared = ("include", "missing", "config", "dtype", "seed", "allow_pickle")
        return Recipe.parse(
            {
                "pool": pool.model_dump(),
                "merge": [{call.name: dict(call.parameters)} for call in merge],
                "data": data.model_dump() if data else None,
                **{word: getattr(self, word) for word in shared if word in type(self).model_fields},
            }
        )
