"""What the commands of `smelt hub` share: which hub, how a task is described, and tables of records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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

__all__ = ["FILES", "HUB", "KEY_ENV", "QUIET", "TASK", "TaskRequest", "as_text", "opened", "table", "watched"]

_LEAST = 12
"""Cells of a column that is cut, at least."""
_BETWEEN = 3
"""Cells between two columns."""
_EDGES = 2
HUB = Option(
    "The hub: a folder, or postgresql://... with --files. $SMELT_HUB, or one in your data folder, by default.",
    metavar="PLACE",
    type=str,
    default=None,
    own=True,
)
FILES = Option("The folder for files, where the hub is on a Postgres server.", type=Path, default=None, own=True)
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
def watched(what: str, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, lines in a log: what `Hub.label` and `Hub.add` tell of their progress."""
    from smelt.system.progress import Progress

    with Progress(quiet, "pictures") as watch:
        before: list[int] = []

        def heard(done: int, total: int) -> None:
            if not before or done < before[0]:
                watch.begin(what, total)
                before[:] = [0]
            watch.advance(done - before[0])
            before[:] = [done]

        yield heard


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[Any]],
    right: Sequence[str] = (),
    *,
    last: Literal["fold", "cut"] = "fold",
) -> None:
    """Print a table; columns named in `right` stand to the right.

    With `last="cut"` a row is one line: all columns are whole but the last, which ends in an ellipsis where the
    terminal does.
    """
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table

    console, cells = Console(soft_wrap=False), [list(map(str, row)) for row in rows]
    if last == "cut":
        whole = sum(max(map(cell_len, column)) + _BETWEEN for column in list(zip(headings, *cells, strict=True))[:-1])
        room = max(_LEAST, console.width - whole - _EDGES)
        console.width = whole + room + _EDGES  # what does not fit is left to the terminal; no column is narrowed
        for row in cells:
            row[-1] = _cut(row[-1], room)
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        side: Any = "right" if heading in right else "left"
        drawn.add_column(heading, justify=side, overflow="fold", no_wrap=last == "cut")
    for row in cells:
        drawn.add_row(*row)
    console.print(drawn, markup=False)


def _cut(text: str, room: int) -> str:
    """In one line, and no longer than `room` cells."""
    from rich.cells import cell_len, set_cell_size

    line = " ".join(text.split())
    return line if cell_len(line) <= room else set_cell_size(line, room - 1).rstrip() + "…"


def as_text(record: Any) -> str:
    """A record of the hub, or a list of them, as JSON."""
    import json

    from smelt.hub.models.cards import as_json as plain

    return json.dumps(plain(record), indent=2, ensure_ascii=False)
