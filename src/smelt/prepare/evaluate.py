"""`smelt.evaluate`: evaluations where a recipe may stand for a model; it is merged first, into a folder for a while."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from smelt.evaluation.evaluate import Evaluation, TasksFailed, evaluate_model
from smelt.evaluation.load import DeferredModel
from smelt.evaluation.row import Rows, append_rows
from smelt.files.writing import check_writable
from smelt.tasks.registry import Tasks

__all__ = ["evaluate", "evaluate_model_or_recipe", "merged_from"]


def evaluate(model: Any, tasks: Tasks = "clip8", *, out: str | Path | None = None, **words: Any) -> Rows:
    """Evaluate one model: one row per task, appended to the file `out` if it is given.

    The rows are a list that shows itself as a table; added to those of another model (`a + b`) they are compared.

    `model` is a reference (a path, `zoo:name`, `hf:org/name`), a module or a state dict, or the path of a recipe, which
    is merged first; a state dict and a model that is a picture tower alone need `text_from`, the model with the rest.
    Other words: `split` ("test"), `limit` (a fixed part of each split, the same for every model), `batch` (256),
    `device` ("cpu"), `dtype` ("float32"), `threads`, `quiet`, `data` (pictures shared by several calls), `allow_pickle`
    (False: references to `.bin` and `.pt` files are refused), `trust_remote_code` (False: Python that comes with the
    model or a task is refused), `corruption` (`"motion_blur@3"`, done to the stored pictures; of several, with
    `"clean"` for none, each gives its own rows), `corrupted_by` (the numbers that a severity stands for: "cifar_c", or
    "imagenet_c"), `level` (of a folder that `smelt.neulig` wrote: "merged", "ensembled" or "both", each with its own
    rows), and those of the row (`suite`, `entry`).

    Where some language tasks cannot be asked the others still are; then `TasksFailed` is raised, which has their rows.
    """
    if out is not None:
        check_writable(Path(out), "the rows cannot be written")
    done = evaluate_model_or_recipe(model, tasks, **words)
    if out is not None:
        append_rows(out, done.rows)
    if done.failures:
        raise TasksFailed(done.failures, done.rows)
    return Rows(done.rows)


def evaluate_model_or_recipe(model: Any, tasks: Tasks = "clip8", **words: Any) -> Evaluation:
    """What `evaluate` does, with the results behind the rows, the time it took, and the tasks that failed."""
    return evaluate_model(_merged_first(model, words), tasks, **words)


def _merged_first(model: Any, words: dict[str, Any]) -> Any:
    """The model, or the merge that a recipe stands for, which is done when the tasks are ready."""
    if not isinstance(model, str | Path):
        return model
    path = Path(str(model).removeprefix("dir:"))
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return model
    own: dict[str, Any] = {word: words[word] for word in ("threads", "quiet") if word in words}
    own |= {"allow_pickle": True} if words.get("allow_pickle") else {}
    about = {"model": str(model), "entry": path.stem, "label": path.stem}
    return DeferredModel(lambda: merged_from(path, **own), about)


@contextmanager
def merged_from(recipe: Path, **words: Any) -> Iterator[Path]:
    """The folder of the model that a recipe makes, there as long as it is needed; `words` are those of a merge."""
    from smelt.prepare.merge import merge

    with tempfile.TemporaryDirectory(prefix="smelt-eval-") as scratch:
        out = Path(scratch) / "merged"
        merge(recipe, out=out, **words)
        yield out
