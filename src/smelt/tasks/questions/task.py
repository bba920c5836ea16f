"""A question set: a folder with `questions.yaml`, a README and its records.

    name: objects
    version: 1                          # raised when questions, options or pictures change
    title: What a photo shows
    splits: {test: test.jsonl.gz}       # one JSON object per line, .gz or not (records.py)
    instruction: Reply with ...         # the last line of every prompt, where it is another than usual
    extra: ["I don't know", "None of the above"]      # the options that all questions have, last

Nothing here opens a picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, PrivateAttr, ValidationError, field_validator

from smelt.errors import unknown
from smelt.files.bounded import read_text
from smelt.files.schema import Strict
from smelt.tasks.pictures.task import TaskError, licence_in, read_table, refused
from smelt.tasks.questions.prompt import EXTRA, INSTRUCTION

if TYPE_CHECKING:
    from smelt.tasks.questions.records import Question

__all__ = ["FILE", "QuestionTask"]

FILE = "questions.yaml"
_WORDS = ("name", "version", "title", "splits", "instruction", "extra")


class QuestionTask(Strict, strict=True):
    """What is asked of a model that sees and reads: to choose the letter of the right option."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    version: Annotated[int, Field(ge=1)] = 1
    title: str = ""
    files: Annotated[dict[str, str], Field(alias="splits", min_length=1)]
    """The file of every split."""
    instruction: Annotated[str, Field(min_length=1)] = INSTRUCTION
    extra: tuple[str, ...] = EXTRA
    _folder: Path = PrivateAttr(default=Path())

    @classmethod
    def load(cls, path: str | Path) -> QuestionTask:
        """Read a set's folder (or its questions.yaml); every fault is named at once."""
        content, file = read_table(path, FILE, "question set", "name and splits")
        return cls.parse(content, folder=file.parent, where=str(file))

    @classmethod
    def parse(cls, content: Mapping[str, Any], *, folder: Path, where: str = "question set") -> QuestionTask:
        """A set from a table; its files are relative to `folder`."""
        try:
            task = cls.model_validate(dict(content))
        except ValidationError as error:
            raise refused(where, error, "question set", _WORDS) from None
        task._folder = folder
        return task

    @field_validator("extra", mode="before")
    @classmethod
    def _two_at_most(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple) or not all(isinstance(one, str) and one.strip() for one in value):
            raise ValueError(f"is a list of texts, got {value!r}")
        if len(value) > len(EXTRA) or len(set(value)) != len(value):
            raise ValueError(f"are at most {len(EXTRA)} different options: letters go to F; got {value!r}")
        return tuple(value)

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self._folder

    @property
    def reference(self) -> str:
        """What names it on a command line, wherever it lies."""
        return str(self.folder)

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of its splits."""
        return tuple(self.files)

    def check_split(self, split: str) -> None:
        """Refuse a split that the set does not have."""
        if split not in self.files:
            raise TaskError(f"{self.name}: {unknown('split', split, self.files)}")

    def count(self, split: str) -> int | None:
        """The number of questions of a split; nothing where its file is not there."""
        from smelt.tasks.language.records import count_records

        self.check_split(split)
        return count_records([self.folder / self.files[split]])

    def questions(self, split: str) -> list[Question]:
        """Every question of a split, checked."""
        from smelt.tasks.questions.records import read_questions

        self.check_split(split)
        return read_questions(self.folder / self.files[split], f"{self.name}/{split}", self.extra)

    @property
    def source(self) -> str:
        """Where the questions come from, for people."""
        return "files in the set's folder"

    @property
    def readme(self) -> str:
        """Its README, or nothing."""
        path = self.folder / "README.md"
        return read_text(path) if path.is_file() else ""

    @property
    def licence(self) -> str | None:
        """What the README says under the heading `Licence`."""
        return licence_in(self.readme)
