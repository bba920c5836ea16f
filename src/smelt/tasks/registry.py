"""Tasks by name: those of the zoo, the public ones of the papers, a user's own folders, the harnesses' libraries.

photos              a task by its name
photos,digits       several
clip8  TA8  llm5    a group: the zoo's eight of pictures, the eight public ones of task arithmetic, the zoo's language
TALL14  TALL20      the same eight with six and with twelve more
mllm10              the zoo's question sets that models are chosen on; mllm10-out and mllm10-val are others
path/to/folder      a folder with a task.yaml (pictures), a harness.yaml (language) or a questions.yaml (questions);
                    of texts pairs.yaml, retrieval.yaml, classes.yaml or preferences.yaml, or a BEIR folder as it is
lm-eval:gsm8k_cot   a task of the lm-evaluation-harness, which downloads its data
xstest@hf:org/name  a task whose replies another model judges (`judged` in its metadata); without one, a rule does
lmms:gqa            a task of lmms-eval, for models of pictures and texts; uqmerge is a group of them
mteb:STSBenchmark   a task of mteb, for embedders and cross-encoders
beir@recall@100     a retrieval task by another metric than its own
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from smelt.display.blocks import Table
from smelt.display.shown import ShownDict
from smelt.errors import MissingExtra, unknown
from smelt.files.reading import is_there
from smelt.models.zoo.catalogue import names_in_more, not_there
from smelt.tasks.groups import GROUPS, OF_THE_ZOO
from smelt.tasks.kinds import TaskKind, task_kinds
from smelt.tasks.pictures.task import PictureTask
from smelt.tasks.task import Task, TaskError

__all__ = [
    "Task",
    "Tasks",
    "find_task",
    "find_tasks",
    "list_tasks",
    "picture_task",
    "picture_tasks",
    "task_folders",
]

Tasks: TypeAlias = str | Path | Task | Iterable[str | Path | Task]
"""What `find_tasks` takes: a group, names, paths, tasks, or a list of them."""

_PUBLIC = Path(__file__).parent / "public"


def task_folders() -> dict[str, Path]:
    """Where every task that has a name lies: the zoo's first, then the public ones."""
    files = {kind.file for kind in task_kinds.values() if kind.file}
    public = (folder for folder in sorted(_PUBLIC.iterdir()) if any((folder / file).is_file() for file in files))
    return _zoo() | {folder.name: folder for folder in public}


class TaskList(ShownDict[Task]):
    """Tasks by name."""

    def shown(self) -> list[Table]:
        rows = [
            [name, one.domain or one.kind, ", ".join(one.counts_by_split), one.title or one.source]
            for name, one in self.items()
        ]
        return [Table(["task", "kind", "examples", "about"], rows, left=range(4), cut=True)]


def list_tasks() -> TaskList:
    """Every task that has a name."""
    return TaskList({name: _load(folder) for name, folder in task_folders().items()})


def find_task(name: str | Path) -> Task:
    """A task by its name, or from its folder."""
    for kind in task_kinds.values():
        if kind.prefix is not None and str(name).startswith(kind.prefix):
            return kind.load(str(name))
    folders = task_folders()
    if str(name) in folders:
        return _load(folders[str(name)])
    path = Path(os.path.expanduser(name))
    if is_there(path):
        return _load(path)
    own, at, word = str(name).partition("@")
    if at and word:
        return find_task(own).variant(word)
    if not _zoo() and str(name) in OF_THE_ZOO:
        raise MissingExtra(f"the task {str(name)!r} is one of the zoo's, which is not installed: pip install ./zoo")
    more = [*names_in_more("language"), *names_in_more("questions")]
    if str(name) in more:
        raise not_there(f"the task {str(name)!r}")
    *files, last = (f"a {kind.file}" for kind in _by_file())
    prefixes = " or ".join(f"{kind.prefix}NAME" for kind in task_kinds.values() if kind.prefix)
    raise TaskError(
        f"{unknown('task', str(name), dict.fromkeys([*folders, *GROUPS, *more]))}; "
        f"a folder with {', '.join(files)} or {last} works too, and {prefixes}"
    )


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


def picture_task(name: str | Path) -> PictureTask:
    """A task of pictures by its name, or from its folder."""
    return PictureTask.of(find_task(name))


def picture_tasks(names: Tasks) -> list[PictureTask]:
    """The same as `find_tasks` where only pictures will do; tasks of other kinds are refused."""
    return [PictureTask.of(task) for task in find_tasks(names)]


def _meant(name: str | Path | Task) -> list[Task]:
    if isinstance(name, Task):
        return [name]
    if str(name) in GROUPS:
        return [find_task(one) for one in GROUPS[str(name)]]
    if isinstance(name, str) and "," in name and not Path(name).exists():
        return [task for part in name.split(",") if part.strip() for task in _meant(part.strip())]
    return [find_task(name)]


def _by_file() -> list[TaskKind]:
    """Kinds that are known by a file, pictures first, as messages name them."""
    return sorted((kind for kind in task_kinds.values() if kind.file), key=lambda kind: kind.file != PictureTask.FILE)


def _load(path: Path) -> Task:
    """A folder, or the file of a kind; of what is none of them, pictures say what is missing."""
    found = next((kind for kind in task_kinds.values() if kind.is_in(path)), task_kinds["pictures"])
    return found.load(str(path))


def _zoo() -> dict[str, Path]:
    try:
        import smelt_zoo
    except ImportError:
        return {}
    several = [smelt_zoo.tasks(), *(getattr(smelt_zoo, kind, dict)() for kind in ("language", "questions"))]
    return {str(name): Path(path) for kind in several for name, path in kind.items()}
