"""Training a language model on pairs of prompt and answer, of which the answer counts.

    min_W  sum over tasks of mean over answer tokens of  -log p(token | all before it)

The mean is over the answer tokens of a step's batch, however it is cut into parts. Scores are computed where an answer
is, only: those of whole texts would be the largest tensor by far.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smelt.errors import RecipeError
from smelt.models.families.causal_lm.batch import TokenBatch
from smelt.models.families.causal_lm.network import at_answers
from smelt.training.trainee import Trainee, autocast

if TYPE_CHECKING:
    from smelt.models.families.causal_lm.model import CausalLM
    from smelt.tasks.examples import ExampleBatch, ExampleStream
    from smelt.tasks.task import Task
    from smelt.training.recipe import TrainingRecipe

__all__ = ["TextTrainee", "set_checkpointing"]


class TextTrainee(Trainee):
    """A language model, all of it trained, or adapters in its layers."""

    family_trained = ("*",)
    measure = "loss"

    def __init__(self, model: CausalLM, recipe: TrainingRecipe, base: str):
        super().__init__(model, model.module, recipe, base)
        set_checkpointing(model.module, recipe)
        self._objective = _Answers(model.module, recipe, model.device)

    @property
    def objective(self) -> nn.Module:
        return self._objective

    def examples(self, task: Task, split: str, count: int | None) -> ExampleStream:
        from smelt.tasks.language.examples import language_examples
        from smelt.tasks.language.task import LanguageTask

        if not isinstance(task, LanguageTask):
            raise RecipeError(f"{task.name} is {task.called}, and {self.loaded.label} is a language model")
        return language_examples(self.loaded, task, split=split, count=count, length=self.recipe.length)

    def cut(self, batch: ExampleBatch, size: int) -> Iterator[Mapping[str, Any]]:
        whole = int(batch.inputs.answers.sum())
        for start in range(0, len(batch.inputs), size):
            yield {"inputs": batch.inputs[start : start + size], "whole": whole}

    def validate(self, stream: ExampleStream, size: int) -> float:
        """The mean loss of an answer's token."""
        self._objective.eval()
        total, tokens = 0.0, 0
        with torch.no_grad():
            for batch in stream.batches(size):
                total += float(self._objective(batch.inputs, 1))
                tokens += int(batch.inputs.answers.sum())
        return total / tokens


class _Answers(nn.Module):
    def __init__(self, model: Any, recipe: TrainingRecipe, device: str):
        super().__init__()
        self.model, self._recipe, self._device = model, recipe, device

    def forward(self, inputs: TokenBatch, whole: int) -> Tensor:
        hook = self.model.get_output_embeddings().register_forward_pre_hook(at_answers(inputs))
        try:
            with autocast(self._recipe, self._device):
                scores = self.model(input_ids=inputs.ids, attention_mask=inputs.mask.long(), use_cache=False).logits[0]
        finally:
            hook.remove()
        return F.cross_entropy(scores.float(), inputs.targets, reduction="sum") / whole


def set_checkpointing(module: Any, recipe: TrainingRecipe) -> None:
    """Have a transformers model compute its activations again for the gradient, where the recipe wants that."""
    if not recipe.checkpointing:
        return
    enable = getattr(module, "activation_checkpointing_enable", None)  # the newer word for the same
    if enable is not None:
        enable(activation_checkpointing_kwargs={"use_reentrant": False})
    else:
        module.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
