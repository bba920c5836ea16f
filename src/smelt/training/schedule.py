"""The learning rate of a step, and the optimiser of a recipe.

    rise      lr t / W                                 for t < W, the warm-up
    constant  lr
    linear    lr (N - t) / (N - W)
    cosine    lr (1 + cos(pi (t - W) / (N - W))) / 2

The same as transformers' schedules of these names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from smelt.training.recipe import TrainingRecipe

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["optimiser_of", "rate_of"]


def rate_of(recipe: TrainingRecipe, steps: int) -> Callable[[int], float]:
    """The learning rate by step, from 0 on."""
    rise = math.ceil(recipe.warmup * steps)
    left = max(1, steps - rise)

    def at(step: int) -> float:
        if step < rise:
            return recipe.lr * step / rise
        match recipe.schedule:
            case "constant":
                return recipe.lr
            case "linear":
                return recipe.lr * max(0.0, (steps - step) / left)
            case "cosine":
                return recipe.lr * 0.5 * (1 + math.cos(math.pi * min(1.0, (step - rise) / left)))

    return at


def optimiser_of(recipe: TrainingRecipe, trained: Iterable[Tensor], device: str) -> torch.optim.Optimizer:
    """Adam, AdamW or plain gradient descent. Weight decay is of all trained tensors alike."""
    import torch

    words: dict[str, Any] = {"lr": recipe.lr, "weight_decay": recipe.weight_decay}
    if recipe.optimiser == "sgd":
        return torch.optim.SGD(trained, **words)
    kind = torch.optim.Adam if recipe.optimiser == "adam" else torch.optim.AdamW
    return kind(trained, betas=recipe.betas, fused=device == "cuda", **words)
