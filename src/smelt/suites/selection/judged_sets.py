"""The sets of a suite, as models are judged by them: by the letters of options, or by answers in words.

Either way every answer has a score from 0 to 1, which is kept in the store, so that no model is asked twice.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from smelt.errors import RecipeError
from smelt.select.option_sets import OptionSet, open_option_sets
from smelt.select.scores import Scorer
from smelt.suites.selection.paired import picture_names
from smelt.system.progress import Progress
from smelt.tasks.pictures.data_cache import DataCache
from smelt.tasks.questions.records import LETTERS
from smelt.tasks.registry import find_tasks
from smelt.tasks.result import Result, choice_result
from smelt.tasks.task import Task, TaskError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.select.logit_store import LogitStore
    from smelt.tasks.lmms.ask import PreparedLmms

__all__ = ["JudgedSet", "LetteredSet", "WrittenSet", "judged_sets"]

Load = Callable[[], Any]
_BATCH = 64


class JudgedSet(Protocol):
    """One split of one task."""

    @property
    def task(self) -> Any: ...
    @property
    def n(self) -> int:
        """How many questions."""

    @property
    def pictures(self) -> list[str]:
        """What names the picture of every question; sets may share some."""

    def known(self, identity: str) -> NDArray[np.float64] | None:
        """The score of every answer of a model [n], where it was asked."""

    def result(self, identity: str, load: Load) -> Result:
        """What an evaluation of the same model gives; it is made and loaded if it was not asked before."""


def judged_sets(
    tasks: Sequence[str], split: str, how: Mapping[str, Any], store: LogitStore
) -> tuple[list[JudgedSet], Scorer | None]:
    """The sets of tasks in their order, and who asks those by letters; `how` are words of `open_option_sets`."""
    chosen = find_tasks(tasks)
    lettered = [task for task in chosen if task.answered_by_option]
    scorer = Scorer(open_option_sets(lettered, None, split=split, **how), store) if lettered else None
    by_letters = iter([LetteredSet(scorer, one) for one in scorer.option_sets.sets] if scorer else [])
    return [next(by_letters) if one in lettered else WrittenSet(one, split, how, store) for one in chosen], scorer


class LetteredSet:
    """The letter with the highest score is a model's answer."""

    def __init__(self, scorer: Scorer, one: OptionSet):
        self.task, self.option_set, self._scorer = one.task, one, scorer

    @property
    def n(self) -> int:
        return self.option_set.n

    @functools.cached_property
    def pictures(self) -> list[str]:
        return picture_names(self.task, self._scorer.option_sets.split, self._scorer.option_sets.limit)

    def known(self, identity: str) -> NDArray[np.float64] | None:
        found = self._scorer.store.read(self._scorer.words(identity, self.option_set, None))
        return None if found is None else self._right(found[:, 0])

    def result(self, identity: str, load: Load) -> Result:
        began = time.perf_counter()
        scores = self._scorer.logits(identity, self.option_set, None, load)[:, 0]
        labels, values = self.option_set.labels, scores.astype(np.float64)
        assert labels is not None
        shifted = values - values.max(axis=1, keepdims=True)
        chances = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        loss = -float(chances[np.arange(self.n), labels].mean())
        letters, split = LETTERS[: scores.shape[1]], self._scorer.option_sets.split
        seconds = time.perf_counter() - began
        return choice_result(self.task, split, labels, scores.argmax(axis=1), letters, loss, seconds=seconds)

    def _right(self, logits: NDArray[np.float32]) -> NDArray[np.float64]:
        right: NDArray[np.bool_] = logits.argmax(axis=1) == self.option_set.labels
        return right.astype(np.float64)


class WrittenSet:
    """A model writes its answers, and the task's own scoring judges them: a task of lmms-eval."""

    def __init__(self, task: Task, split: str, how: Mapping[str, Any], store: LogitStore):
        if task.model_kind != "image_text":
            raise RecipeError(
                f"{task.name} is {task.called}; a suite of models of pictures and texts asks about pictures"
            )
        task.check_split(split)
        self.task, self._split, self._how, self._store = task, split, how, store

    @functools.cached_property
    def _ready(self) -> PreparedLmms:
        from smelt.tasks.lmms.ask import PreparedLmms

        ready = self.task.prepare(self._split, limit=self._how["limit"], data=DataCache())
        assert isinstance(ready, PreparedLmms)
        return ready

    @functools.cached_property
    def n(self) -> int:
        limit = self._how["limit"]
        counts = [len(part.eval_docs) for part in self._ready.parts.values()]
        return sum(count if limit is None else min(limit, count) for count in counts)

    @property
    def pictures(self) -> list[str]:
        """Every document has one of its own, as far as its columns tell."""
        return [f"{self.task.reference} {number}" for number in range(self.n)]

    def known(self, identity: str) -> NDArray[np.float64] | None:
        found = self._store.read(self._words(identity))
        if found is None:
            return None
        scores: NDArray[np.float64] = found[:, 0, 0].astype(np.float64)
        return scores.round(6)

    def result(self, identity: str, load: Load) -> Result:
        began = time.perf_counter()
        scores = self.known(identity)
        if scores is None:
            found = self._ready.ask(load(), batch=_BATCH, threads=None, watch=Progress(quiet=True))
            if found.n != self.n:
                raise TaskError(
                    f"{self.task.reference}: its score is about {found.n} of {self.n} examples; all are wanted"
                )
            scores = np.asarray(found.scores, dtype=np.float64)
            self._store.write(self._words(identity), scores.astype(np.float32)[:, None, None])
        seconds = time.perf_counter() - began
        return self._ready.result([float(one) for one in scores], [], seconds=seconds, unit="question")

    def _words(self, identity: str) -> dict[str, Any]:
        """What the store knows the scores by."""
        return {
            "written": 1,
            "model": identity,
            "set": self.task.name,
            "version": self.task.fingerprint(),
            "split": self._split,
            "limit": self._how["limit"],
            "device": str(self._how["device"]).split(":")[0],
            "dtype": self._how["dtype"],
        }
