"""Finding tasks: those of the zoo, the public ones of the papers, a user's own folders, the harness's library.

photos              a task by its name
photos,digits       several
clip8  TA8  llm5    a group: the zoo's eight of pictures, the eight public ones of task arithmetic, the zoo's language
mllm10              the zoo's question sets that models are chosen on; mllm10-out and mllm10-val are others
path/to/folder      a folder with a task.yaml (pictures), a harness.yaml (language) or a questions.yaml (questions)
lm-eval:gsm8k_cot   a task of the lm-evaluation-harness, which downloads its data
lmms:gqa            a task of lmms-eval, for models of pictures and texts; uqmerge is a group of them

`mergebench` is what Table 3 of MergeBench (arXiv:2505.10833) tests, and its tests of forgetting, by the names of the
harness. Not in the harness, and so not in the group: WildGuardTest, HarmBench, DoAnythingNow and XSTest, whose answers
are judged by models of their own. Left out: SQuADv2 and WMT 2014, whose scores are of a whole corpus and no mean over
examples. The order of names is that of the table.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from smelt.errors import MissingExtra, unknown
from smelt.files.bounded import is_there
from smelt.tasks.language.library import PREFIX, library_task
from smelt.tasks.language.task import FILE as LANGUAGE_FILE
from smelt.tasks.language.task import LanguageTask
from smelt.tasks.lmms.task import HELD_IN, HELD_OUT, lmms_task
from smelt.tasks.lmms.task import PREFIX as LMMS
from smelt.tasks.pictures.task import FILE, Task, TaskError
from smelt.tasks.questions.task import FILE as QUESTIONS_FILE
from smelt.tasks.questions.task import QuestionTask

__all__ = [
    "GROUPS",
    "AnyTask",
    "Tasks",
    "find_task",
    "find_tasks",
    "list_tasks",
    "picture_task",
    "picture_tasks",
    "task_folders",
]

AnyTask: TypeAlias = Task | LanguageTask | QuestionTask
Tasks: TypeAlias = str | Path | AnyTask | Iterable[str | Path | AnyTask]
"""What `find_tasks` takes: a group, names, paths, tasks, or a list of them."""

_DOMAINS = ("instruction", "maths", "multilingual", "coding", "safety")

GROUPS: dict[str, tuple[str, ...]] = {
    "clip8": ("photos", "digits", "clothing", "sketches", "emoji", "flags", "letters", "icons"),
    "TA8": ("sun397", "stanford_cars", "resisc45", "eurosat", "svhn", "gtsrb", "mnist", "dtd"),
    "llm5": (
        *("instruction", "instruction-unseen", "maths", "maths-stories", "multilingual", "multilingual-choice"),
        *("coding", "coding-humaneval", "safety", "safety-benign"),
    ),
    "llm5-val": tuple(f"{domain}-val" for domain in _DOMAINS),
    "llm5-general": tuple(f"general-{name}" for name in "boolq mmlu openbookqa commonsenseqa".split()),
    "mllm10": ("objects", "drawings", "numbers", "countries", "symbols"),
    "mllm10-out": (*("kinds-of-things", "yes-or-no", "capitals", "sums", "counting", "garments", "letters-in-fonts"),),
    "mllm10-val": ("animals-and-food", "printed-numbers", "vehicles-and-weather"),
    "mergebench": tuple(
        PREFIX + name
        for name in (
            *("ifeval", "gsm8k_cot", "hendrycks_math", "m_mmlu", "arc_multilingual@acc_norm"),
            *("hellaswag_multilingual@acc_norm", "humaneval_plus", "mbpp_plus"),
            *("mmlu", "triviaqa", "coqa", "pubmedqa"),
        )
    ),
    "uqmerge": HELD_OUT,
    "uqmerge-in": HELD_IN,
}
"""Lists of tasks that have a name; TA8 is in the order of the task arithmetic papers."""

_ZOO_GROUPS = ("clip8", "llm5", "llm5-val", "llm5-general", "mllm10", "mllm10-out", "mllm10-val")
_OF_THE_ZOO = frozenset(name for group in _ZOO_GROUPS for name in GROUPS[group])
_HERE = Path(__file__).parent / "public"


def task_folders() -> dict[str, Path]:
    """Where every task that has a name lies: the zoo's first, then the public ones."""
    return _zoo() | {path.parent.name: path.parent for path in sorted(_HERE.glob(f"*/{FILE}"))}


def list_tasks() -> dict[str, AnyTask]:
    """Every task that has a name."""
    return {name: _load(folder) for name, folder in task_folders().items()}


def find_task(name: str | Path) -> AnyTask:
    """A task by its name, or from its folder."""
    if str(name).startswith(PREFIX):
        return library_task(str(name))
    if str(name).startswith(LMMS):
        return lmms_task(str(name))
    folders = task_folders()
    if str(name) in folders:
        return _load(folders[str(name)])
    path = Path(os.path.expanduser(name))
    if is_there(path):
        return _load(path)
    if not _zoo() and str(name) in _OF_THE_ZOO:
        raise MissingExtra(f"the task {str(name)!r} is one of the zoo's, which is not installed: pip install ./zoo")
    raise TaskError(
        unknown("task", str(name), [*folders, *GROUPS])
        + f"; a folder with a {FILE}, a {LANGUAGE_FILE} or a {QUESTIONS_FILE} works too, and {PREFIX}NAME or {LMMS}NAME"
    )


def find_tasks(names: Tasks) -> list[AnyTask]:
    """The tasks that a group, a comma-separated list, a path or a list of these means, each once and in order."""
    if isinstance(names, str | Path | Task | LanguageTask | QuestionTask):
        names = [names]
    found: dict[str, AnyTask] = {}
    for name in names:
        for task in _meant(name):
            other = found.setdefault(task.name, task)
            if other != task or other.folder != task.folder:
                raise TaskError(f"two tasks are named {task.name!r}: {other.folder} and {task.folder}")
    if not found:
        raise TaskError("no tasks were given; name some (see `smelt tasks`)")
    return list(found.values())


def picture_task(name: str | Path) -> Task:
    """A task of pictures by its name, or from its folder."""
    return _of_pictures(find_task(name))


def picture_tasks(names: Tasks) -> list[Task]:
    """The same as `find_tasks` where only pictures will do; tasks of other kinds are refused."""
    return [_of_pictures(task) for task in find_tasks(names)]


def _of_pictures(task: AnyTask) -> Task:
    if not isinstance(task, Task):
        kind = "a language task" if isinstance(task, LanguageTask) else "a question set"
        raise TaskError(f"{task.name} is {kind}; here a task of pictures is needed")
    return task


def _meant(name: str | Path | AnyTask) -> list[AnyTask]:
    if isinstance(name, Task | LanguageTask | QuestionTask):
        return [name]
    if str(name) in GROUPS:
        return [find_task(one) for one in GROUPS[str(name)]]
    if isinstance(name, str) and "," in name and not Path(name).exists():
        return [task for part in name.split(",") if part.strip() for task in _meant(part.strip())]
    return [find_task(name)]


def _load(path: Path) -> AnyTask:
    """A folder, or one of the three files."""
    kinds: dict[str, type[LanguageTask] | type[QuestionTask]]
    kinds = {LANGUAGE_FILE: LanguageTask, QUESTIONS_FILE: QuestionTask}
    for file, kind in kinds.items():
        if path.name == file if path.is_file() else (path / file).is_file():
            return kind.load(path)
    return Task.load(path)


def _zoo() -> dict[str, Path]:
    try:
        import smelt_zoo
    except ImportError:
        return {}
    kinds = [smelt_zoo.tasks(), *(getattr(smelt_zoo, kind, dict)() for kind in ("language", "questions"))]
    return {str(name): Path(path) for kind in kinds for name, path in kind.items()}
