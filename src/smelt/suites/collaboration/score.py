"""Scores and labels in, a row out: one group of models on one task at one level."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from smelt.errors import NumericalError
from smelt.evaluation.row import Level, Row, code_version, now
from smelt.tasks.intervals import wilson

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.tasks.pictures.task import PictureTask

__all__ = ["digest", "scored"]


def scored(
    logits: Tensor, labels: Tensor, *, task: PictureTask, level: Level | None, about: Mapping[str, Any], **words: Any
) -> Row:
    """The row of `logits`; `about` and `words` are its other fields."""
    import torch

    if not bool(logits.isfinite().all()):
        raise NumericalError(f"{task.name}: the {level or 'single'} model gives scores with NaN or infinity")
    correct, n = int((logits.argmax(dim=1) == labels).sum()), len(labels)
    low, high = wilson(correct, n)
    return Row(
        **{"code": code_version(), "when": now(), "dtype": "float32", **about, **words},
        task=task.name,
        task_version=task.version,
        split="test",
        n=n,
        correct=correct,
        accuracy=correct / n,
        low=low,
        high=high,
        loss=float(torch.nn.functional.cross_entropy(logits.double(), labels)),
        level=level,
    )


def digest(*content: Any) -> str:
    """A hash over plain data."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
