"""Finding tasks: those of the zoo, the public ones of the papers, and a user's own folders.

photos              a task by its name
photos,digits       several
clip8  TA8          a group: the zoo's eight, the eight public ones of task arithmetic
path/to/folder      a folder with a task.yaml
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from smelt.errors import MissingExtra, unknown
from smelt.evaluate.task import FILE, Task, TaskError

__all__ = ["GROUPS", "Tasks", "find_task", "find_tasks", "task_folders", "tasks"]

Tasks: TypeAlias = str | Path | Task | Iterable[str | Path | Task]
"""What `find_tasks` takes: a group, names, paths, tasks, or a list of them."""

GROUPS: dict[str, tuple[str, ...]] = {
    "clip8": ("photos", "digits", "clothing", "sketches", "emoji", "flags", "letters", "icons"),
    "TA8": ("sun397", "stanford_cars", "resisc45", "eurosat", "svhn", "gtsrb", "mnist", "dtd"),
}
"""Lists of tasks that have a name; TA8 is in the order of the task arithmetic papers."""

_HERE = Path(__file__).parent / "tasks"


def task_folders() -> dict[str, Path]:
    """Where every task that has a name lies: the zoo's first, then the public ones."""
    return _zoo() | {path.parent.name: path.parent for path in sorted(_HERE.glob(f"*/{FILE}"))}


def tasks() -> dict[str, Task]:
    """Every task that has a name."""
    return {name: Task.load(folder) for name, folder in task_folders().items()}


def find_task(name: str | Path) -> Task:
    """A task by its name, or from its folder."""
    folders = task_folders()
    if str(name) in folders:
        return Task.load(folders[str(name)])
    path = Path(name).expanduser()
    if path.exists():
        return Task.load(path)
    if not _zoo() and str(name) in GROUPS["clip8"]:
        raise MissingExtra(f"the task {str(name)!r} is one of the zoo's, which is not installed: pip install ./zoo")
    raise TaskError(unknown("task", str(name), [*folders, *GROUPS]) + f"; a folder with a {FILE} works too")


def find_tasks(names: Tasks) -> list[Task]:
    """The tasks that a group, a comma-separated list, a path or a list of these means, each once and in order."""
    if isinstance(names, str | Path | Task):
        names = [names]
    found: dict[str, Task] = {}
    for name in names:
        for task in _meant(name):
            other = found.setdefault(task.name, task)
            if other != task or other.folder != task.folder:
                raise TaskError(f"two tasks are named {task.name!r}: {other.folder} and {task.folder}")
    if not found:
        raise TaskError("no tasks were given; name some (see `smelt tasks`)")
    return list(found.values())


def _meant(name: str | Path | Task) -> list[Task]:
    if isinstance(name, Task):
        return [name]
    if str(name) in GROUPS:
        return [find_task(one) for one in GROUPS[str(name)]]
    if isinstance(name, str) and "," in name and not Path(name).exists():
        return [task for part in name.split(",") if part.strip() for task in _meant(part.strip())]
    return [find_task(name)]


def _zoo() -> dict[str, Path]:
    try:
        import smelt_zoo
    except ImportError:
        return {}
    return {str(name): Path(path) for name, path in smelt_zoo.tasks().items()}
