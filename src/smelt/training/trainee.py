"""A model that is being trained, of any family: its loss, the batches of a step, and how good it is on other examples.

One file for each kind of model: `pictures.py`, `texts.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from smelt.errors import RecipeError
from smelt.optimise.batch_indices import batch_indices
from smelt.recipe.patterns import chosen
from smelt.tasks.examples import ExampleBatch, ExampleStream
from smelt.training.adapters import with_adapters
from smelt.training.recipe import TrainingRecipe

if TYPE_CHECKING:
    from torch import nn

    from smelt.tasks.task import Task

__all__ = ["Trainee", "autocast", "is_trained"]


class Trainee(ABC):
    """A loaded model with a recipe: what is to be trained requires gradients, all else is frozen."""

    family_trained: ClassVar[tuple[str, ...]]
    """What is trained where the recipe does not say."""
    measure: ClassVar[str]
    """What validation finds: `accuracy` or `loss`."""

    def __init__(self, loaded: Any, module: Any, recipe: TrainingRecipe, base: str):
        self.loaded, self.module, self.recipe = loaded, module, recipe
        self.adapted: Any = None
        """The module with its adapters, where these are what is trained."""
        if recipe.method == "lora":
            self.adapted = with_adapters(module, recipe, self._is_trained, base, loaded.label)
        else:
            for name, tensor in module.named_parameters():
                tensor.requires_grad_(self._is_trained(name) and tensor.is_floating_point())
        if not any(tensor.requires_grad for tensor in module.parameters()):
            raise RecipeError(f"{loaded.label}: nothing is left to train; `trained` and `skip` leave no tensor")

    @property
    @abstractmethod
    def objective(self) -> nn.Module:
        """What gives the loss of a part of a batch."""

    @abstractmethod
    def examples(self, task: Task, split: str, count: int | None) -> ExampleStream:
        """A task's examples as this model takes them."""

    @abstractmethod
    def cut(self, batch: ExampleBatch, size: int) -> Iterator[Mapping[str, Any]]:
        """A batch in parts of at most `size` examples, each as the objective takes it."""

    @abstractmethod
    def validate(self, stream: ExampleStream, size: int) -> float:
        """How good it is on examples that it does not learn from."""

    @property
    def parts(self) -> int:
        """Parts of a batch of one task."""
        return -(-self.recipe.batch // self._at_once)

    @property
    def _at_once(self) -> int:
        return self.recipe.micro_batch or self.recipe.batch

    def batches(self, streams: Mapping[str, ExampleStream]) -> Callable[[int], Sequence[Mapping[str, Any]]]:
        """The parts of a step: `batch` examples of every task, which follow from seed, task and step alone."""
        recipe = self.recipe

        def of(step: int) -> list[Mapping[str, Any]]:
            found: list[Mapping[str, Any]] = []
            for name, stream in streams.items():
                places = batch_indices(recipe.seed, name, step, size=len(stream), batch=recipe.batch)
                found += self.cut(stream.batch(places), self._at_once)
            return found

        return of

    def _is_trained(self, name: str) -> bool:
        return is_trained(self.recipe, self.family_trained, name)


def is_trained(recipe: TrainingRecipe, default: Sequence[str], name: str) -> bool:
    """Whether a tensor is among those that a recipe trains."""
    return chosen(name, recipe.trained or tuple(default), recipe.skip)


def autocast(recipe: TrainingRecipe, device: str) -> AbstractContextManager[Any]:
    """Computing in the recipe's precision."""
    import torch

    if recipe.precision == "float32":
        return nullcontext()
    return torch.autocast(device.split(":")[0], torch.bfloat16)
