"""`smelt.evaluate`: evaluations where a recipe or a server's address may stand for a model.

A recipe is merged first, into a folder for a while. What a server can do is found out when the tasks are ready.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from smelt.errors import RecipeError
from smelt.evaluation.evaluate import Evaluation, TasksFailed, evaluate_model
from smelt.evaluation.load import DeferredModel
from smelt.evaluation.row import Rows, append_rows
from smelt.files.writing import check_writable
from smelt.models.served.model import ServedModel, is_url, open_served
from smelt.tasks.registry import Tasks

__all__ = ["evaluate", "evaluate_model_or_recipe", "merged_from"]

_DECIDED_THERE = {"device": "cpu", "dtype": "float32"}
"""Words of a model in memory that a server has no part in, with their defaults."""


def evaluate(
    where: Any = None,
    /,
    tasks: Tasks = "clip8",
    *,
    model: Any = None,
    key_env: str | None = None,
    timeout: float | None = None,
    out: str | Path | None = None,
    **words: Any,
) -> Rows:
    """Evaluate one model: one row per task, appended to the file `out` if it is given.

    The rows are a list that shows itself as a table; added to those of another model (`a + b`) they are compared.

    `where` is a reference (a path, `zoo:name`, `hf:org/name`), a module or a state dict, or the path of a recipe, which
    is merged first; a state dict and a model that is a picture tower alone need `text_from`, the model with the rest.
    Of a server that speaks OpenAI's protocol it is the address, `"http://host:8000/v1"`; then `model` is the name of
    the model there, `key_env` the environment variable with the key, `timeout` the seconds that one answer may take,
    and `threads` the number of requests under way at a time. Everything else may be given as `model`, too.
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
    if where is None:
        where, model = model, None
    done = evaluate_model_or_recipe(where, tasks, served_name=model, key_env=key_env, timeout=timeout, **words)
    if out is not None:
        append_rows(out, done.rows)
    if done.failures:
        raise TasksFailed(done.failures, done.rows)
    return Rows(done.rows)


def evaluate_model_or_recipe(
    model: Any,
    tasks: Tasks = "clip8",
    *,
    served_name: str | None = None,
    key_env: str | None = None,
    timeout: float | None = None,
    **words: Any,
) -> Evaluation:
    """What `evaluate` does, with the results behind the rows, the time it took, and the tasks that failed."""
    of_server = {"model": served_name, "key_env": key_env, "timeout": timeout}
    given = {word: value for word, value in of_server.items() if value is not None}
    if is_url(model):
        return evaluate_model(_asked_there(model, given, words), tasks, **words)
    if given:
        raise RecipeError(f"{', '.join(given)}: said of a model that a server holds; {model} is not its address")
    return evaluate_model(_merged_first(model, words), tasks, **words)


def _asked_there(url: str, given: Mapping[str, Any], words: Mapping[str, Any]) -> DeferredModel:
    """The model behind a URL; what it can do is found out when the tasks are ready."""
    for word, usual in _DECIDED_THERE.items():
        if words.get(word, usual) != usual:
            raise RecipeError(f"{word}: {url} is a server, which decides that itself; leave it out")

    @contextmanager
    def make() -> Iterator[ServedModel]:
        more = {word: value for word, value in given.items() if word != "model"}
        yield open_served(url, given.get("model"), text_from=words.get("text_from"), **more)

    return DeferredModel(make)


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
