"""Evaluation: tasks and models in, rows out. A task is a folder; a row is a number with everything that made it.

May read models through `pool` and `engine`; knows nothing of suites and reports. The room is also the call:
`smelt.evaluate(model, tasks="clip8")` (docs/adr/0001). Names load when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from smelt.room import callable_room

if TYPE_CHECKING:
    from smelt.evaluate.call import Evaluation, TasksFailed, evaluate, evaluation, row_of
    from smelt.evaluate.classify import Result, evaluate_model
    from smelt.tasks.find import find_task, find_tasks
    from smelt.tasks.language.task import LanguageTask
    from smelt.evaluate.load import load_model
    from smelt.tasks.pictures.data import Data
    from smelt.tasks.questions.task import QuestionTask
    from smelt.evaluate.row import CostRow, Row, append_rows, code_version, fusionbench_report, read_rows
    from smelt.tasks.pictures.task import Task

__all__ = [
    "CostRow",
    "Data",
    "Evaluation",
    "LanguageTask",
    "QuestionTask",
    "Result",
    "Row",
    "Task",
    "TasksFailed",
    "append_rows",
    "code_version",
    "evaluate",
    "evaluate_model",
    "evaluation",
    "find_task",
    "find_tasks",
    "fusionbench_report",
    "load_model",
    "read_rows",
    "row_of",
]

_HOME = {
    "Data": "pictures",
    "LanguageTask": "language.task",
    "QuestionTask": "questions.task",
    "load_model": "load",
    "Task": "task",
    **dict.fromkeys(("Evaluation", "TasksFailed", "evaluate", "evaluation", "row_of"), "call"),
    **dict.fromkeys(("Result", "evaluate_model"), "classify"),
    **dict.fromkeys(("find_task", "find_tasks"), "find"),
    **dict.fromkeys(("CostRow", "Row", "append_rows", "code_version", "fusionbench_report", "read_rows"), "row"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


callable_room(__name__, "smelt.evaluate.call")
