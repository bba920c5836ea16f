"""The public call: `smelt.evaluate(model, tasks)` -> rows. The command `smelt eval` is this function."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from smelt.errors import RecipeError, SmeltError, unknown
from smelt.evaluation.classify import Result, evaluate_model
from smelt.evaluation.language.run import Failure, ask, prepared
from smelt.evaluation.load import is_recipe, kind_of, load_model, merged_from
from smelt.evaluation.provenance import command_for, row_of
from smelt.evaluation.row import Level, Row, append_rows
from smelt.files.remote_code import takes_trust
from smelt.tasks.corruptions import Corruptions, SetName, read_corruptions
from smelt.tasks.find import AnyTask, Tasks, find_tasks
from smelt.tasks.language.task import LanguageTask, check_limit
from smelt.tasks.pictures.data import Data
from smelt.tasks.questions.task import QuestionTask

if TYPE_CHECKING:
    from smelt.evaluation.language.result import LanguageResult
    from smelt.evaluation.questions.ask import Asked

__all__ = ["Average", "Evaluation", "TasksFailed", "evaluate", "evaluation", "row_of"]

_WORDS = (
    "split limit text_from batch device dtype threads quiet data out allow_pickle trust_remote_code".split()
    + "corruption corrupted_by level".split()
)


@dataclass(frozen=True)
class Average:
    """The plain mean over the tasks of one condition; the loss is None where a task has none."""

    level: Level | None
    corruption: str | None
    n: int
    accuracy: float
    loss: float | None

    @classmethod
    def over(cls, rows: Sequence[Row], level: Level | None, corruption: str | None) -> Average:
        losses = [row.loss for row in rows if row.loss is not None]
        loss = sum(losses) / len(losses) if len(losses) == len(rows) else None
        accuracy = sum(row.accuracy for row in rows) / len(rows)
        return cls(level, corruption, sum(row.n for row in rows), accuracy, loss)


@dataclass(frozen=True)
class Evaluation:
    """The rows of one model (one per level, corruption and task), and the results behind them with their confusions."""

    rows: list[Row]
    results: Sequence[Result | LanguageResult]
    seconds: float
    failures: tuple[Failure, ...] = ()
    """Tasks answered in words that could not be asked; the others were."""

    @property
    def averages(self) -> list[Average]:
        """One for each condition that the tasks were asked under: clean and corrupted pictures are never averaged."""
        found: dict[tuple[Level | None, str | None], list[Row]] = {}
        for row in self.rows:
            found.setdefault((row.level, row.corruption), []).append(row)
        return [Average.over(rows, *condition) for condition, rows in found.items()]

    @property
    def gaps(self) -> dict[str | None, float]:
        """|Mer. - Ens.| of the two averages, by corruption, where a collaboration was asked at both levels."""
        by_level: dict[str | None, dict[Level | None, float]] = {}
        for one in self.averages:
            by_level.setdefault(one.corruption, {})[one.level] = one.accuracy
        return {
            corruption: abs(at["merged"] - at["ensembled"])
            for corruption, at in by_level.items()
            if "merged" in at and "ensembled" in at
        }

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
    "imagenet_c"), `level` (of a folder that `smelt.neulig` wrote: "merged", "ensembled" or "both", each with its own
    rows), and those of the row (`suite`, `entry`).

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
    level: Level | Literal["both"] | None = None,
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
        levels = _at_levels(loaded, level)
        results: list[Any]
        if kind == "language":
            stack.enter_context(_threads(threads))
            results, more = ask(loaded, ready, limit=limit, rows=batch, quiet=quiet)
            failures = [*failures, *more]
        elif kind == "questions":
            from smelt.evaluation.lmms.run import ask_lmms
            from smelt.evaluation.questions.kept import Kept
            from smelt.evaluation.questions.run import answer

            stack.enter_context(_threads(threads))
            seen = data.beside(Kept).features(loaded.tower_hash)
            results = [*answer(loaded, sets, batch=batch, features=seen, quiet=quiet)]
            found, more = ask_lmms(loaded, ready, limit=limit, rows=batch, quiet=quiet)
            results, failures = [*results, *found], [*failures, *more]
        else:
            words: dict[str, Any] = {"split": split, "limit": limit, "batch": batch, "threads": threads, "quiet": quiet}
            results = [
                result
                for one in levels
                for worse in corruptions
                for result in evaluate_model(one, chosen, data=data, corruption=worse, **words)
            ]
        if not results:
            raise failures[0].error if len(failures) == 1 else TasksFailed(failures)
        label = str(about.get("model", loaded.label))
        rows = []
        for number, one in enumerate(levels):
            command = command_for(label, one, chosen, split, limit, text_from, allow_pickle, corruptions)
            own = results[number * len(results) // len(levels) : (number + 1) * len(results) // len(levels)]
            rows += [row_of(result, one, **{"command": command, **about}) for result in own]
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
    from smelt.evaluation.questions.kept import Kept

    if corruptions != [None]:
        raise RecipeError("corruption: is done to tasks of pictures, not to question sets; leave it out")
    return data.beside(Kept).sets([task for task in tasks if isinstance(task, QuestionTask)], split, limit, data)


def _at_levels(model: Any, level: Level | Literal["both"] | None) -> list[Any]:
    """The model, or a collaboration at the levels that were asked for."""
    if level is None:
        return [model]
    if level not in (*get_args(Level), "both"):
        raise RecipeError(unknown("level", level, [*get_args(Level), "both"]))
    if not hasattr(model, "level"):
        raise RecipeError(f"level: {model.label} is one model; only what `smelt neulig` wrote has levels")
    return [replace(model, level=one) for one in (get_args(Level) if level == "both" else (level,))]


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
