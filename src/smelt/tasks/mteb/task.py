"""Tasks of mteb by their names there: `mteb:STSBenchmark`, each by its main score.

Its data come from the Hugging Face hub or its cache, or from a folder that has them as the hub does:
`mteb:STSBenchmark@path/to/folder`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from smelt.errors import RecipeError
from smelt.files.identity import file_hashes
from smelt.tasks.kinds import TaskKind, task_kinds
from smelt.tasks.task import Task, TaskError, short_digest

if TYPE_CHECKING:
    from smelt.tasks.corruptions.corruption import Corruption
    from smelt.tasks.mteb.ask import PreparedMteb
    from smelt.tasks.pictures.data_cache import DataCache

__all__ = ["PREFIX", "MtebTask", "mteb_task"]

PREFIX = "mteb:"


@dataclass(frozen=True)
class MtebTask(Task):
    """A task of the library; whether it has one of that name is known when it is prepared."""

    kind: ClassVar[str] = "mteb"
    called: ClassVar[str] = "a task of mteb"
    model_kind: ClassVar[str] = "text_matcher"
    fails_alone: ClassVar[bool] = True
    corruption_refusal: ClassVar[str | None] = (
        "is done to pictures, and tasks of mteb are asked as they are; leave it out"
    )

    inner: str
    """Its name in the library."""
    data: Path | None = None
    """The folder with its data, where it is not the hub's."""
    folder: Path = Path()
    title: str = ""
    version: int = 1

    @property
    def name(self) -> str:
        """Rows of it are the same wherever its data lie."""
        return f"{PREFIX}{self.inner}"

    @property
    def reference(self) -> str:
        return self.name + (f"@{self.data}" if self.data else "")

    @property
    def splits(self) -> tuple[str, ...]:
        """The library decides itself which parts of the data it evaluates."""
        return ("test",)

    @property
    def source(self) -> str:
        return f"mteb, with data of {self.data or 'the Hugging Face hub'}"

    def count(self, split: str) -> int | None:
        return None

    def check_request(self, split: str, limit: int | None, corruption: Corruption | None) -> None:
        super().check_request(split, limit, corruption)
        if limit is not None:
            raise RecipeError(f"limit: {self.reference} is asked whole, as its library does; leave the limit out")

    def fingerprint(self) -> str:
        """The library's version, the revision of its data, and the content of a folder of data."""
        from smelt.tasks.mteb.library import library_version, task_object

        said = [library_version(), str(task_object(self.inner, self.data).metadata.dataset.get("revision"))]
        files = sorted(path for path in self.data.rglob("*") if path.is_file()) if self.data else []
        hashes = file_hashes(files)
        return f"{self.version}-{short_digest(chr(10).join([*said, *(hashes[path] for path in files)]))}"

    def prepare(
        self, split: str, *, limit: int | None, data: DataCache, corruption: Corruption | None = None
    ) -> PreparedMteb:
        from smelt.tasks.mteb.ask import PreparedMteb
        from smelt.tasks.mteb.library import loaded_task

        return PreparedMteb(self, split, loaded_task(self.inner, self.data))


def mteb_task(name: str) -> MtebTask:
    """A task by its name in the library, without a look whether it is there: its index takes seconds to read."""
    own, _, folder = name.removeprefix(PREFIX).partition("@")
    if not own:
        raise TaskError(f"{name}: names no task of mteb; write {PREFIX}NAME, or {PREFIX}NAME@FOLDER")
    data = Path(os.path.expanduser(folder)) if folder else None
    if data is not None and not data.is_dir():
        raise TaskError(f"{name}: {data} is no folder; after @ comes the folder with the task's data")
    return MtebTask(own, data)


task_kinds["mteb"] = TaskKind(mteb_task, prefix=PREFIX)
