"""What all tasks of texts share: a name, a version, and a table for every split in the task's folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from smelt.tasks.documents import Documents
from smelt.tasks.subset import fixed_subset
from smelt.tasks.task import FileTask

__all__ = ["TextTask"]


class TextTask(FileTask, strict=True):
    """A task whose data are tables in its folder."""

    corruption_refusal: ClassVar[str | None] = "is done to pictures, and this task has texts; leave it out"

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*(@[a-z]+@\d+)?$")]
    version: Annotated[int, Field(ge=1)] = 1
    title: str = ""
    files: Annotated[dict[str, str], Field(alias="splits", min_length=1)]
    """The table of every split."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of its splits."""
        return tuple(self.files)

    @property
    def source(self) -> str:
        """Where the examples come from, for people."""
        return "files in the task's folder"

    def file(self, split: str) -> Path:
        """The table of a split."""
        self.check_split(split)
        return self.folder / self.files[split]

    def documents(self, split: str) -> list[Documents]:
        return [Documents(str(self.file(split)))]

    def count(self, split: str) -> int | None:
        """The number of examples of a split; nothing where its file is not there."""
        return len(self.records(split)) if self.file(split).is_file() else None

    def records(self, split: str) -> Sequence[Any]:
        """Every example of a split, checked."""
        raise NotImplementedError

    def some_records(self, split: str, limit: int | None) -> list[Any]:
        """At most `limit` examples, always the same and in their order."""
        found = self.records(split)
        places = fixed_subset(np.zeros(len(found), dtype=np.int64), limit, f"{self.name}/{split}")
        return [found[place] for place in places]

    def words(self) -> dict[str, Any]:
        return {"kind": self.kind, **self.model_dump(mode="json", exclude={"files"})}
