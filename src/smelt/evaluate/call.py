"""The public call: `smelt.evaluate(model, tasks)` -> rows. The command `smelt eval` is this function."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError, SmeltError, unknown
from smelt.evaluate.classify import Result, evaluate_model
from smelt.evaluate.corruptions import Corruptions, SetName, read_corruptions
from smelt.evaluate.find import AnyTask, Tasks, find_tasks
from smelt.evaluate.language.run import Failure, ask, prepared
from smelt.evaluate.language.task import LanguageTask, check_limit
from smelt.evaluate.load import is_recipe, kind_of, load_model, merged_from
from smelt.evaluate.pictures import Data
from smelt.evaluate.provenance import command_for, row_of
from smelt.evaluate.questions.task import QuestionTask
from smelt.evaluate.row import Row, append_rows
from smelt.files.remote_code import takes_trust

if TYPE_CHECKING:
    from smelt.evaluate.language.result import LanguageResult
    from smelt.evaluate.questions.ask import Asked

__all__ = ["Evaluation", "TasksFailed", "evaluate", "evaluation", "row_of"]

_WORDS = (
    "split limit text_from batch device dtype threads quiet data out allow_pickle trust_remote_code".split()
    + "corruption corrupted_by".split()
)


@dataclass(frozen=True)
class Evaluation:
    """The rows of one model (a row per corruption and task), and the results behind them with their confusions."""

    rows: list[Row]
    results: Sequence[Result | LanguageResult]
    seconds: float
    failures: tuple[Failure, ...] = ()
    """Tasks answered in words that could not be asked; the others were."""

    @property
    def accuracy(self) -> float:
        """The mean over tasks."""
        return sum(row.accuracy for row in self.rows) / len(self.rows)

    @property
    def loss(self) -> float | None:
        """The mean over tasks; None where a task has none."""
        losses = [row.loss for row in self.rows if row.loss is not None]
        return sum(losses) / len(losses) if len(losses) == len(self.rows) else None

    @property
    def domains(self) -> dict[str, float]:
        """The mean score over the tasks of every domain, where tasks have one."""
        found: dict[str, list[float]] = {}
        for result in self.results:
            domain = getattr(result, "domain", None)
            if domain is not None:
                found.setdefault(domain, []).append(result.accuracy)
        return {domain: sum(scores) / len(scores) for domain, scores in found.items()}


class TasksFailed(SmeltError):
    """Some tasks could not be asked. `rows` holds those of the others."""

    def __init__(self, failures: Sequence[Failure], rows: Sequence[Row] = ()):
        self.failures, self.rows = tuple(failures), tuple(rows)
        total = len(failures) + len(rows)
        body = "".join(f"\n  - {one.error}" for one in failures)
        super().__init__(f"{len(failures)} of {total} tasks could not be asked:{body}")


def evaluate(model: Any, tasks: Tasks = "clip8", *, out: str | Path | None = None, **words: Any) -> list[Row]:
    """Evaluate one model: one row per task, appended to the file `out` if it is given.

    `model` is a reference (a path, `zoo:name`, `hf:org/name`), a module or a state dict, or the path of a recipe, which
    is merged first; a state dict and a model that is a picture tower alone need `text_from`, the model with the rest.
    Other words: `split` ("test"), `limit` (a fixed part of each split, the same for every model), `batch` (256),
    `device` ("cpu"), `dtype` ("float32"), `threads`, `quiet`, `data` (pictures shared by several calls), `allow_pickle`
    (False: references to `.bin` and `.pt` files are refused), `trust_remote_code` (False: Python that comes with the
    model or a task is refused), `corruption` (`"motion_blur@3"`, done to the stored pictures; of several, with
    `"clean"` for none, each gives its own rows), `corrupted_by` (the numbers that a severity stands for: "cifar_c", or
    "imagenet_c"), and those of the row (`suite`, `entry`).

    Where some language tasks cannot be asked the others still are; then `TasksFailed` is raised, which has their rows.
    """
    done = evaluation(model, tasks, **words)
    if out is not None:
        append_rows(out, done.rows)
    if done.failures:
        raise TasksFailed(done.failures, done.rows)
    return done.rows


@takes_trust
def evaluation(
    model: Any,
    tasks: Tasks = "clip8",
    *,
    split: str = "test",
    limit: int | None = None,
    text_from: Any = None,
    batch: int = 256,
    device: str = "cpu",
    dtype: str = "float32",
    threads: int | None = None,
    quiet: bool = True,
    data: Data | None = None,
    allow_pickle: bool = False,
    trust_remote_code: bool = False,
    corruption: Corruptions = None,
    corrupted_by: SetName = "cifar_c",
    **about: Any,
) -> Evaluation:
    """What `evaluate` does, with the results behind the rows, the time it took, and the tasks that failed."""
    began = time.perf_counter()
    strange = sorted(about.keys() - Row.model_fields.keys())
    if strange:
        raise RecipeError(unknown("word of an evaluation", strange[0], [*_WORDS, *Row.model_fields]))
    chosen, corruptions = find_tasks(tasks), read_corruptions(corruption, corrupted_by)
    kind = kind_of(chosen)
    ready, failures = _prepared(chosen, split, limit, corruptions)
    data = data or Data()
    sets = _labelled(chosen, split, limit, data, corruptions) if kind == "questions" else []
    with ExitStack() as stack:
        if is_recipe(model):
            made = merged_from(model, threads=threads, quiet=quiet, **({"allow_pickle": True} if allow_pickle else {}))
            about = {"model": str(model), "entry": Path(model).stem, "label": Path(model).stem, **about}
            model = stack.enter_context(made)
        loaded: Any = load_model(
            model, chosen, text_from=text_from, device=device, dtype=dtype, allow_pickle=allow_pickle
        )
        results: list[Any]
        if kind == "language":
            stack.enter_context(_threads(threads))
            results, more = ask(loaded, ready, limit=limit, rows=batch, quiet=quiet)
            failures = [*failures, *more]
        elif kind == "questions":
            from smelt.evaluate.lmms.run import ask_lmms
            from smelt.evaluate.questions.kept import Kept
            from smelt.evaluate.questions.run import answer

            stack.enter_context(_threads(threads))
            seen = data.beside(Kept).features(loaded.tower_hash)
            results = [*answer(loaded, sets, batch=batch, features=seen, quiet=quiet)]
            found, more = ask_lmms(loaded, ready, limit=limit, rows=batch, quiet=quiet)
            results, failures = [*results, *found], [*failures, *more]
        else:
            words: dict[str, Any] = {"split": split, "limit": limit, "batch": batch, "threads": threads, "quiet": quiet}
            results = [
                result
                for worse in corruptions
                for result in evaluate_model(loaded, chosen, data=data, corruption=worse, **words)
            ]
        if not results:
            raise failures[0].error if len(failures) == 1 else TasksFailed(failures)
        label = str(about.get("model", loaded.label))
        command = command_for(label, loaded, chosen, split, limit, text_from, allow_pickle, corruptions)
        rows = [row_of(result, loaded, **{"command": command, **about}) for result in results]
    return Evaluation(rows, results, time.perf_counter() - began, tuple(failures))


def _prepared(tasks: list[AnyTask], split: str, limit: int | None, corruptions: Any) -> Any:
    """Tasks that are answered in words, with their data; what goes wrong with all of them goes wrong here."""
    worded = [task for task in tasks if isinstance(task, LanguageTask)]
    if not worded:
        return [], []
    check_limit(limit)
    if corruptions != [None]:
        raise RecipeError("corruption: language tasks have no pictures to corrupt; leave it out")
    ready, failures = prepared(worded, split)
    if len(failures) == len(tasks):
        raise failures[0].error if len(failures) == 1 else TasksFailed(failures)
    return ready, failures


def _labelled(tasks: list[AnyTask], split: str, limit: int | None, data: Data, corruptions: Any) -> list[Asked]:
    from smelt.evaluate.questions.kept import Kept

    if corruptions != [None]:
        raise RecipeError("corruption: is done to tasks of pictures, not to question sets; leave it out")
    return data.beside(Kept).sets([task for task in tasks if isinstance(task, QuestionTask)], split, limit, data)


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """So many threads for torch's own arithmetic, in here."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
