"""The one protocol of tasks: what evaluations, studies, measuring and listings know of a task, whatever its kind.

Pictures, language, question sets and the tasks of two harnesses are its implementations, one folder of this room each.
A kind of its own is a class below `Task` and an entry in `smelt.tasks.kinds`; a plug-in brings both.

    task = find_task("photos")
    ready = task.prepare("test", limit=100, data=DataCache())       # its data, before any model is loaded
    result = ready.ask(model, batch=256, threads=2, watch=watch)    # scores of examples, their mean, its interval
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import PrivateAttr, ValidationError

from smelt.display.blocks import Lines
from smelt.display.shown import Shown
from smelt.errors import RecipeError, SmeltError, listed, unknown
from smelt.files.identity import file_hashes
from smelt.files.reading import read_text
from smelt.files.schema import Strict, faults_of, place_of, reason_of
from smelt.files.yaml_reader import read_yaml

if TYPE_CHECKING:
    from smelt.system.progress import Progress, Unit
    from smelt.tasks.corruptions.corruption import Corruption
    from smelt.tasks.documents import Documents
    from smelt.tasks.examples import ExampleStream
    from smelt.tasks.pictures.data_cache import DataCache
    from smelt.tasks.result import Result

__all__ = ["FileTask", "PreparedTask", "Task", "TaskError", "check_limit", "files_digest", "read_table", "short_digest"]

FileTaskT = TypeVar("FileTaskT", bound="FileTask")


class TaskError(RecipeError):
    """A task, its class list or its data are not what they should be."""


class PreparedTask(ABC):
    """A split of a task, or a fixed part of it, with its data: ready to be asked of any model of the right kind."""

    counts: ClassVar[Unit] = "requests"
    """What progress is counted in."""

    if TYPE_CHECKING:  # fields of the implementations

        @property
        def task(self) -> Task:
            """What it is a split of."""

        @property
        def split(self) -> str:
            """Which one."""

    def refusal(self, model: Any) -> SmeltError | None:
        """Why this model cannot be asked at all, where that is known before anything is asked of it."""
        return None

    @abstractmethod
    def ask(self, model: Any, *, batch: int, threads: int | None, watch: Progress) -> Result:
        """How a loaded model does; at most `batch` examples at once. `watch` hears what was answered so far."""


class Task(Shown, ABC):
    """What is asked of a model, and how its answers are judged."""

    kind: ClassVar[str]
    """One word for listings: `pictures`, `language`, `questions`."""
    called: ClassVar[str]
    """What messages call one of its kind: `a question set`."""
    unit: ClassVar[str] = "example"
    """What one example is, as reports count them: `picture`, `question`, `example`."""
    model_kind: ClassVar[str]
    """What has to be loaded for it: a `classifier`, a `causal_lm`, an `image_text`, or a plug-in's own."""
    fails_alone: ClassVar[bool] = False
    """Whether what goes wrong with it costs only this task: its data come from elsewhere, its scoring is others' code.
    What goes wrong with the others stops an evaluation before a model is loaded."""
    has_examples: ClassVar[bool] = False
    """Whether statistics are measured on it and merges learned on it: it has `examples`."""
    corruption_refusal: ClassVar[str | None] = "the task has no pictures to corrupt; leave it out"
    """Why its examples cannot be corrupted; nothing where they can."""

    if TYPE_CHECKING:  # fields of the implementations

        @property
        def name(self) -> str:
            """What it is called."""

        @property
        def version(self) -> int:
            """Raised when what is asked changes."""

        @property
        def title(self) -> str:
            """The name for people, or nothing."""

        @property
        def folder(self) -> Path:
            """Where its files are; an empty path where it has none."""

    @property
    @abstractmethod
    def splits(self) -> tuple[str, ...]:
        """The names of its splits."""

    @property
    @abstractmethod
    def source(self) -> str:
        """Where the examples come from, for people."""

    @abstractmethod
    def count(self, split: str) -> int | None:
        """The number of examples of a split, where it is known without a download."""

    def data_sets(self) -> list[tuple[str, str | None]]:
        """The data sets of the Hugging Face Hub that it would fetch, each with the part of it, and without a look."""
        return []

    @abstractmethod
    def prepare(
        self, split: str, *, limit: int | None, data: DataCache, corruption: Corruption | None = None
    ) -> PreparedTask:
        """A split with its data; at most `limit` examples, always the same. `data` keeps what models share."""

    def examples(
        self,
        model: Any,
        split: str,
        *,
        count: int | None = None,
        data: DataCache | None = None,
        corruption: Corruption | None = None,
    ) -> ExampleStream:
        """The examples for measuring and learning: `count` of the split, always the same and in the same order, or all.

        Fewer than asked for is an error, not a smaller number: a statistic of 100 examples must not pass for one of
        256.
        """
        raise TaskError(f"{self.name} is {self.called}, on which nothing is measured or learned")

    def number_of_examples(self, split: str, data: DataCache) -> int:
        """The number of examples of a split, found out whatever it takes."""
        return self.count(split) or 0

    def number_asked(self, split: str, limit: int | None, data: DataCache) -> int:
        """How many examples of a split are asked at a limit."""
        number = self.number_of_examples(split, data)
        return number if limit is None else min(number, limit)

    def documents(self, split: str) -> Sequence[Documents]:
        """Which documents of which data set a split holds, without a download; none where nobody can say."""
        return ()

    @property
    def has_options(self) -> bool:
        """Whether a model chooses among options that have scores, so that it can be uncertain."""
        return False

    @property
    def answered_by_option(self) -> bool:
        """Whether it is evaluated by these scores, and not by answers in words."""
        return self.has_options

    @property
    def reference(self) -> str:
        """What names it on a command line, wherever it lies."""
        return str(self.folder)

    def variant(self, word: str) -> Task:
        """The same task as `NAME@word` names it: judged by a model, scored by another metric."""
        raise TaskError(f"{self.name} is {self.called}, whose answers no model judges; leave @{word} out")

    @property
    def domain(self) -> str | None:
        """The skill that it tests, where it belongs to one; scores are averaged by domain too."""
        return None

    def check_split(self, split: str) -> None:
        """Refuse a split that the task does not have."""
        if split not in self.splits:
            raise TaskError(f"{self.name}: {unknown('split', split, self.splits)}")

    def check_request(self, split: str, limit: int | None, corruption: Corruption | None) -> None:
        """Refuse what cannot be asked, before any data are read."""
        check_limit(limit)
        if corruption is not None and self.corruption_refusal is not None:
            raise RecipeError(f"corruption: {self.corruption_refusal}")
        self.check_split(split)

    def fingerprint(self) -> str:
        """The version, and a hash over the task's folder: other classes, prompts or examples are another task.

        A task without a folder, of a harness's own library, is known by its version.
        """
        return f"{self.version}-{files_digest(self._files())}" if self.folder.parts else str(self.version)

    def _files(self) -> list[Path]:
        """The files of its folder, but for texts about it."""
        return [path for path in sorted(self.folder.rglob("*")) if path.is_file() and path.suffix != ".md"]

    @property
    def readme(self) -> str:
        """Its README, or nothing."""
        path = self.folder / "README.md"
        return read_text(path) if self.folder.parts and path.is_file() else ""

    @property
    def licence(self) -> str | None:
        """What the README says under the heading `Licence`, or on a line that begins with it."""
        found = re.search(r"^#+\s*Licen[cs]e\s*\n+(.+?)(?:\n\s*\n|\n#|\Z)", self.readme, re.M | re.S | re.I)
        found = found or re.search(r"^[-*\s]*\**Licen[cs]e\**\s*:\**\s*(.+)$", self.readme, re.M | re.I)
        return " ".join(found[1].split()) if found else None

    @property
    def summary(self) -> str:
        """What the list of tasks says of it: in twelve letters what it is, then its title."""
        return f"{self.domain or self.kind:>12}  {self.title or self.source}"

    def words(self) -> dict[str, Any]:
        """What it says of itself, as plain data."""
        return {"kind": self.kind, "name": self.name, "version": self.version, "title": self.title}

    @property
    def counts_by_split(self) -> list[str]:
        """Its splits, with their numbers of examples where these are known."""
        counts = {split: self.count(split) for split in self.splits}
        return [split if number is None else f"{split} {number:,}" for split, number in counts.items()]

    def shown(self) -> list[Lines]:
        title = f": {self.title}" if self.title else ""
        place = [f"splits:     {', '.join(self.counts_by_split)}", f"licence:    {self.licence or 'not stated'}"]
        head = [f"{self.name}, version {self.version}{title}", ""]
        return [Lines([*head, *self.first_lines(), *place, f"folder:     {self.reference}", *self.last_lines()])]

    def first_lines(self) -> list[str]:
        """What people are told of it before its splits, licence and folder."""
        return [f"{f'{self.kind}:':<12}{self.source}"]

    def last_lines(self) -> list[str]:
        """What people are told of it at the end: its classes, or an example."""
        return []


class FileTask(Task, Strict):
    """A task that is a table in a file of its folder, checked as a whole."""

    FILE: ClassVar[str]
    NOUN: ClassVar[str]
    """What messages call it: `task`, `question set`."""
    NEEDED: ClassVar[str]
    """The words that a table has to have, for messages."""
    _folder: Path = PrivateAttr(default=Path())

    @classmethod
    def of(cls: type[FileTaskT], task: Task) -> FileTaskT:
        """The same task, where only one of this kind will do; another is refused."""
        if not isinstance(task, cls):
            raise TaskError(f"{task.name} is {task.called}; here {cls.called} is needed")
        return task

    @classmethod
    def load(cls: type[FileTaskT], path: str | Path) -> FileTaskT:
        """Read a task's folder (or its file); every fault is named at once."""
        content, file = read_table(path, cls.FILE, cls.NOUN, cls.NEEDED)
        return cls.parse(content, folder=file.parent, where=str(file))

    @classmethod
    def parse(cls: type[FileTaskT], content: Mapping[str, Any], *, folder: Path, where: str | None = None) -> FileTaskT:
        """A task from a table; its files are relative to `folder`."""
        try:
            task = cls.model_validate(dict(content))
        except ValidationError as error:
            known = [field.alias or name for name, field in cls.model_fields.items()]
            faults = faults_of(error, lambda one: _fault(one, cls.NOUN, known))
            raise TaskError(f"{where or cls.NOUN}: {listed(faults)}") from None
        task._folder = folder
        return task

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self._folder


def read_table(path: str | Path, name: str, what: str, words: str) -> tuple[dict[str, Any], Path]:
    """The table in a task's file, given by its path or its folder's, and the file; `words` are what it has to hold."""
    path = Path(path)
    file = path if path.is_file() else path / name
    if not file.is_file():
        raise TaskError(f"{path}: no such {what} (a folder with a {name})")
    content = read_yaml(file, kind=TaskError)
    if not isinstance(content, dict):
        raise TaskError(f"{file}: a {what} is a table with {words}")
    return content, file


def _fault(error: Any, what: str, known: Sequence[str]) -> str:
    where = place_of(error)
    if error["type"] == "extra_forbidden":
        return unknown(f"word of a {what}", str(error["loc"][-1]), known)
    if error["type"] == "missing":
        return f"{where} is missing"
    return f"{where}: {reason_of(error)}"


def check_limit(limit: int | None) -> None:
    """Refuse a limit that takes nothing."""
    if limit is not None and limit < 1:
        raise RecipeError(f"limit is a number of examples, at least 1; got {limit}")


def files_digest(files: Iterable[Path]) -> str:
    """A hash over the content of files, in this order."""
    paths = list(files)
    hashes = file_hashes(paths)
    return short_digest("\n".join(hashes[path] for path in paths))


def short_digest(text: str) -> str:
    """Sixteen letters that another text does not have."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
