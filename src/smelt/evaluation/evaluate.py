"""Putting tasks of any kind to a model of any kind: `evaluate_model(model, tasks)` -> rows and the results behind them.

Tasks are prepared before a model is loaded, so that what is missing is said at once. Then each is asked, one after the
other: progress, failures and provenance are the same for all kinds. `smelt.evaluate` and `smelt eval` come here by way
of `smelt.prepare.evaluate`, where a recipe may stand for a model.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from smelt.display.blocks import Table
from smelt.display.shown import Shown
from smelt.errors import NumericalError, RecipeError, SmeltError, unknown
from smelt.evaluation.load import DeferredModel, load_model, one_model_kind
from smelt.evaluation.provenance import command_for, row_of
from smelt.evaluation.row import Level, Row
from smelt.files.remote_code import CodeNotTrusted, takes_trust
from smelt.system.endpoint import EndpointGone
from smelt.system.progress import Progress
from smelt.tasks.corruptions.corruption import Corruption, Corruptions, read_corruptions
from smelt.tasks.corruptions.parameters import SetName
from smelt.tasks.pictures.data_cache import DataCache
from smelt.tasks.registry import Tasks, find_tasks
from smelt.tasks.result import Result
from smelt.tasks.task import PreparedTask, Task

__all__ = ["Average", "Evaluation", "TaskFailure", "TasksFailed", "evaluate_model"]

_WORDS = (
    "split limit text_from batch device dtype threads quiet data out allow_pickle trust_remote_code".split()
    + "corruption corrupted_by level".split()
)


@dataclass(frozen=True)
class TaskFailure:
    """A task that could not be asked, and why."""

    task: str
    error: SmeltError


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
class Evaluation(Shown):
    """The rows of one model (one per level, corruption and task), and the results behind them with their confusions."""

    rows: list[Row]
    results: Sequence[Result]
    seconds: float
    failures: tuple[TaskFailure, ...] = ()
    """Tasks that could not be asked; the others were."""

    def shown(self) -> list[Table]:
        from smelt.evaluation.tables import evaluation_table

        return [evaluation_table(self)] if self.rows else []

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
            if result.domain is not None:
                found.setdefault(result.domain, []).append(result.accuracy)
        return {domain: sum(scores) / len(scores) for domain, scores in found.items()}


class TasksFailed(SmeltError):
    """Some tasks could not be asked. `rows` holds those of the others."""

    def __init__(self, failures: Sequence[TaskFailure], rows: Sequence[Row] = ()):
        self.failures, self.rows = tuple(failures), tuple(rows)
        total = len(failures) + len(rows)
        body = "".join(f"\n  - {one.error}" for one in failures)
        super().__init__(f"{len(failures)} of {total} tasks could not be asked:{body}")


@takes_trust
def evaluate_model(
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
    data: DataCache | None = None,
    allow_pickle: bool = False,
    trust_remote_code: bool = False,
    corruption: Corruptions = None,
    corrupted_by: SetName = "cifar_c",
    level: Level | Literal["both"] | None = None,
    **about: Any,
) -> Evaluation:
    """Ask one model: rows, the results behind them, the time it took, and the tasks that failed.

    `model` is a reference (a path, `zoo:name`, `hf:org/name`), a module, a state dict or a DeferredModel. The words are
    those of `smelt.evaluate`.
    """
    began = time.perf_counter()
    strange = sorted(about.keys() - Row.model_fields.keys())
    if strange:
        raise RecipeError(unknown("word of an evaluation", strange[0], [*_WORDS, *Row.model_fields]))
    chosen, corruptions = find_tasks(tasks), read_corruptions(corruption, corrupted_by)
    one_model_kind(chosen)
    if batch < 1:
        raise RecipeError(f"batch is a number of {chosen[0].unit}s, at least 1; got {batch}")
    ready, failures = _prepared(chosen, split, limit, corruptions, data or DataCache())
    with ExitStack() as stack:
        if isinstance(model, DeferredModel):
            model, about = stack.enter_context(model.make()), {**model.about, **about}
        loaded: Any = load_model(
            model, chosen, text_from=text_from, device=device, dtype=dtype, allow_pickle=allow_pickle
        )
        ready, refused = _refused(loaded, ready, quiet)
        failures = [*failures, *refused]
        label = str(about.get("model", loaded.label))
        rows: list[Row] = []
        results: list[Result] = []
        for one in _at_levels(loaded, level):
            command = command_for(label, one, chosen, split, limit, text_from, allow_pickle, corruptions)
            found, failed = _asked(one, ready, batch, threads, quiet)
            rows += [row_of(result, one, **{"command": command, **about}) for result in found]
            results, failures = [*results, *found], [*failures, *failed]
    if not results:
        raise _together(failures)
    return Evaluation(rows, results, time.perf_counter() - began, tuple(failures))


def _prepared(
    tasks: Sequence[Task], split: str, limit: int | None, corruptions: Sequence[Corruption | None], data: DataCache
) -> tuple[list[PreparedTask], list[TaskFailure]]:
    """Tasks with their data, under every condition. What is wrong with the request is refused for all.

    So is code that nobody allowed: a flag is quickly given, and what the others would take by then is not.
    """
    conditions = [(task, corruption) for corruption in corruptions for task in tasks]
    for task, corruption in conditions:
        task.check_request(split, limit, corruption)
    ready, failures = [], []
    for task, corruption in conditions:
        try:
            ready.append(task.prepare(split, limit=limit, data=data, corruption=corruption))
        except CodeNotTrusted:
            raise
        except SmeltError as error:
            if not task.fails_alone:
                raise
            failures.append(TaskFailure(task.name, error))
    if not ready:
        raise _together(failures)
    return ready, failures


def _asked(
    model: Any, ready: Sequence[PreparedTask], batch: int, threads: int | None, quiet: bool
) -> tuple[list[Result], list[TaskFailure]]:
    """The results of every task that could be asked, and what went wrong with the others."""
    results, failures = list[Result](), list[TaskFailure]()
    for number, one in enumerate(ready):
        began = time.perf_counter()
        try:
            with Progress(quiet, one.counts) as watch:
                result = one.ask(model, batch=batch, threads=threads, watch=watch)
                watch.end(f"{100 * result.accuracy:.1f} %")
        except NumericalError:  # the model's own fault, whatever the task
            raise NumericalError(
                f"{model.label} gives NaN or infinite scores on {one.task.name}; its weights are not sound"
            ) from None
        except SmeltError as error:
            if not one.task.fails_alone:
                raise
            failures.append(TaskFailure(one.task.name, error))
            if isinstance(error, EndpointGone):  # what is left would wait for it in vain
                failures += [_not_asked(other) for other in ready[number + 1 :]]
                break
        else:
            results.append(replace(result, seconds=time.perf_counter() - began))
    return results, failures


def _refused(model: Any, ready: Sequence[PreparedTask], quiet: bool) -> tuple[list[PreparedTask], list[TaskFailure]]:
    """What can be asked of this model, and why the rest cannot: all of it before anything is asked."""
    refusals = [(one, one.refusal(model)) for one in ready]
    failures = [TaskFailure(one.task.name, error) for one, error in refusals if error is not None]
    able = [one for one, error in refusals if error is None]
    if failures and able and not quiet:
        sys.stderr.write("".join(f"note: not asked: {one.error}\n" for one in failures))
    return able, failures


def _not_asked(one: PreparedTask) -> TaskFailure:
    return TaskFailure(one.task.name, SmeltError(f"{one.task.name}: not asked, because the server is gone"))


def _together(failures: Sequence[TaskFailure]) -> SmeltError:
    return failures[0].error if len(failures) == 1 else TasksFailed(failures)


def _at_levels(model: Any, level: Level | Literal["both"] | None) -> list[Any]:
    """The model, or a collaboration at the levels that were asked for."""
    if level is None:
        return [model]
    if level not in (*get_args(Level), "both"):
        raise RecipeError(unknown("level", level, [*get_args(Level), "both"]))
    if not hasattr(model, "level"):
        raise RecipeError(f"level: {model.label} is one model; only what `smelt neulig` wrote has levels")
    return [replace(model, level=one) for one in (get_args(Level) if level == "both" else (level,))]
