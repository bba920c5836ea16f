"""A suite as data: which models, which tasks, which merges at which settings. Read from YAML, unknown keys refused."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from smelt.errors import RecipeError, unknown
from smelt.recipe.read import load_yaml
from smelt.recipe.schema import Pipeline, Pool, Recipe

__all__ = ["Entry", "Suite", "Way", "find_suite", "suites"]

_SHIPPED = Path(__file__).parent / "suites"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Entry(_Strict):
    """One merge of the suite at its published setting."""

    label: str
    merge: Pipeline
    tune: bool = True
    """Whether its scale, if it has one, is tuned too."""
    for_task: str | None = None
    """The parameter, as `stage.parameter`, that names the task a model is made for: one model per task."""
    note: str = ""

    @field_validator("for_task")
    @classmethod
    def _is_stage_and_parameter(cls, value: str | None) -> str | None:
        if value is not None and value.count(".") != 1:
            raise ValueError("written as stage.parameter")
        return value


class Way(_Strict):
    """A straight line between two of the models, and the tasks to look at on the way."""

    start: str
    end: str
    tasks: list[str]


class Suite(_Strict):
    """Everything that `smelt bench NAME` runs."""

    name: str
    version: int
    title: str
    pool: Pool
    tasks: list[str]
    include: list[str] = []
    """Patterns of the tensors that are merged; the others stay the base's."""
    allow_pickle: bool = False
    seed: int = 0
    scales: list[float]
    """The scales that are tried on `val`."""
    curve_limit: Annotated[int, Field(gt=0)] | None = None
    """Pictures of each `val` split that a scale is tried on."""
    points: Annotated[int, Field(ge=2)] = 5
    """Models on a line, its ends included."""
    entries: dict[str, Entry]
    paths: list[Way] = []

    @model_validator(mode="after")
    def _names_exist(self) -> Suite:
        """What the suite refers to within itself has to be there."""
        for name, entry in self.entries.items():
            stages = [call.name for call in entry.merge]
            if entry.for_task is not None and entry.for_task.split(".")[0] not in stages:
                raise ValueError(f"entries.{name}.for_task: {entry.for_task.split('.')[0]!r} is not among its stages")
        for way in self.paths:
            for model in (way.start, way.end):
                if model not in self.pool.models:
                    raise ValueError(f"paths: {unknown('model of the pool', model, self.pool.models)}")
        return self

    def recipe(self, entry: Entry, *, task: str | None = None) -> Recipe:
        """The recipe of an entry; `task` is the one its model is made for, where there is one model per task."""
        data: dict[str, Any] = {
            "pool": self.pool.model_dump(),
            "merge": [{call.name: dict(call.parameters)} for call in entry.merge],
            "include": self.include,
            "seed": self.seed,
            "allow_pickle": self.allow_pickle,
        }
        if entry.for_task is not None:
            stage, parameter = entry.for_task.split(".")
            for call in data["merge"]:
                if stage in call:
                    call[stage][parameter] = task
        return Recipe.parse(data)


def suites() -> dict[str, Path]:
    """The shipped suites by name."""
    return {path.stem: path for path in sorted(_SHIPPED.glob("*.yaml"))}


def find_suite(name: str | Path) -> Suite:
    """A shipped suite by its name, or one's own by its path."""
    shipped = suites()
    path = shipped.get(str(name)) or Path(name)
    if not path.exists() and path.suffix not in (".yaml", ".yml"):
        raise RecipeError(unknown("suite", str(name), shipped))
    try:
        return Suite.model_validate(load_yaml(path, "suite"))
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
        raise RecipeError(f"{path}: not a suite:" + "".join(f"\n  - {fault}" for fault in faults)) from None
