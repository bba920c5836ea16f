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

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, field_validator

from smelt.tasks.kinds import TaskKind, task_kinds
from smelt.tasks.questions.records import EXTRA, INSTRUCTION, LETTERS, prompt_of
from smelt.tasks.task import FileTask, files_digest, short_digest

if TYPE_CHECKING:
    from smelt.tasks.corruptions.corruption import Corruption
    from smelt.tasks.pictures.data_cache import DataCache
    from smelt.tasks.questions.ask import PreparedQuestions
    from smelt.tasks.questions.pictures import Pictures
    from smelt.tasks.questions.records import Question

__all__ = ["QuestionTask"]


class QuestionTask(FileTask, strict=True):
    """What is asked of a model that sees and reads: to choose the letter of the right option."""

    kind: ClassVar[str] = "questions"
    called: ClassVar[str] = "a question set"
    unit: ClassVar[str] = "question"
    model_kind: ClassVar[str] = "image_text"
    corruption_refusal: ClassVar[str | None] = "is done to tasks of pictures, not to question sets; leave it out"
    FILE: ClassVar[str] = "questions.yaml"
    NOUN: ClassVar[str] = "question set"
    NEEDED: ClassVar[str] = "name and splits"

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    version: Annotated[int, Field(ge=1)] = 1
    title: str = ""
    files: Annotated[dict[str, str], Field(alias="splits", min_length=1)]
    """The file of every split."""
    instruction: Annotated[str, Field(min_length=1)] = INSTRUCTION
    extra: tuple[str, ...] = EXTRA

    @field_validator("extra", mode="before")
    @classmethod
    def _two_at_most(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple) or not all(isinstance(one, str) and one.strip() for one in value):
            raise ValueError(f"is a list of texts, got {value!r}")
        if len(value) > len(EXTRA) or len(set(value)) != len(value):
            raise ValueError(f"are at most {len(EXTRA)} different options: letters go to F; got {value!r}")
        return tuple(value)

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of its splits."""
        return tuple(self.files)

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
    def has_options(self) -> bool:
        return True

    def pictures(self, split: str, questions: Sequence[Question], data: DataCache) -> Pictures:
        """Reads the pictures of some questions; one that a picture task does not have is refused."""
        from smelt.tasks.questions.pictures import Pictures

        found = Pictures(self.folder, data)
        found.check(questions, self.folder / self.files[split])
        return found

    def picture_name(self, question: Question) -> str:
        """A grid is a picture of its own, whatever its cells are; a file belongs to its set's folder."""
        from smelt.tasks.questions.records import picture_files

        home = [str(self.folder)] if any(picture_files(question.picture)) else []
        return json.dumps([*home, question.picture], sort_keys=True)

    def line(self, split: str, question: Question) -> str:
        """Where a question stands, for messages."""
        return f"{self.folder / self.files[split]}: line {question.line}"

    @property
    def source(self) -> str:
        """Where the questions come from, for people."""
        return "files in the set's folder"

    def prepare(
        self, split: str, *, limit: int | None, data: DataCache, corruption: Corruption | None = None
    ) -> PreparedQuestions:
        """One question without its answer is refused: then accuracy cannot be told."""
        from smelt.tasks.questions.ask import QuestionCache

        return data.beside(QuestionCache).prepared(self, split, limit, data)

    def fingerprint(self) -> str:
        """Also over what the records name elsewhere: picture tasks, and pictures outside the folder."""
        files = self._files()
        own, named = files_digest(files), self._named(files)
        return f"{self.version}-{short_digest(chr(10).join([own, *named])) if named else own}"

    def _named(self, known: Sequence[Path]) -> list[str]:
        """What the records need beside the files of the folder, by its content."""
        from smelt.tasks.questions.records import picture_files, picture_places
        from smelt.tasks.registry import picture_task

        there = [split for split, name in self.files.items() if (self.folder / name).is_file()]
        pictures = [question.picture for split in there for question in self.questions(split)]
        tasks = sorted({name for picture in pictures for name, _, _ in picture_places(picture)})
        files = {self.folder / name for picture in pictures for name in picture_files(picture)} - set(known)
        prints = [f"{picture_task(name).name} {picture_task(name).fingerprint()}" for name in tasks]
        return [*prints, *([files_digest(sorted(files))] if files else [])]

    @property
    def summary(self) -> str:
        return f"{self.kind:>12}  {self.title}"

    def words(self) -> dict[str, Any]:
        return {"kind": self.kind, **self.model_dump(mode="json", exclude={"files"})}

    def last_lines(self) -> list[str]:
        first = self.questions(self.splits[0])[0]
        return [
            f"an example of {self.splits[0]}:",
            *(f"  {line}" for line in prompt_of(first, self.extra, self.instruction).split("\n")),
            f"picture:    {json.dumps(first.picture)}",
            f"answer:     {'not told' if first.answer is None else LETTERS[first.answer]}",
        ]


task_kinds["questions"] = TaskKind(QuestionTask.load, file=QuestionTask.FILE)
