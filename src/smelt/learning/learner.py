"""What a learner is: a function that looks at data once and finds what an ordinary merge then uses.

Registered by a decorator that returns the function unchanged. Its first argument is the Work (network, models,
examples); its parameters are keyword-only and their types validate them, as those of a merge method do. It gives a
LearnedMerge, and never writes where the user looks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeAlias, TypeVar

from pydantic import Field

from smelt.caller import asked_by_recipe, base_word
from smelt.errors import RecipeError, SmeltError, listed, unknown
from smelt.learning.one_change import OneChange
from smelt.learning.task_vectors import DeltaDtype, TaskVectors
from smelt.methods.method import Parameter, Stage
from smelt.optimise.loop import GroupedObjective, Objective, Tell, optimise
from smelt.recipe.pipeline import check, constant
from smelt.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.engine.pool import ModelPool
    from smelt.formats.source import Source
    from smelt.learning.coefficients import Coefficients
    from smelt.learning.parallel_passes import Passes
    from smelt.recipe.schema import Recipe
    from smelt.tasks.examples import ExampleStream

__all__ = ["Count", "LearnedMerge", "Learner", "Where", "Work", "check_learner", "learner", "learners", "run_place"]

Count: TypeAlias = Annotated[int, Field(gt=0)]
Where: TypeAlias = Literal["memory", "disk"]


@dataclass(frozen=True)
class Work:
    """A network, the models that are merged in it, examples for each of them, and a folder for what is on the way."""

    base: Mapping[str, Tensor]
    """The base's weights that are merged, in float32."""
    names: tuple[str, ...]
    """All tensors of the base, merged or not."""
    models: Mapping[str, Source]
    streams: Mapping[str, ExampleStream]
    """By the model's name."""
    passes: Passes
    folder: Path
    seed: int = 0
    tell: Tell | None = None
    keep: Callable[[str, str, Mapping[str, Tensor]], None] = field(default=lambda model, kind, tensors: None)
    """Keeps what was found for one model: keep(model, "mask", tensors)."""
    kept: Callable[[str], list[dict[str, Any]] | None] = field(default=lambda model: None)
    """The trace of a model for which everything was found and kept by an earlier run; None where nothing was."""

    def deltas(self, where: Where = "memory", dtype: DeltaDtype = "float32", model: str | None = None) -> TaskVectors:
        """The changes of all models, or of one."""
        chosen = self.models if model is None else {model: self.models[model]}
        self.folder.mkdir(parents=True, exist_ok=True)
        return TaskVectors(self.base, chosen, dtype=dtype, file=self.folder / "deltas.bin" if where == "disk" else None)

    def change(self, model: str, where: Where = "memory", dtype: DeltaDtype = "float32") -> OneChange | TaskVectors:
        """The change of one model: in the room of its checkpoint, or as `deltas` gives it on disk or rounded."""
        if where == "memory" and dtype == "float32":
            return OneChange(self.base, model, self.models[model])
        return self.deltas(where, dtype, model)

    def optimise(
        self,
        objective: Objective | GroupedObjective,
        *,
        steps: int,
        lr: float,
        batch: int,
        model: str | None = None,
        save_last: bool = True,
    ) -> list[dict[str, Any]]:
        """Run the loop on all streams, or on one model's; its state lies in the folder."""
        streams = self.streams if model is None else {model: self.streams[model]}
        place = "run" if model is None else run_place(self.models, model)
        return optimise(
            objective,
            streams,
            steps=steps,
            lr=lr,
            batch=batch,
            seed=self.seed,
            folder=self.folder / place,
            save_last=save_last,
            tell=self.tell,
        )


def run_place(models: Iterable[str], model: str) -> str:
    """The name of the folder in which one model's run has its state."""
    return f"run-{list(models).index(model)}"


@dataclass(frozen=True)
class LearnedMerge:
    """What was learned: the stages that merge with it, and what they need beside the models."""

    merge: list[dict[str, Any]]
    trace: list[dict[str, Any]]
    coefficients: Coefficients | None = None
    weights: Mapping[str, Tensor] | None = None
    """A whole model, where that is what was learned."""


class Room(Protocol):
    """Parameters with which a learner fits into memory, or an error that says what it needs and what there is."""

    def __call__(
        self,
        values: Mapping[str, Any],
        pool: ModelPool,
        masked: Collection[str],
        *,
        device: str,
        memory: int | str | None = None,
        tokens: int | None = None,
    ) -> dict[str, Any]:
        """`masked` are the tensors that are learned about; `tokens` those of the longest text, where it is known."""


@dataclass(frozen=True)
class Learner:
    """The record of one learner."""

    stage: Stage
    """Its function with name and parameters, in the form that merge methods have. It is no stage of a pipeline."""
    split: str
    """The split that it looks at unless the recipe says otherwise."""
    examples: int | None
    """At most so many of each task unless the recipe says otherwise; nothing means all."""
    room: Room | None = None
    """Asks whether there is the memory that it needs."""

    @property
    def name(self) -> str:
        return self.stage.name

    @property
    def doc(self) -> str:
        return self.stage.doc

    @property
    def summary(self) -> str:
        return self.stage.summary

    @property
    def paper(self) -> str | None:
        return self.stage.paper

    @property
    def parameters(self) -> dict[str, Parameter]:
        return self.stage.parameters

    def looks_at_labels(self, values: Mapping[str, Any]) -> bool:
        """Whether it looks at labels with these parameters."""
        loss = self.parameters.get("loss")
        return loss is not None and values.get("loss", loss.default) == "labels"


_OWN = ("adamerging", "adarank", "localize", "tuned")
learners: Registry[Learner] = Registry(
    "smelt.learners",
    own=lambda: {name: f"smelt.learning.{name}" for name in _OWN},
    home=lambda learner: learner.stage.function.__module__,
)
"""Every learner by name."""

F = TypeVar("F", bound=Callable[..., Any])


def learner(
    name: str,
    *,
    paper: str | None = None,
    split: str = "val",
    examples: int | None = None,
    latex: str = "",
    room: Room | None = None,
) -> Callable[[F], F]:
    """Register `function(work, *, ...) -> LearnedMerge` under a name."""

    def decorate(function: F) -> F:
        known = learners.own(name)
        if known is not None and known.stage.function.__qualname__ != function.__qualname__:
            raise SmeltError(f"two learners are named {name!r}")
        learners[name] = Learner(Stage(name, "method", function, paper=paper, latex=latex), split, examples, room)
        return function

    return decorate


def check_learner(recipe: Recipe) -> tuple[Learner, dict[str, Any]]:
    """The learner that a recipe asks for and all its parameters, or a RecipeError with every fault."""
    with asked_by_recipe(recipe.stated):
        return _checked(recipe)


def _checked(recipe: Recipe) -> tuple[Learner, dict[str, Any]]:
    call, *more = recipe.merge
    if call.name not in learners:
        raise RecipeError(
            f"{unknown('learner', call.name, learners)}; what needs no data is merged by `smelt merge`"
            if not more
            else f"nothing of {', '.join(one.name for one in recipe.merge)} is learned; there is: {', '.join(learners)}"
        )
    chosen = learners[call.name]
    faults = check(chosen.stage, call.parameters, list(recipe.pool.models))
    faults += [
        f"{call.name}.{name}: is one value for all tensors, got {value!r}"
        for name, value in call.parameters.items()
        if name in chosen.parameters and not constant(value)
    ]
    if more:
        faults.append(
            f"{call.name} learns on the models as they are; it cannot stand beside "
            f"{', '.join(one.name for one in more)}"
        )
    if recipe.pool.base is None:
        faults.append(f"{call.name} learns how far to go from the base, and none is given: {base_word()}")
    faults += [f"{call.name} knows no `{word}`; leave it out" for word in ("parts", "slices") if getattr(recipe, word)]
    if faults:
        raise RecipeError(listed(faults, "the request has faults:"))
    values = {p.name: p.default for p in chosen.parameters.values() if not p.required}
    given = {name: chosen.parameters[name].adapter.validate_python(value) for name, value in call.parameters.items()}
    return chosen, values | given
