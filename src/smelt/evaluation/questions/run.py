"""Question sets on one model: the letter with the highest score is its answer, without any perturbation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from smelt.evaluation.classify import Result
from smelt.evaluation.questions.ask import Asked, asked, option_logits
from smelt.evaluation.questions.features import Features
from smelt.system.progress import Progress
from smelt.tasks.pictures.data import Data
from smelt.tasks.pictures.task import TaskError
from smelt.tasks.questions.prompt import LETTERS

if TYPE_CHECKING:
    from smelt.models.families.image_text.model import ImageText
    from smelt.tasks.questions.task import QuestionTask

__all__ = ["Answers", "answer", "labelled"]


@dataclass(frozen=True)
class Answers(Result):
    """How one model answered one split of a question set; its classes are the letters."""

    unit: ClassVar[str] = "questions"


def labelled(tasks: Sequence[QuestionTask], split: str, limit: int | None, data: Data) -> list[Asked]:
    """The questions of every set, before any model is loaded; one without its answer is refused."""
    for task in tasks:
        task.check_split(split)
    found = [asked(task, split, limit, data) for task in tasks]
    for one in found:
        if one.labels is None:
            first = next(question for question in one.questions if question.answer is None)
            raise TaskError(
                f"{one.task.folder / one.task.files[split]}: line {first.line}: has no answer (null), so accuracy "
                "cannot be told; uncertainty can (`smelt select uq`)"
            )
    return found


def answer(
    model: ImageText, sets: Sequence[Asked], *, batch: int = 64, features: Features | None = None, quiet: bool = True
) -> list[Answers]:
    """The results of sets, whose labels are known. `features` of the model's tower may be shared by models."""
    seen = features if features is not None else Features()
    with Progress(quiet, "questions") as watch:
        return [_answer(model, one, batch, seen, watch) for one in sets]


def _answer(model: ImageText, one: Asked, batch: int, features: Features, watch: Progress) -> Answers:
    import numpy as np
    import torch

    began, labels = time.perf_counter(), one.labels
    assert labels is not None
    watch.begin(one.task.name, one.n)
    scores = option_logits(model, one, batch=batch, features=features, tell=watch.advance)
    loss = float(torch.nn.functional.cross_entropy(scores.double(), torch.from_numpy(labels)))
    confusion = np.zeros((one.width, one.width), dtype=np.int64)
    np.add.at(confusion, (labels, scores.argmax(dim=1).numpy()), 1)
    correct = int(confusion.trace())
    watch.end(f"{100 * correct / one.n:.1f} %")
    return Answers(
        one.task.name,
        one.task.version,
        one.split,
        one.n,
        correct,
        loss,
        time.perf_counter() - began,
        tuple(LETTERS[: one.width]),
        confusion,
    )
