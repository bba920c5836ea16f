"""Loading a model for tasks: one that tells pictures apart, that writes, or that answers about pictures; no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from smelt.errors import RecipeError
from smelt.tasks.find import AnyTask, Tasks, find_tasks
from smelt.tasks.language.task import LanguageTask
from smelt.tasks.lmms.task import LmmsTask
from smelt.tasks.questions.task import QuestionTask

if TYPE_CHECKING:
    from smelt.models.families.family import Loaded

__all__ = ["Kind", "are_language", "is_recipe", "kind_of", "load_model", "merged_from"]

Kind: TypeAlias = Literal["language", "pictures", "questions"]

_A: dict[Kind, str] = {"language": "a language task", "pictures": "one of pictures", "questions": "a question set"}
_NAMED: dict[Kind, str] = {"language": "language tasks", "pictures": "tasks of pictures", "questions": "question sets"}
_IS: dict[Kind, str] = {
    "language": "is a language model, which tells no pictures apart",
    "pictures": "is a model of pictures, which answers no questions",
    "questions": "is a model of pictures and texts, which answers questions by the letter of an option",
}


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
    kind = kind_of(find_tasks(tasks))
    loaded = _is_loaded_as(model)
    if loaded not in (None, kind):
        raise RecipeError(f"{model.label} {_IS[loaded]}; give {_NAMED[loaded]}")
    if kind == "pictures":
        from smelt.evaluation.classify import load_classifier

        return load_classifier(model, **words)
    if kind == "questions":
        from smelt.models.families.image_text.family import load_image_text

        return load_image_text(model, **words)
    from smelt.models.families.causal_lm.family import load_causal_lm

    return load_causal_lm(model, **words)


def kind_of(tasks: Sequence[AnyTask]) -> Kind:
    """What tasks are of; several kinds at once are refused."""
    kinds: dict[Kind, str] = {_kind(task): task.name for task in tasks}
    if len(kinds) > 1:
        (one, first), (other, second), *_ = sorted(kinds.items())
        what = _A[one].replace("one of", "a task of")
        raise RecipeError(f"{first} is {what} and {second} {_A[other]}; no model does both, so evaluate them apart")
    return next(iter(kinds))


def are_language(tasks: Sequence[AnyTask]) -> bool:
    """Whether tasks are of language."""
    return kind_of(tasks) == "language"


def _kind(task: AnyTask) -> Kind:
    if isinstance(task, QuestionTask | LmmsTask):
        return "questions"
    return "language" if isinstance(task, LanguageTask) else "pictures"


def _is_loaded_as(model: Any) -> Kind | None:
    """What a model in memory was loaded for; nothing for one that is still to be loaded."""
    if hasattr(model, "tokenizer") and hasattr(model, "module"):
        return "questions" if hasattr(model, "tower_hash") else "language"
    return "pictures" if hasattr(model, "logits") and hasattr(model, "head") else None


def is_recipe(model: Any) -> bool:
    """Whether a reference is the file of a recipe, to be merged before it is evaluated."""
    if not isinstance(model, str | Path):
        return False
    path = Path(str(model).removeprefix("dir:"))
    return path.suffix in (".yaml", ".yml") and path.is_file()


@contextmanager
def merged_from(recipe: str | Path, **words: Any) -> Iterator[Path]:
    """The folder of the model that a recipe makes, there as long as it is needed; `words` are those of a merge."""
    import tempfile

    from smelt.prepare.merge import merge

    with tempfile.TemporaryDirectory(prefix="smelt-eval-") as scratch:
        out = Path(scratch) / "merged"
        merge(Path(str(recipe).removeprefix("dir:")), out=out, **words)
        yield out
