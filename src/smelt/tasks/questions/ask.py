"""A question set on one model: the letter with the highest score is its answer, without any perturbation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from smelt.system.progress import Progress, Unit
from smelt.system.threads import some_threads
from smelt.tasks.questions.option_scores import QuestionSubset, option_logits
from smelt.tasks.questions.prompt import LETTERS
from smelt.tasks.result import Result, choice_result
from smelt.tasks.task import PreparedTask, TaskError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from smelt.models.families.image_text.model import ImageText
    from smelt.tasks.questions.cache import QuestionCache
    from smelt.tasks.questions.task import QuestionTask

__all__ = ["PreparedQuestions"]


@dataclass(frozen=True)
class PreparedQuestions(PreparedTask):
    """Questions whose answers are known; `cache` has what vision towers saw in their pictures."""

    subset: QuestionSubset
    cache: QuestionCache

    counts: ClassVar[Unit] = "questions"

    @property
    def task(self) -> QuestionTask:
        return self.subset.task

    @property
    def split(self) -> str:
        return self.subset.split

    @property
    def labels(self) -> NDArray[np.int64]:
        """The right letters [n]; one that is not known is refused."""
        labels = self.subset.labels
        if labels is None:
            first = next(question for question in self.subset.questions if question.answer is None)
            raise TaskError(
                f"{self.task.folder / self.task.files[self.split]}: line {first.line}: has no answer (null), so "
                "accuracy cannot be told; uncertainty can (`smelt select uq`)"
            )
        return labels

    def ask(self, model: ImageText, *, batch: int, threads: int | None, watch: Progress) -> Result:
        import torch

        watch.begin(self.task.name, self.subset.n)
        with some_threads(threads):
            seen = self.cache.features(model.tower_hash)
            scores = option_logits(model, self.subset, batch=batch, features=seen, tell=watch.advance)
        labels = self.labels
        loss = float(torch.nn.functional.cross_entropy(scores.double(), torch.from_numpy(labels)))
        letters = LETTERS[: self.subset.width]
        return choice_result(self.task, self.split, labels, scores.argmax(dim=1).numpy(), letters, loss)
