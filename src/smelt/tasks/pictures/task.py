"""A task: a folder with `task.yaml` (classes, prompt templates, where the pictures are, version) and a README.

    name: photos
    version: 1                          # raised when classes, templates or pictures change
    title: Photos (CIFAR-10)
    classes: [airplane, automobile]     # in the order of the labels
    templates: ["a photo of a {}"]      # each with one {} for the class's name
    size: 32                            # side of the stored pictures, where all have the same
    data: {mosaics: {val: val.webp, test: test.webp}, labels: labels.npz}
    # or  {dataset: tanganke/dtd, splits: {train: train, test: test}, held_out: {}, image: image, label: label}
    # or  {folder: pictures}            # pictures/<split>/<class name>/*.png

Nothing here opens a picture; `pictures.py` does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)

from smelt.errors import RecipeError, unknown
from smelt.files.bounded import read_text
from smelt.files.schema import Strict, faults_of, place_of, reason_of
from smelt.files.yaml_reader import read_yaml

__all__ = ["FILE", "FolderData", "HubData", "MosaicData", "Task", "TaskError", "licence_in", "read_table", "refused"]

FILE = "task.yaml"


class TaskError(RecipeError):
    """A task, its class list or its pictures are not what they should be."""


class MosaicData(Strict):
    """Pictures as the tiles of one large picture per split, labels as arrays of one npz file."""

    mosaics: Annotated[dict[str, str], Field(min_length=1)]
    labels: str


class HeldOut(Strict):
    """A `val` that is drawn from `train`, every class on both sides (`held_out.py`); FusionBench's by default."""

    fraction: Annotated[float, Field(gt=0, lt=1)] = 0.1
    seed: Annotated[int, Field(ge=0, lt=1 << 32)] = 0


class HubData(Strict):
    """A data set of the Hugging Face hub; `splits` gives our split's name -> theirs."""

    dataset: str
    config: str | None = None
    revision: str | None = None
    splits: Annotated[dict[str, str], Field(min_length=1)]
    held_out: HeldOut | None = None
    """Where the data set has no part for validation."""
    image: str = "image"
    label: str = "label"

    @model_validator(mode="after")
    def _one_val(self) -> HubData:
        if self.held_out is not None and ("val" in self.splits or "train" not in self.splits):
            raise ValueError("held_out takes `val` from `train`: `splits` has to name a train, and no val")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Its splits, the held-out one behind `train`."""
        more = {"train": ("train", "val")} if self.held_out is not None else {}
        return tuple(name for one in self.splits for name in more.get(one, (one,)))


class FolderData(Strict):
    """Plain files: `<folder>/<split>/<class name>/*.png`."""

    folder: str


_KINDS: dict[str, type[Strict]] = {"mosaics": MosaicData, "dataset": HubData, "folder": FolderData}


def _read_data(value: Any) -> Any:
    if isinstance(value, Strict):
        return value
    kinds = [kind for kind in _KINDS if isinstance(value, Mapping) and kind in value]
    if len(kinds) != 1:
        raise ValueError(f"takes exactly one of {', '.join(_KINDS)}, got {value!r}")
    return _KINDS[kinds[0]].model_validate(value)


TaskData: TypeAlias = Annotated[MosaicData | HubData | FolderData, BeforeValidator(_read_data)]


class Task(Strict):
    """What is asked of a model: to tell these classes apart in these pictures."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    version: Annotated[int, Field(ge=1)] = 1
    title: str = ""
    classes: tuple[str, ...]
    templates: tuple[str, ...]
    size: Annotated[int, Field(ge=1)] | None = None
    data: TaskData
    _folder: Path = PrivateAttr(default=Path())

    README: ClassVar[str] = "README.md"

    @classmethod
    def load(cls, path: str | Path) -> Task:
        """Read a task's folder (or its task.yaml); every fault is named at once."""
        content, file = read_table(path, FILE, "task", "name, classes, templates and data")
        return cls.parse(content, folder=file.parent, where=str(file))

    @classmethod
    def parse(cls, content: Mapping[str, Any], *, folder: Path, where: str = "task") -> Task:
        """A task from a table; its files are relative to `folder`."""
        try:
            task = cls.model_validate(dict(content))
        except ValidationError as error:
            raise refused(where, error, "task", cls.model_fields) from None
        task._folder = folder
        return task

    @field_validator("classes", "templates", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple) or not value:
            raise ValueError("is a list with at least one entry")
        for number, word in enumerate(value):
            if not isinstance(word, str):
                raise ValueError(f"entry {number} is {word!r}, which is not text; write it in quotes")
            if not word.strip():
                raise ValueError(f"entry {number} is empty")
        return tuple(value)

    @field_validator("classes")
    @classmethod
    def _distinct(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        twice = [name for name, count in Counter(value).items() if count > 1]
        if twice:
            raise ValueError(f"lists {', '.join(map(repr, twice))} more than once; every class needs a name of its own")
        return value

    @field_validator("templates")
    @classmethod
    def _fillable(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for template in value:
            if template.count("{}") != 1:
                raise ValueError(f"{template!r} needs one {{}} where the class's name goes")
        return value

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
        match self.data:
            case MosaicData(mosaics=splits):
                return tuple(splits)
            case HubData() as data:
                return data.names
            case FolderData(folder=name):
                folder = self.folder / name
                return tuple(sorted(p.name for p in folder.iterdir() if p.is_dir())) if folder.is_dir() else ()

    def check_split(self, split: str) -> None:
        """Refuse a split that the task does not have."""
        if split not in self.splits:
            raise TaskError(f"{self.name}: {unknown('split', split, self.splits)}")

    @property
    def source(self) -> str:
        """Where the pictures come from, for people."""
        match self.data:
            case HubData(dataset=name, config=config):
                return f"hf:{name}" + (f" ({config})" if config else "")
            case MosaicData():
                return "mosaics in the task's folder"
            case FolderData(folder=name):
                return f"picture files in {name}/"

    @property
    def readme(self) -> str:
        """Its README, or nothing."""
        path = self.folder / self.README
        return read_text(path) if path.is_file() else ""

    @property
    def licence(self) -> str | None:
        """What the README says under the heading `Licence`, or on a line that begins with it."""
        return licence_in(self.readme)


def licence_in(readme: str) -> str | None:
    """What a README says under the heading `Licence`, or on a line that begins with it."""
    found = re.search(r"^#+\s*Licen[cs]e\s*\n+(.+?)(?:\n\s*\n|\n#|\Z)", readme, re.M | re.S | re.I)
    found = found or re.search(r"^[-*\s]*\**Licen[cs]e\**\s*:\**\s*(.+)$", readme, re.M | re.I)
    return " ".join(found[1].split()) if found else None


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


def refused(where: str, error: ValidationError, what: str, known: Iterable[str]) -> TaskError:
    """Every fault of a task's table at once; `known` are the words that it may have."""
    options = list(known)
    faults = faults_of(error, lambda one: _fault(one, what, options))
    return TaskError(f"{where}: " + (faults[0] if len(faults) == 1 else "".join(f"\n  - {one}" for one in faults)))


def _fault(error: Any, what: str, known: Sequence[str]) -> str:
    where = place_of(error)
    if error["type"] == "extra_forbidden":
        return unknown(f"word of a {what}", str(error["loc"][-1]), known)
    if error["type"] == "missing":
        return f"{where} is missing"
    return f"{where}: {reason_of(error)}"
