"""Pools small enough to compute by hand, and an evaluation that needs no pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from smelt.engine.pool import ModelPool
from smelt.evaluation.row import Row
from smelt.formats.source import MemorySource


def tensors(**lists: object) -> dict[str, Tensor]:
    """`tensors(w=[1, 0])`; two underscores in a name are a dot."""
    return {name.replace("__", "."): torch.tensor(numbers, dtype=torch.float32) for name, numbers in lists.items()}


def pool(base: Mapping[str, Tensor] | None, **models: Mapping[str, Tensor]) -> ModelPool:
    return ModelPool(
        MemorySource("base", base) if base else None, {name: MemorySource(name, m) for name, m in models.items()}
    )


def three() -> ModelPool:
    """Changes (1, 0), (1, 1) and (-1, 0) from a base of (5, 5)."""
    return pool(tensors(w=[5, 5]), a=tensors(w=[6, 5]), b=tensors(w=[6, 6]), c=tensors(w=[4, 5]))


def row(task: str = "photos", accuracy: float = 0.5, loss: float = 1.0, split: str = "val") -> Row:
    return Row(
        entry="merged", label="merged", task=task, task_version=1, split=split, n=100, correct=round(100 * accuracy),
        accuracy=accuracy, low=0.0, high=1.0, loss=loss, model="merged", model_hash="", code="0", device="cpu",
        dtype="float32", command="", when="2026-01-01T00:00:00+00:00",
    )  # fmt: skip


def scored(loss: Callable[[Mapping[str, Tensor]], float], *tasks: str) -> Callable[[Mapping[str, Tensor]], list[Row]]:
    """An evaluation whose loss is a function of the weights, the accuracy falling as it rises."""
    return lambda state: [row(task, 1 / (1 + loss(state)), loss(state)) for task in tasks or ("photos",)]
