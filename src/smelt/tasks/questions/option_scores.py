"""A part of a question set, and its questions put to a model: the scores of the option letters where an answer begins.

Questions whose prompts have the same number of tokens are asked together, without filling, so that what is computed for
one does not depend on the others. A perturbed pass draws from a seed of (set and split, sample, pass), so every model
sees the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from smelt.errors import NumericalError, RecipeError
from smelt.tasks.questions.feature_cache import FeatureCache
from smelt.tasks.questions.prompts import PromptCache, letter_tokens
from smelt.tasks.questions.records import Question, options_of, prompt_of
from smelt.tasks.task import check_limit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from smelt.models.families.image_text.model import ImageText
    from smelt.tasks.perturbations.perturbation import Perturbation
    from smelt.tasks.pictures.data_cache import DataCache
    from smelt.tasks.questions.lettered import LetteredTask, PictureReader

__all__ = ["QuestionSubset", "option_logits", "question_subset"]


@dataclass(frozen=True)
class QuestionSubset:
    """Some questions of one split of a set, in their order."""

    task: LetteredTask
    split: str
    samples: NDArray[np.int64]
    """The number of each question in its split."""
    questions: Sequence[Question] = field(repr=False)
    width: int
    """The most letters that a question of the split has."""
    pictures: PictureReader = field(repr=False)
    rendered: PromptCache = field(default_factory=PromptCache, repr=False, compare=False)
    """The prompts as tokens, for all models that are asked."""

    @property
    def n(self) -> int:
        return len(self.questions)

    @property
    def widths(self) -> NDArray[np.int64]:
        """The letters of each question."""
        import numpy as np

        return np.array([len(options_of(one, self.task.extra)) for one in self.questions], dtype=np.int64)

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """The right letters; nothing where one of them is not known."""
        import numpy as np

        answers = [one.answer for one in self.questions]
        return None if None in answers else np.array(answers, dtype=np.int64)

    @property
    def texts(self) -> list[str]:
        """The prompts, before any chat template."""
        return [prompt_of(one, self.task.extra, self.task.instruction) for one in self.questions]

    def place(self, number: int) -> tuple[str, int, str, int]:
        """What names the picture of a question."""
        return self.task.reference, self.task.version, self.split, int(self.samples[number])


def question_subset(
    task: LetteredTask, split: str, limit: int | None = None, data: DataCache | None = None
) -> QuestionSubset:
    """A split of a set, or a fixed part of it that is the same for every model; a smaller part lies in a larger one."""
    import numpy as np

    from smelt.tasks.pictures.data_cache import DataCache
    from smelt.tasks.subset import fixed_subset

    check_limit(limit)
    found = task.questions(split)
    samples = fixed_subset(np.zeros(len(found), dtype=np.int64), limit, f"{task.name}/{split}")
    some = [found[number] for number in samples]
    pictures = task.pictures(split, some, data or DataCache())
    return QuestionSubset(task, split, samples, some, max(len(options_of(one, task.extra)) for one in found), pictures)


def option_logits(
    model: ImageText,
    subset: QuestionSubset,
    *,
    perturbation: Perturbation | None = None,
    number: int = 0,
    batch: int = 64,
    features: FeatureCache | None = None,
    tell: Callable[[int], None] = lambda done: None,
) -> Tensor:
    """Scores [n, letters] in float32 of the letters of every question; -inf where a question has no such letter.

    The plain pass, or pass `number` of those of a `perturbation`. `features` may be shared by models and calls; `tell`
    hears how many questions were answered.
    """
    import torch

    from smelt.tasks.perturbations.dropout import attention_dropout

    if batch < 1:
        raise RecipeError(f"batch is a number of questions, at least 1; got {batch}")
    pass_ = _QuestionPass(subset, perturbation, number)
    chat, prompts = subset.rendered.of(model, lambda: subset.texts, pass_.draw, pass_.prefixes)
    letters = torch.tensor(letter_tokens(model, chat)[: subset.width], device=model.device)
    seen = features if features is not None else FeatureCache()
    scores = torch.full((subset.n, subset.width), -torch.inf)
    for places in _alike([len(prompt) for prompt in prompts], batch):
        pictures = seen.of(model, pass_.pictures(places))
        with attention_dropout(model.language, pass_.rate, [pass_.seeds[one] for one in places]):
            answers = model.scores([prompts[one] for one in places], pictures)
        scores[places] = answers[:, letters].cpu()
        tell(len(places))
    absent = torch.arange(subset.width) >= torch.from_numpy(subset.widths)[:, None]
    if not bool(torch.isfinite(scores[~absent]).all()):
        raise NumericalError(
            f"{model.label} gives NaN or infinite scores on {subset.task.name}; its weights are not sound"
        )
    return scores.masked_fill(absent, -torch.inf)


class _QuestionPass:
    """What one pass does to every question."""

    def __init__(self, subset: QuestionSubset, perturbation: Perturbation | None, number: int):
        self._subset, self._perturbation = subset, perturbation
        if perturbation is not None and not 0 <= number < perturbation.passes:
            raise RecipeError(f"there is no pass {number}: the perturbation has {perturbation.passes}, counted from 0")
        place = f"{subset.task.name}/{subset.split}"
        self.seeds = [perturbation.seed_of(place, int(s), number) if perturbation else 0 for s in subset.samples]
        self.rate = perturbation.rate if perturbation else 0.0
        worded = perturbation if perturbation is not None and perturbation.text else None
        self.prefixes = [worded.prefix(seed) for seed in self.seeds] if worded else None
        self.draw = (worded.seed, number) if worded else None
        """What the prefixes follow from."""

    def pictures(self, numbers: Sequence[int]) -> list[tuple[Hashable, Callable[[], NDArray[np.uint8]]]]:
        """The pictures of questions: what names each, and how it is read where it is not known."""
        changed = self._perturbation is not None and self._perturbation.image
        return [
            ((*self._subset.place(one), self.seeds[one] if changed else None), functools.partial(self._picture, one))
            for one in numbers
        ]

    def _picture(self, number: int) -> NDArray[np.uint8]:
        pixels = self._subset.pictures.read(self._subset.questions[number].picture)
        return pixels if self._perturbation is None else self._perturbation.picture(pixels, self.seeds[number])


def _alike(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Numbers of prompts of one length, at most so many at once; short ones first."""
    groups: dict[int, list[int]] = {}
    for number, length in enumerate(lengths):
        groups.setdefault(length, []).append(number)
    for _, members in sorted(groups.items()):
        for start in range(0, len(members), most):
            yield members[start : start + most]
