"""Splits: the labels of one split of a task, and its pictures by index, from any of the three kinds of data."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import CorruptFile, MissingExtra, shortened, unknown
from smelt.files.reading import is_there
from smelt.models.verified_download import WrongHash, hub_fault, verified_data_sets
from smelt.tasks.pictures.held_out import held_out
from smelt.tasks.pictures.mosaic import pillow, read_mosaic, read_picture
from smelt.tasks.pictures.task import FolderData, HubData, MosaicData, PictureTask
from smelt.tasks.task import TaskError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from smelt.tasks.corruptions.corruption import Corruption

__all__ = ["ArraySplit", "Split", "count", "open_split"]

_PICTURES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"})


class Split(ABC):
    """Pictures of a task with their labels. `read` may be called from several threads at once."""

    labels: NDArray[np.int64]

    @abstractmethod
    def read(self, indices: Sequence[int] | NDArray[np.int64]) -> Sequence[NDArray[np.uint8]]:
        """Pictures [height, width, 3] as bytes."""

    def __len__(self) -> int:
        return len(self.labels)


def open_split(task: PictureTask, split: str, stored: Corruption | None = None) -> Split:
    """Open one split of a task; every label is one of the task's classes.

    `stored` is a corruption whose pictures the data set holds: those are opened.
    """
    task.check_split(split)
    opened: Split
    match task.data:
        case MosaicData() as data:
            opened = _open_mosaic(task, split, data)
        case HubData() as data:
            opened = _HubSplit(task, split, data, None if stored is None else task.stored_split(split, stored))
        case FolderData() as data:
            opened = _FileSplit(task, split, task.folder / data.folder / split)
    _check_labels(opened.labels, task, split)
    return opened


def count(task: PictureTask, split: str) -> int | None:
    """The number of pictures of a split, where it is known without a download."""
    task.check_split(split)
    match task.data:
        case MosaicData() as data:
            return len(_read_labels(task.folder / data.labels, split))
        case FolderData():
            return len(open_split(task, split))
        case HubData():
            return None


def _check_labels(labels: NDArray[np.int64], task: PictureTask, split: str) -> None:
    where = f"{task.name}/{split}"
    if not len(labels):
        raise TaskError(f"{where}: holds no pictures")
    outside = (labels < 0) | (labels >= len(task.classes))
    if outside.any():
        first = int(outside.argmax())
        raise TaskError(
            f"{where}: picture {first} has the label {int(labels[first])}, but the class list has {len(task.classes)} "
            f"entries (0 to {len(task.classes) - 1}); {int(outside.sum())} labels are outside it"
        )


class ArraySplit(Split):
    """Pictures of one size in memory: [n, height, width, 3]."""

    def __init__(self, pictures: NDArray[np.uint8], labels: NDArray[np.int64]):
        self.pictures, self.labels = pictures, labels

    def read(self, indices: Sequence[int] | NDArray[np.int64]) -> Sequence[NDArray[np.uint8]]:
        return self.pictures[indices]  # type: ignore[return-value]  # an array is a sequence of its rows


def _open_mosaic(task: PictureTask, split: str, data: MosaicData) -> ArraySplit:
    if task.size is None:
        raise TaskError(f"{task.name}: a task with mosaics gives the `size` of their tiles")
    labels = _read_labels(task.folder / data.labels, split)
    return ArraySplit(read_mosaic(task.folder / data.mosaics[split], len(labels), task.size), labels)


def _read_labels(path: Path, split: str) -> NDArray[np.int64]:
    import numpy as np

    from smelt.files.npz_reader import read_npz

    if not is_there(path):
        raise TaskError(f"{shortened(str(path))}: the labels are not there")
    arrays = read_npz(path, "labels")
    if split not in arrays:
        raise TaskError(f"{path}: {unknown('split', split, arrays)}")
    labels = arrays[split]
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise CorruptFile(f"{path}: labels are one row of whole numbers, got {labels.dtype} of shape {labels.shape}")
    whole: NDArray[np.int64] = labels.astype(np.int64)
    return whole


class _FileSplit(Split):
    """Plain picture files under one folder per class."""

    def __init__(self, task: PictureTask, split: str, folder: Path):
        import numpy as np

        self._task, self._size = task.name, task.size
        self._files: list[Path] = []
        labels: list[int] = []
        number = {name: index for index, name in enumerate(task.classes)}
        for place in sorted(path for path in folder.iterdir() if path.is_dir()):
            if place.name not in number:
                raise TaskError(f"{place}: {unknown('class', place.name, task.classes)}")
            files = sorted(path for path in place.iterdir() if path.suffix.lower() in _PICTURES)
            self._files += files
            labels += [number[place.name]] * len(files)
        self.labels = np.array(labels, dtype=np.int64)

    def read(self, indices: Sequence[int] | NDArray[np.int64]) -> Sequence[NDArray[np.uint8]]:
        return [self._read(self._files[index]) for index in indices]

    def _read(self, path: Path) -> NDArray[np.uint8]:
        pixels = read_picture(path)
        if self._size is not None and pixels.shape[:2] != (self._size, self._size):
            raise TaskError(
                f"{path}: is {pixels.shape[1]}×{pixels.shape[0]}, but the task {self._task} says size: {self._size}; "
                "leave `size` out where pictures differ"
            )
        return pixels


class _HubSplit(Split):
    """A split of a data set of the Hugging Face hub, or of a folder with its parquet files; decoded when read."""

    def __init__(self, task: PictureTask, split: str, data: HubData, theirs: str | None = None):
        """`theirs` is the data set's name of the split, where it is not the one that `data` says."""
        import numpy as np

        pillow()
        self._image = data.image
        self._rows = _load_dataset(task, split, data, theirs)
        columns = self._rows.column_names
        for column in (data.image, data.label, *(data.middle_of or ())):
            if column not in columns:
                raise TaskError(f"{task.name}: {data.dataset}: {unknown('column', column, columns)}")
        if data.middle_of is not None:
            self._rows = self._rows.select(
                _middles(list(zip(*(self._rows[one] for one in data.middle_of), strict=True)))
            )
        names = getattr(self._rows.features[data.label], "names", None)
        if names is not None and len(names) != len(task.classes):
            raise TaskError(
                f"{task.name}: {data.dataset} has {len(names)} classes, but the class list has {len(task.classes)}"
            )
        self.labels = np.asarray(self._rows[data.label], dtype=np.int64)
        if data.held_out is not None and split in ("train", "val"):
            places = set(held_out(self.labels.tolist(), data.held_out.fraction, data.held_out.seed))
            own = [place for place in range(len(self.labels)) if (place in places) == (split == "val")]
            self._rows, self.labels = self._rows.select(own), self.labels[own]

    def read(self, indices: Sequence[int] | NDArray[np.int64]) -> Sequence[NDArray[np.uint8]]:
        import numpy as np

        pictures = self._rows[[int(index) for index in indices]][self._image]
        return [np.asarray(picture.convert("RGB")) for picture in pictures]


def _load_dataset(task: PictureTask, split: str, data: HubData, theirs: str | None) -> Any:
    try:
        import datasets
    except ImportError:
        raise MissingExtra(
            f"{task.name}: reading {data.dataset} needs the datasets library: pip install 'smelt[clip]'"
        ) from None
    local = task.folder / data.dataset
    name = str(local) if local.is_dir() else data.dataset
    theirs = theirs or data.splits["train" if split == "val" and data.held_out is not None else split]
    made: list[Any] = []
    try:
        with verified_data_sets():
            made.append(datasets.load_dataset(name, data.config, split=theirs, revision=data.revision))
    except WrongHash:
        for folder in {Path(one["filename"]).parent for rows in made for one in rows.cache_files}:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    except Exception as error:  # whatever the library, the hub and the network raise
        if (reason := hub_fault(error)) is not None:
            raise TaskError(f"{task.name}: the data set {data.dataset!r} {reason}") from error
        raise TaskError(
            f"{task.name}: the data set {data.dataset!r} is not in the local cache and could not be loaded "
            f"({type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no reason given'}); "
            "check its name and the network"
        ) from error
    return made[0]


def _middles(videos: Sequence[tuple[Any, ...]]) -> list[int]:
    """The place of the middle one of every run of equal entries."""
    starts = [place for place in range(len(videos)) if place == 0 or videos[place] != videos[place - 1]]
    return [(start + end) // 2 for start, end in zip(starts, [*starts[1:], len(videos)], strict=True)]
