"""What a training needs, from headers and before a number is read: parameters, memory, disk, examples, steps.

    memory  = weights + trained (gradient + two moments of Adam)          activations come on top
    disk    = two checkpoints of trained (weight + two moments) + the output

How long it takes depends on the machine and is not guessed at.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.display.blocks import Facts
from smelt.display.shown import Shown
from smelt.errors import OutputError, RecipeError
from smelt.formats import dtype as dtypes
from smelt.formats.architecture.layout import Layout
from smelt.system.hardware import available_memory, usable_gpus
from smelt.training.recipe import TrainingRecipe
from smelt.training.trainee import is_trained

if TYPE_CHECKING:
    from smelt.formats.source import Source, TensorInfo
    from smelt.tasks.task import Task

__all__ = ["TrainingPlan", "check_fit", "plan_training", "steps_of"]

_SIZES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class TrainingPlan(Shown):
    """What a training would do and need."""

    base: str
    recipe: dict[str, Any]
    parameters: int
    trained: int
    examples: dict[str, int | None]
    """Of every task; nothing where only a download would tell."""
    steps: int | None
    """Nothing where it follows from examples that are not counted yet."""
    memory: int
    """Bytes where it computes, without activations."""
    checkpoint: int
    """Bytes of the state that a stopped run goes on from."""
    output: int
    """Bytes of the result."""

    @property
    def disk(self) -> int:
        """Bytes at most: a new checkpoint is there before the old one goes."""
        return 2 * self.checkpoint + self.output

    def to_json(self) -> dict[str, Any]:
        """The plan as plain data."""
        return {**asdict(self), "disk": self.disk}

    def shown(self) -> list[Facts]:
        unknown = "not known before they are downloaded"
        examples = ", ".join(f"{name} {unknown if n is None else f'{n:,}'}" for name, n in self.examples.items())
        return [
            Facts(
                [
                    ("base", self.base),
                    ("trained", f"{self.trained:,} of {self.parameters:,} parameters ({self.recipe['method']})"),
                    ("examples", examples),
                    ("steps", unknown if self.steps is None else f"{self.steps:,} of {self.recipe['batch']} examples"),
                    ("memory", f"{self.memory / 1e9:,.2f} GB where it computes, and activations"),
                    ("disk", f"{self.disk / 1e9:,.2f} GB, of which {self.output / 1e9:,.2f} GB stay"),
                ]
            )
        ]


def plan_training(
    base: str,
    source: Source,
    recipe: TrainingRecipe,
    default: Sequence[str],
    tasks: Sequence[Task],
) -> TrainingPlan:
    """What training a base would need; `default` is what its family trains. The source's headers are enough."""
    infos = {name: info for name, info in source.tensors.items() if info.dtype in dtypes.FLOATS}
    chosen = {name: info for name, info in infos.items() if is_trained(recipe, default, name)}
    everything = sum(_numbers(info) for info in infos.values())
    trained = sum(_numbers(info) for info in chosen.values())
    held = _SIZES[recipe.weights]
    if recipe.method == "lora":
        trained = recipe.lora.rank * sum(
            sum(info.shape) for name, info in chosen.items() if _adapted(recipe, name, info)
        )
        memory = everything * held + trained * (4 + 4 + _moments(recipe) * 4)
        state = trained * 4 * (1 + _moments(recipe))
    else:
        memory = everything * held + trained * held * (1 + _moments(recipe))
        state = trained * held * (1 + _moments(recipe))
    counts = {task.name: _count(task, recipe) for task in tasks}
    return TrainingPlan(
        base=base,
        recipe=recipe.dump(),
        parameters=everything,
        trained=trained,
        examples=counts,
        steps=steps_of(recipe, counts),
        memory=memory,
        checkpoint=state,
        output=_output(recipe, infos, trained),
    )


def steps_of(recipe: TrainingRecipe, counts: Mapping[str, int | None]) -> int | None:
    """The steps of a recipe: its own, or its epochs of the largest task; nothing where that is not known."""
    if recipe.steps is not None:
        return recipe.steps
    assert recipe.epochs is not None
    known = [number for number in counts.values() if number is not None]
    if len(known) < len(counts):
        return None
    return max(1, math.ceil(recipe.epochs * max(known) / recipe.batch))


def check_fit(plan: TrainingPlan, out: Path, device: str) -> None:
    """Refuse what cannot fit into memory or onto the disk, before any work is done."""
    where, room = "this machine has", available_memory()
    if device.split(":")[0] == "cuda":
        found = usable_gpus().found
        where, room = "the GPU has", found[0].bytes if found else None
    if room is not None and plan.memory > room:
        raise RecipeError(
            f"the training needs {plan.memory / 1e9:,.1f} GB for weights, gradients and moments alone, and {where} "
            f"{room / 1e9:,.1f} GB; train adapters (method lora), or hold the weights in bfloat16 (weights: bfloat16)"
        )
    parent = next(one for one in out.resolve().parents if one.exists())
    free = shutil.disk_usage(parent).free
    if plan.disk > free:
        raise OutputError(
            f"the training needs {plan.disk / 1e9:,.1f} GB of disk and {parent} has only {free / 1e9:,.1f} GB free"
        )


def _numbers(info: TensorInfo) -> int:
    return math.prod(info.shape)


def _moments(recipe: TrainingRecipe) -> int:
    return 0 if recipe.optimiser == "sgd" else 2


def _adapted(recipe: TrainingRecipe, name: str, info: TensorInfo) -> bool:
    """Whether a stored tensor is the weight of a linear layer that gets an adapter."""
    stem, _, leaf = name.rpartition(".")
    layers = recipe.lora.layers
    if leaf != "weight" or len(info.shape) != 2 or Layout.holds_vocabulary(name) or "embedding" in stem:
        return False
    return not layers or stem.rpartition(".")[2] in layers


def _output(recipe: TrainingRecipe, infos: Mapping[str, TensorInfo], trained: int) -> int:
    if recipe.written == "adapter":
        return 4 * trained
    tower = recipe.written == "tower"
    kept = {name: info for name, info in infos.items() if not tower or name.startswith("vision_model.")}
    return sum(_numbers(info) * _SIZES[recipe.dtype] if recipe.dtype else info.nbytes for info in kept.values())


def _count(task: Task, recipe: TrainingRecipe) -> int | None:
    task.check_split(recipe.split)
    found = task.count(recipe.split)
    if found is None or recipe.examples is None:
        return found
    return min(found, recipe.examples)
