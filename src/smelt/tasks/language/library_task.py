"""Tasks of the harness's own library: `lm-eval:gsm8k_cot`, its groups too (`lm-eval:m_mmlu`), each by its first metric
or by one that is named (`lm-eval:arc_multilingual@acc_norm`).

They load their data from the Hugging Face hub, or from its cache; where that is not possible, a message names the task
and the data set. A group is one task here: its score is the mean over the examples of all its parts, read by the first
filter. Tasks that run code which a model wrote (HumanEval, MBPP) run it in Smelt's sandbox.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from smelt.tasks.kinds import TaskKind, task_kinds
from smelt.tasks.language.harness import library_parts, quiet_harness
from smelt.tasks.language.task import LibraryTask
from smelt.tasks.task import TaskError

__all__ = ["PREFIX", "LmEvalTask", "lm_eval_task"]

PREFIX = "lm-eval:"
_CHAT = frozenset({"ifeval"})
"""Tasks whose prompts are a user's words; others have prompts to be continued."""
_TESTED = ("humaneval", "mbpp")
"""Tasks that run programs, and whose reference is the code that tests them."""


@dataclass(frozen=True)
class LmEvalTask(LibraryTask):
    """A task or a group of the lm-evaluation-harness."""

    PREFIX: ClassVar[str] = PREFIX

    @property
    def source(self) -> str:
        return "the lm-evaluation-harness, with data of the Hugging Face hub"

    @property
    def delimiter(self) -> str:
        return str(self._only_part("test").config.target_delimiter)

    def harness_tasks(self, split: str) -> dict[str, Any]:
        self.check_split(split)
        return dict(_parts(self.name.partition("@")[0]))


def lm_eval_task(name: str) -> LmEvalTask:
    """A task by its name in the library, without a look whether it is there: its index takes seconds to read."""
    name = name.removeprefix(PREFIX)
    chat = {"chat": "if-any"} if name.partition("@")[0] in _CHAT else {}
    return LmEvalTask(name, Path(), {"metadata": chat})


@functools.lru_cache(maxsize=64)
def _parts(name: str) -> Mapping[str, Any]:
    def load() -> dict[str, Any]:
        with _code_allowed():
            return dict(manager.load([name])["tasks"])

    def config_of(one: str) -> Mapping[str, Any]:
        from lm_eval.tasks._yaml_loader import load_yaml

        return dict(load_yaml(manager.task_index[one].yaml_path, resolve_func=False, recursive=True))

    with quiet_harness():
        manager = _manager()
        parts = library_parts(PREFIX, "the lm-evaluation-harness", name, manager, load, config_of)
    for part in parts.values():
        if getattr(part, "UNSAFE_CODE", False):
            _judge_in_sandbox(part)
    return parts


def _judge_in_sandbox(part: Any) -> None:
    """Have a task that runs programs run them here; one that would not is refused."""
    name = str(part.config.task)
    if not name.startswith(_TESTED) or callable(part.config.process_results):
        raise TaskError(
            f"{PREFIX}{name}: runs what a model wrote by functions of its own, outside of Smelt's sandbox, and is not "
            f"asked; tasks that test programs by assertions are ({', '.join(_TESTED)})"
        )
    part._metric_fn_list = dict.fromkeys(part._metric_fn_list, passes_in_sandbox)


@contextmanager
def _code_allowed() -> Iterator[None]:
    """Some tasks ask for this word when they are loaded; their programs run in the sandbox all the same."""
    word = "HF_ALLOW_CODE_EVAL"
    before = os.environ.get(word)
    os.environ[word] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[word]
        else:
            os.environ[word] = before


@functools.cache
def _manager() -> Any:
    from lm_eval.tasks import TaskManager

    return TaskManager()


def passes_in_sandbox(references: Sequence[str], predictions: Sequence[Any], **_: Any) -> float:
    """Pass@1: the share of predictions whose first program passes its tests."""
    from smelt.tasks.sandbox.execution import judge

    programs = [one if isinstance(one, str) else one[0] for one in predictions]
    outcomes = [judge(program, tests) for program, tests in zip(programs, references, strict=True)]
    return sum(outcome.status == "ok" for outcome in outcomes) / len(outcomes)


task_kinds["lm-eval"] = TaskKind(lm_eval_task, prefix=PREFIX)
