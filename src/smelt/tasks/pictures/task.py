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

Nothing here opens a picture; `splits.py` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

from pydantic import (
    BeforeValidator,
    Field,
    field_validator,
    model_validator,
)

from smelt.files.schema import Strict
from smelt.tasks.kinds import TaskKind, task_kinds
from smelt.tasks.task import FileTask, TaskError

if TYPE_CHECKING:
    from smelt.tasks.corruptions.corruption import Corruption
    from smelt.tasks.pictures.classify import PreparedPictures
    from smelt.tasks.pictures.data_cache import DataCache
    from smelt.tasks.pictures.examples import PictureExamples

__all__ = ["FolderData", "HubData", "MosaicData", "PictureTask"]


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
    corrupted: dict[str, str] = {}
    """Kinds of corruption -> the splits that hold the test pictures so damaged, where the data set has some."""
    middle_of: Annotated[list[str], Field(min_length=1)] | None = None
    """Columns by which rows that follow each other are frames of one video; the middle one of each is taken."""
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


class PictureTask(FileTask):
    """What is asked of a model: to tell these classes apart in these pictures."""

    kind: ClassVar[str] = "pictures"
    called: ClassVar[str] = "a task of pictures"
    unit: ClassVar[str] = "picture"
    model_kind: ClassVar[str] = "classifier"
    has_examples: ClassVar[bool] = True
    corruption_refusal: ClassVar[str | None] = None
    FILE: ClassVar[str] = "task.yaml"
    NOUN: ClassVar[str] = "task"
    NEEDED: ClassVar[str] = "name, classes, templates and data"

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    version: Annotated[int, Field(ge=1)] = 1
    title: str = ""
    classes: tuple[str, ...]
    templates: tuple[str, ...]
    size: Annotated[int, Field(ge=1)] | None = None
    """The side of the stored pictures in pixels, where all have the same."""
    data: TaskData

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

    @property
    def has_options(self) -> bool:
        return True

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

    def data_sets(self) -> list[tuple[str, str | None]]:
        match self.data:
            case HubData(dataset=name, config=config) if not (self.folder / name).is_dir():
                return [(name, config)]
            case _:
                return []

    def count(self, split: str) -> int | None:
        from smelt.tasks.pictures.splits import count

        return count(self, split)

    def check_request(self, split: str, limit: int | None, corruption: Corruption | None) -> None:
        super().check_request(split, limit, corruption)
        if corruption is not None and corruption.stored:
            self.stored_split(split, corruption)

    def stored_split(self, split: str, corruption: Corruption) -> str:
        """The split of the data set that holds the damaged pictures of one of ours."""
        known = self.data.corrupted if isinstance(self.data, HubData) and split == "test" else {}
        if corruption.kind not in known:
            has = f"it has {', '.join(known)}" if known else f"its {split} split has none"
            raise TaskError(
                f"{self.name}: {self.source} stores no pictures with {corruption.kind} ({has}); "
                f"{corruption.kind}@3 has them damaged here"
            )
        return known[corruption.kind]

    def number_of_examples(self, split: str, data: DataCache) -> int:
        return len(data.split(self, split))

    def prepare(
        self, split: str, *, limit: int | None, data: DataCache, corruption: Corruption | None = None
    ) -> PreparedPictures:
        from smelt.tasks.pictures.classify import PreparedPictures

        data.split(self, split, corruption)
        return PreparedPictures(self, split, limit, data, corruption)

    def examples(
        self,
        model: Any,
        split: str,
        *,
        count: int | None = None,
        data: DataCache | None = None,
        corruption: Corruption | None = None,
    ) -> PictureExamples:
        """With a corruption the pictures are damaged before the model's own resize, and the budget says so."""
        from smelt.tasks.pictures.examples import picture_examples

        return picture_examples(model, self, split, count=count, data=data, corruption=corruption)

    @property
    def summary(self) -> str:
        return f"{len(self.classes):>4} classes  {self.title}"

    def words(self) -> dict[str, Any]:
        return {"kind": self.kind, **self.model_dump(mode="json", exclude={"data"})}

    def first_lines(self) -> list[str]:
        return [f"pictures:   {self.source}" + (f", {self.size}×{self.size}" if self.size else "")]

    def last_lines(self) -> list[str]:
        width = len(str(len(self.classes) - 1))
        return [
            "templates:",
            *(f"  {template}" for template in self.templates),
            f"classes ({len(self.classes)}):",
            *(f"  {number:>{width}} {name}" for number, name in enumerate(self.classes)),
        ]


task_kinds["pictures"] = TaskKind(PictureTask.load, file=PictureTask.FILE)
