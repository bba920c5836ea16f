"""What a learner works with, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from smelt.learning.deltas import DeltaDtype, TaskVectors
from smelt.optimise.loop import Objective, Tell, optimise

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.formats.source import Source
    from smelt.learning.coefficients import Coefficients
    from smelt.learning.passes import Passes
    from smelt.tasks.examples import ExampleStream

__all__ = ["Found", "Where", "Work"]

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

    def deltas(self, where: Where = "memory", dtype: DeltaDtype = "float32", model: str | None = None) -> TaskVectors:
        """The changes of all models, or of one."""
        chosen = self.models if model is None else {model: self.models[model]}
        self.folder.mkdir(parents=True, exist_ok=True)
        return TaskVectors(self.base, chosen, dtype=dtype, file=self.folder / "deltas.bin" if where == "disk" else None)

    def optimise(
        self, objective: Objective, *, steps: int, lr: float, batch: int, model: str | None = None
    ) -> list[dict[str, Any]]:
        """Run the loop on all streams, or on one model's; its state lies in the folder."""
        streams = self.streams if model is None else {model: self.streams[model]}
        place = "run" if model is None else f"run-{list(self.models).index(model)}"
        return optimise(
            objective,
            streams,
            steps=steps,
            lr=lr,
            batch=batch,
            seed=self.seed,
            folder=self.folder / place,
            tell=self.tell,
        )


@dataclass(frozen=True)
class Found:
    """What was learned: the stages that merge with it, and what they need beside the models."""

    merge: list[dict[str, Any]]
    trace: list[dict[str, Any]]
    coefficients: Coefficients | None = None
    weights: Mapping[str, Tensor] | None = None
    """A whole model, where that is what was learned."""
