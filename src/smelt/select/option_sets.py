"""Option sets: tasks in, sets of samples with options out, each of which any model of its family can be asked.

Three kinds of tasks have options. Of a question set they are the letters, and so they are of those tasks of lmms-eval
whose documents hold options; of a picture task, for a CLIP model, its classes. Pictures and the model are perturbed in
all. A text in front of a prompt has no meaning where a picture is told apart: it is left out there, with a note, and
the numbers are those of a perturbation without it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from smelt.errors import RecipeError
from smelt.evaluation.load import load_model
from smelt.runs.fingerprint import given_fingerprint
from smelt.tasks.perturbations.perturbation import Perturbation
from smelt.tasks.pictures.data_cache import DataCache
from smelt.tasks.pictures.task import PictureTask
from smelt.tasks.registry import Tasks, find_tasks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from smelt.tasks.task import Task

__all__ = ["OptionSet", "OptionSets", "open_option_sets"]


class OptionSet(Protocol):
    """Samples with options, of one split of one task."""

    @property
    def task(self) -> Any:
        """Where they come from."""

    @property
    def n(self) -> int:
        """How many samples."""

    @property
    def fingerprint(self) -> str:
        """What is asked, by its content."""

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """The right options, where they are known."""

    def logits(self, model: Any, perturbation: Perturbation | None, number: int) -> NDArray[np.float32]:
        """The option logits [n, options] of one pass, perturbed or plain; -inf where a sample has no such option."""


@dataclass(frozen=True)
class OptionSets:
    """What models are asked, and how they are perturbed."""

    sets: Sequence[OptionSet]
    perturbation: Perturbation | None
    """Nothing where only the plain answers are wanted."""
    split: str
    limit: int | None
    notes: tuple[str, ...]
    loading: dict[str, Any] = field(repr=False)

    @property
    def labelled(self) -> bool:
        """Whether every set has labels, so that accuracy can be told."""
        return all(one.labels is not None for one in self.sets)

    @property
    def text_fingerprint(self) -> str:
        """What the model that completes picture towers is, by its content; nothing where there is none."""
        return given_fingerprint(self.loading["text_from"], allow_pickle=self.loading["allow_pickle"])

    def load(self, model: Any) -> Any:
        """A model in memory, from a reference or a Source."""
        return load_model(model, self.sets[0].task, **self.loading)


def open_option_sets(
    tasks: Tasks,
    perturbation: Perturbation | None,
    *,
    split: str = "test",
    limit: int | None = None,
    batch: int = 64,
    data: DataCache | None = None,
    text_from: Any = None,
    device: str = "cpu",
    dtype: str = "float32",
    allow_pickle: bool = False,
) -> OptionSets:
    """Open the sets of tasks, all of one kind."""
    chosen = find_tasks(tasks)
    _check(chosen, split, text_from)
    data = data or DataCache()
    loading = {"text_from": text_from, "device": device, "dtype": dtype, "allow_pickle": allow_pickle}
    sets: list[OptionSet]
    notes: list[str] = []
    if chosen[0].kind == PictureTask.kind:
        from smelt.select.task_options import PictureOptions

        sets = [PictureOptions(PictureTask.of(task), split, limit, batch, data) for task in chosen]
        if perturbation is not None and perturbation.text:
            notes.append("texts are not perturbed: a picture task has no conversation to put one in front of")
            perturbation = dataclasses.replace(perturbation, text=False)
    else:
        from smelt.select.task_options import QuestionOptions
        from smelt.tasks.questions.feature_cache import FeatureCache
        from smelt.tasks.questions.lettered import LetteredTask

        seen = FeatureCache()
        sets = [QuestionOptions(cast(LetteredTask, task), split, limit, batch, data, seen) for task in chosen]
    return OptionSets(sets, perturbation, split, limit, tuple(notes), loading)


def _check(tasks: Sequence[Task], split: str, text_from: Any) -> None:
    without = [task for task in tasks if not task.has_options]
    if without:
        raise RecipeError(
            f"tasks: {without[0].name} is {without[0].called}, which has no options to be uncertain about; "
            "give question sets (mllm10), picture tasks (clip8) or tasks of lmms-eval with options (lmms:ai2d)"
        )
    pictures = [task.name for task in tasks if task.kind == PictureTask.kind]
    questions = [task.name for task in tasks if task.kind != PictureTask.kind]
    if pictures and questions:
        raise RecipeError(
            f"tasks: {questions[0]} is a question set and {pictures[0]} a picture task; no model does both"
        )
    if questions and text_from is not None:
        raise RecipeError("text_from: completes picture towers; models that answer questions have their own texts")
    for task in tasks:
        task.check_split(split)
