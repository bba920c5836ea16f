"""What a language model is asked: tasks in groups, each with its limit. Plain data, so that it can travel.

Tasks are asked one by one: where one cannot be (it has no data, its scoring breaks), the others still are.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from smelt.evaluation.evaluate import evaluate_model
from smelt.evaluation.load import load_model
from smelt.evaluation.row import Row
from smelt.files.schema import Strict
from smelt.jobs.failure import pack_error
from smelt.suites.units import shared_data
from smelt.tasks.registry import find_task

__all__ = ["Questions", "TaskAnswers", "TaskGroup"]


class TaskGroup(Strict):
    """Tasks that are asked alike, as the suite spells them."""

    tasks: list[str]
    limit: int | None = None
    split: str = "test"

    def flags(self) -> list[str]:
        """What a command says of it."""
        limit = ["--limit", str(self.limit)] if self.limit is not None else []
        split = ["--split", self.split] if self.split != "test" else []
        return ["--tasks", ",".join(self.tasks), *limit, *split]


@dataclass
class TaskAnswers:
    """Rows of the tasks that could be asked, and what went wrong with the others."""

    rows: list[Row] = field(default_factory=list)
    failures: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By task, the error as plain data."""
    seconds: float = 0.0


class Questions(Strict):
    """Questions for one model."""

    groups: list[TaskGroup]
    device: str = "cpu"
    dtype: str = "float32"
    threads: int | None = None
    allow_pickle: bool = False

    def put_to(
        self, model: str, about: Mapping[str, Any], *, called: str = "", first: Sequence[str] = ()
    ) -> TaskAnswers:
        """Ask a model, which is loaded once. In commands it is `called` so, after the command `first` made it."""
        began, answers = time.perf_counter(), TaskAnswers()
        loaded: Any = None
        for group in self.groups:
            asks = ["smelt", "eval", called or model, *group.flags(), *self.flags(), *self._more_flags()]
            words = {**about, "command": " && ".join(shlex.join(one) for one in (first, asks) if one)}
            for name in group.tasks:
                try:
                    task = find_task(name)
                    name = task.name
                    if loaded is None:
                        loaded = self._loaded(load_model, model, task)
                    answers.rows += self._rows(loaded, task, group, words)
                except _Unusable as error:
                    raise error.cause from None
                except Exception as error:  # of a task's own data or scoring; it costs that task
                    answers.failures[name] = pack_error(error)
        answers.seconds = time.perf_counter() - began
        return answers

    def flags(self) -> list[str]:
        """What a command says of how to compute."""
        places = {"--device": (self.device, "cpu"), "--dtype": (self.dtype, "float32")}
        return [word for flag, (value, usual) in places.items() if value != usual for word in (flag, value)]

    def _more_flags(self) -> list[str]:
        """What an evaluation says beside that."""
        return ["--allow-pickle"] if self.allow_pickle else []

    def _loaded(self, load: Any, model: str, task: Any) -> Any:
        try:
            return load(model, [task], device=self.device, dtype=self.dtype, allow_pickle=self.allow_pickle)
        except Exception as error:
            raise _Unusable(error) from error

    def _rows(self, loaded: Any, task: Any, group: TaskGroup, about: Mapping[str, Any]) -> list[Row]:
        same = {"threads": self.threads, "data": shared_data()}
        how: dict[str, Any] = {"split": group.split, "limit": group.limit, **same}
        return evaluate_model(loaded, [task], **how, **about).rows


class _Unusable(Exception):
    """The model itself cannot be loaded, which is no task's fault."""

    def __init__(self, cause: Exception):
        self.cause = cause
