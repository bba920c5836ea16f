"""Loading a model for tasks: one that tells pictures apart, that writes, or that answers about pictures; no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError
from smelt.tasks.registry import Tasks, find_tasks
from smelt.tasks.task import Task

if TYPE_CHECKING:
    from smelt.models.families.family import Classifier, Loaded

__all__ = ["LaterModel", "load_classifier", "load_model", "one_model_kind"]


@dataclass(frozen=True)
class _ModelKind:
    """What messages say of the models of one kind and of the tasks that need them."""

    task: str
    tasks: str
    answer: str


_MODEL_KINDS = {
    "causal_lm": _ModelKind("a language task", "language tasks", "is a language model, which tells no pictures apart"),
    "classifier": _ModelKind(
        "a task of pictures", "tasks of pictures", "is a model of pictures, which answers no questions"
    ),
    "image_text": _ModelKind(
        "a question set",
        "question sets",
        "is a model of pictures and texts, which answers questions by the letter of an option",
    ),
}


@dataclass(frozen=True)
class LaterModel:
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
) -> Loaded:
    """A model ready for these tasks: a Classifier, a CausalLM or an ImageText; one that is loaded is returned as it is.

    `text_from` completes a picture tower, or gives another model in memory its config, tokenizer and processor.
    """
    words: dict[str, Any] = {
        "text_from": text_from,
        "device": device,
        "dtype": dtype,
        "allow_pickle": allow_pickle,
    }
    kind = one_model_kind(find_tasks(tasks))
    loaded = _loaded_as(model)
    if loaded not in (None, kind):
        known = _MODEL_KINDS[loaded]
        raise RecipeError(f"{model.label} {known.answer}; give {known.tasks}")
    if kind == "classifier":
        return load_classifier(model, **words)
    if kind == "image_text":
        from smelt.models.families.image_text.family import load_image_text

        return load_image_text(model, **words)
    from smelt.models.families.causal_lm.family import load_causal_lm

    return load_causal_lm(model, **words)


def load_classifier(
    model: Any, *, text_from: Any = None, device: str = "cpu", dtype: str = "float32", allow_pickle: bool = False
) -> Classifier:
    """A model ready to classify; one that is loaded already is returned as it is."""
    if hasattr(model, "logits") and hasattr(model, "head"):
        loaded: Classifier = model
        return loaded
    from smelt.mixing.mix_note import is_mixed

    if is_mixed(model):
        from smelt.mixing.classifier import load_mixed

        return load_mixed(model, text_from=text_from, device=device, dtype=dtype, allow_pickle=allow_pickle)
    from smelt.learning.neulig.note import is_collaboration

    if is_collaboration(model):
        from smelt.learning.neulig.classifier import load_collaboration

        if text_from is not None:
            raise RecipeError(f"{model}: a collaboration has the text tower of its own base; leave text_from out")
        return load_collaboration(model, device=device, dtype=dtype)
    from smelt.models.families.clip.family import CLIP

    return CLIP.load(model, text_from=text_from, device=device, dtype=dtype, allow_pickle=allow_pickle)


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


def _loaded_as(model: Any) -> str | None:
    """What a model in memory was loaded for; nothing for one that is still to be loaded."""
    if hasattr(model, "tokenizer") and hasattr(model, "module"):
        return "image_text" if hasattr(model, "tower_hash") else "causal_lm"
    return "classifier" if hasattr(model, "logits") and hasattr(model, "head") else None
