"""Loading a model for tasks: a classifier for pictures, a language model for language; a mismatch is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError
from smelt.evaluate.find import AnyTask, Tasks, find_tasks
from smelt.evaluate.language.task import LanguageTask

if TYPE_CHECKING:
    from smelt.pool.families.family import Loaded

__all__ = ["are_language", "is_recipe", "load_model", "merged_from"]


def load_model(
    model: Any,
    tasks: Tasks,
    *,
    text_from: Any = None,
    device: str = "cpu",
    dtype: str = "float32",
    allow_pickle: bool = False,
) -> Loaded:
    """A model ready for these tasks, a Classifier or a CausalLM; one that is loaded is returned as it is.

    `text_from` completes a picture tower, or gives a language model in memory its config and tokenizer.
    """
    words: dict[str, Any] = {
        "text_from": text_from,
        "device": device,
        "dtype": dtype,
        "allow_pickle": allow_pickle,
    }
    speaks = hasattr(model, "tokenizer") and hasattr(model, "module")
    if not are_language(find_tasks(tasks)):
        if speaks:
            raise RecipeError(f"{model.label} is a language model, which tells no pictures apart; give language tasks")
        from smelt.evaluate.classify import load_classifier

        return load_classifier(model, **words)
    if hasattr(model, "logits") and hasattr(model, "head"):
        raise RecipeError(f"{model.label} is a model of pictures, which answers no questions; give tasks of pictures")
    from smelt.pool.families.causal_lm import load_causal_lm

    return load_causal_lm(model, **words)


def are_language(tasks: list[AnyTask]) -> bool:
    """Whether tasks are of language; both kinds at once are refused."""
    kinds = {isinstance(task, LanguageTask): task.name for task in tasks}
    if len(kinds) > 1:
        raise RecipeError(
            f"{kinds[True]} is a language task and {kinds[False]} one of pictures; "
            "no model does both, so evaluate them apart"
        )
    return True in kinds


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

    from smelt.api import merge

    with tempfile.TemporaryDirectory(prefix="smelt-eval-") as scratch:
        out = Path(scratch) / "merged"
        merge(Path(str(recipe).removeprefix("dir:")), out=out, **words)
        yield out
