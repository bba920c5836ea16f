"""Loading a model for tasks: of the one kind that they all ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError
from smelt.models.families.load import kind_of_loaded, load
from smelt.tasks.registry import Tasks, find_tasks
from smelt.tasks.task import Task

if TYPE_CHECKING:
    from smelt.models.families.family import LoadedModel

__all__ = ["DeferredModel", "load_model", "one_model_kind"]


@dataclass(frozen=True)
class _KindWords:
    """What messages say of the models of one kind and of the tasks that need them."""

    task: str
    tasks: str
    answer: str


_MODEL_KINDS = {
    "causal_lm": _KindWords("a language task", "language tasks", "is a language model, which tells no pictures apart"),
    "classifier": _KindWords(
        "a task of pictures", "tasks of pictures", "is a model of pictures, which answers no questions"
    ),
    "image_text": _KindWords(
        "a question set",
        "question sets",
        "is a model of pictures and texts, which answers questions by the letter of an option",
    ),
    "text_matcher": _KindWords(
        "a task of pairs or retrieval",
        "tasks of pairs or retrieval",
        "is an embedder or a cross-encoder, which says how well two texts match",
    ),
    "text_classifier": _KindWords(
        "a task of classes or preferences",
        "tasks of classes or preferences",
        "is a classifier of texts, which gives labels or scores",
    ),
}


@dataclass(frozen=True)
class DeferredModel:
    """A model that is made when the tasks are ready, and there as long as it is asked: what a recipe merges."""

    make: Callable[[], AbstractContextManager[Any]]
    """What gives the model."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What its rows say of it."""


def load_model(
    model: Any,
    tasks: Tasks,
    *,
    text_from: Any = None,
    device: str = "cpu",
    dtype: str = "float32",
    allow_pickle: bool = False,
) -> LoadedModel:
    """A model ready for these tasks: a Classifier, a CausalLM, an ImageText, a text matcher or a TextClassifier.

    One that is loaded is returned as it is.

    `text_from` completes a picture tower, or gives another model in memory its config, tokenizer and processor.
    """
    kind = one_model_kind(find_tasks(tasks))
    loaded = kind_of_loaded(model)
    if loaded not in (None, kind):
        known = _MODEL_KINDS[loaded]
        raise RecipeError(f"{model.label} {known.answer}; give {known.tasks}")
    found: LoadedModel = load(model, kind, text_from=text_from, device=device, dtype=dtype, allow_pickle=allow_pickle)
    return found


def one_model_kind(tasks: Sequence[Task]) -> str:
    """The kind of model that tasks need; several kinds at once are refused."""
    kinds = {task.model_kind: task for task in tasks}
    if len(kinds) > 1:
        (_, first), (_, second), *_ = sorted(kinds.items())
        other = _called(second).replace("a task of", "one of")
        raise RecipeError(
            f"{first.name} is {_called(first)} and {second.name} {other}; no model does both, so evaluate them apart"
        )
    return next(iter(kinds))


def _called(task: Task) -> str:
    known = _MODEL_KINDS.get(task.model_kind)
    return known.task if known else task.called
