"""What the commands of `smelt hub` share: which hub, how a task is described, and tables of records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from smelt.cli.from_function import Given, Option
from smelt.cli.options import QUIET as NOTHING_BUT_ERRORS
from smelt.errors import RecipeError
from smelt.files.reading import read_text

if TYPE_CHECKING:
    from smelt.hub.hub import Hub

__all__ = ["EXECUTOR", "FILES", "HUB", "KEY_ENV", "QUIET", "TASK", "TaskRequest", "as_text", "opened", "watched"]

HUB = Option(
    "The hub: a folder, or postgresql://... with --files. $SMELT_HUB, or one in your data folder, by default.",
    metavar="PLACE",
    type=str,
    default=None,
    own=True,
)
FILES = Option("The folder for files, where the hub is on a Postgres server.", type=Path, default=None, own=True)
EXECUTOR = Option(
    "Label by workers: local, ray, ray:ADDRESS or slurm; all see the hub's folder.", metavar="NAME", default=None
)
QUIET = NOTHING_BUT_ERRORS.but("Print nothing but errors and results.")
KEY_ENV = Option("The environment variable with that server's key.", type=str, default=None, own=True)
TASK = {
    "classes": Option("The task's classes.", metavar="A,B,C", type=str, default=None, own=True),
    "classes_file": Option(
        "The classes from a file, one on a line.", metavar="FILE", type=Path, default=None, own=True
    ),
    "like_task": Option(
        "Classes and prompts of a known task.", metavar="NAME", type=str, default=None, own=True, complete="tasks"
    ),
    "domain": Option("What the pictures are: photo, sketch, satellite image."),
    "task": Option("What is to be told apart, in words."),
    "k": Option("Models for each class.", ("-k",), min=1),
    "alpha": Option("How much a class counts for itself; the rest is the whole task.", min=0.0, max=1.0),
    "nodes": Option("Nodes of the graph that each class is compared with.", min=1),
}
"""A task in words, and how many models are wanted for it."""


@contextmanager
def opened(given: Given) -> Iterator[Hub]:
    """The hub that was named, closed at the end."""
    from smelt.hub.hub import Hub

    with Hub.open(given["hub"], files=given["files"]) as hub:
        yield hub


@dataclass(frozen=True)
class TaskRequest:
    """A task's classes, and the prompts that ask a model about them."""

    classes: list[str]
    templates: tuple[str, ...] = ("a photo of a {}",)

    @staticmethod
    def read(given: Given) -> TaskRequest:
        """The classes from one of the three ways to give them."""
        classes, file, like = given["classes"], given["classes_file"], given["like_task"]
        if sum(one is not None for one in (classes, file, like)) != 1:
            raise RecipeError(
                "say what to tell apart with one of --classes A,B,C, --classes-file FILE, --like-task NAME"
            )
        if like is not None:
            from smelt.tasks.registry import picture_tasks

            (task, *others) = picture_tasks(like)
            if others:
                raise RecipeError(f"--like-task {like}: stands for {1 + len(others)} tasks; name one of them")
            return TaskRequest(list(task.classes), task.templates)
        if file is not None:
            lines = read_text(file, kind=RecipeError).splitlines()
            return TaskRequest([line.strip() for line in lines if line.strip()])
        return TaskRequest([name.strip() for name in str(classes).split(",")])


@contextmanager
def watched(
    what: str, quiet: bool, unit: Literal["pictures", "files", "models"] = "pictures"
) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, lines in a log: what `Hub.label`, `Hub.add` and `Hub.backup` tell of their progress."""
    from smelt.system.progress import Progress

    with Progress(quiet, unit) as watch:
        before: list[int] = []

        def heard(done: int, total: int) -> None:
            if not before or done < before[0]:
                watch.begin(what, total)
                before[:] = [0]
            watch.advance(done - before[0])
            before[:] = [done]

        yield heard


def as_text(record: Any) -> str:
    """A record of the hub, or a list of them, as JSON."""
    import json

    from smelt.hub.models.cards import as_json as plain

    return json.dumps(plain(record), indent=2, ensure_ascii=False)
