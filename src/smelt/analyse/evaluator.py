"""The seam between analyses and evaluation: a state dict in, rows out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from smelt.formats.source import MemorySource, Source

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.evaluation.row import Row

__all__ = ["Evaluate", "evaluator"]

Evaluate: TypeAlias = "Callable[[Mapping[str, Tensor]], Sequence[Row]]"
"""What an analysis needs of an evaluation: the rows of one state dict, one per task."""


def evaluator(like: Source, tasks: Any, *, split: str, **words: Any) -> Evaluate:
    """Smelt's own evaluation on tasks, of models whose config and tokenizer are those of `like`.

    Tasks and split are checked now, before anything is merged; pictures are read once for all models.
    """
    from smelt.prepare.evaluate import evaluate
    from smelt.tasks.pictures.data_cache import DataCache
    from smelt.tasks.registry import find_tasks

    chosen = find_tasks(tasks)
    for task in chosen:
        task.check_split(split)
    words = {"data": DataCache(), **{word: value for word, value in words.items() if value is not None}}

    def run(state: Mapping[str, Tensor]) -> Sequence[Row]:
        source = MemorySource("merged", state)
        source.folder = like.folder
        return evaluate(source, chosen, split=split, **words)

    return run
