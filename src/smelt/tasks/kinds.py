"""Kinds of tasks by name: Smelt's own, each in the module that defines it, then those of installed plug-ins.

A plug-in is a distribution with an entry point in the group `smelt.tasks` that names a module, which enters a kind:

    task_kinds["riddles"] = TaskKind(Riddles.load, file="riddles.yaml")
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from smelt.registry import Registry
from smelt.tasks.task import Task

__all__ = ["TaskKind", "task_kinds"]


@dataclass(frozen=True)
class TaskKind:
    """How tasks of one kind are found: by a file in their folder, or by a prefix of their names."""

    load: Callable[[str], Task]
    """A task from its folder or file; where names have a prefix, from the whole name."""
    file: str | None = None
    prefix: str | None = None

    def is_in(self, path: Path) -> bool:
        """Whether a folder holds such a task, or a file is one."""
        return self.file is not None and (path.name == self.file if path.is_file() else (path / self.file).is_file())

    @property
    def home(self) -> str:
        """The module that brings it."""
        return str(getattr(self.load, "__self__", self.load).__module__)


def _own() -> dict[str, str]:
    """In the order in which a folder is looked through for their files."""
    return {
        "language": "smelt.tasks.language.task",
        "questions": "smelt.tasks.questions.task",
        "pictures": "smelt.tasks.pictures.task",
        "lm-eval": "smelt.tasks.language.library_task",
        "lmms": "smelt.tasks.lmms.task",
        "pairs": "smelt.tasks.texts.pairs",
        "retrieval": "smelt.tasks.texts.retrieval",
        "classes": "smelt.tasks.texts.classes",
        "preferences": "smelt.tasks.texts.preferences",
        "mteb": "smelt.tasks.mteb.task",
        "beir": "smelt.tasks.texts.retrieval",
    }


task_kinds: Registry[TaskKind] = Registry("smelt.tasks", _own, lambda kind: kind.home)
