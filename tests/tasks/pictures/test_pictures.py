from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pico_clip import COLOURS, PROCESSOR, colour_pictures, write_task
from smelt.models.families.preprocess import Preprocess
from smelt.tasks.pictures.data_cache import DataCache
from smelt.tasks.pictures.splits import Split
from smelt.tasks.pictures.task import PictureTask
from smelt.tasks.task import TaskError

SAME = Preprocess.parse(PROCESSOR)
LARGER = Preprocess.parse({**PROCESSOR, "size": 16, "crop_size": 16})


class Counted(Split):
    """A split that counts how often its pictures are read."""

    def __init__(self) -> None:
        self.pictures, self.labels = colour_pictures(dict.fromkeys(COLOURS, 10))
        self.reads = 0

    def read(self, indices: object) -> object:
        self.reads += len(indices)  # type: ignore[arg-type]
        return list(self.pictures[indices])


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    split = Counted()
    monkeypatch.setattr("smelt.tasks.pictures.data_cache.open_split", lambda task, name, stored: split)
    return split


@pytest.fixture
def task(tmp_path: Path) -> PictureTask:
    return PictureTask.load(write_task(tmp_path / "colours"))


@pytest.mark.parametrize("size", [1, 7, 30, 100])
def test_batches_hold_every_picture_once_and_in_order(task: PictureTask, size: int) -> None:
    pictures, labels = colour_pictures(dict.fromkeys(COLOURS, 10), seed=1)
    batches = list(DataCache().subset(task, "test", None, SAME).batches(size))
    assert np.array_equal(np.concatenate([b for b, _ in batches]), pictures)
    assert np.array_equal(np.concatenate([numbers for _, numbers in batches]), labels)
    assert [len(b) for b, _ in batches][:-1] == [size] * (len(batches) - 1)


def test_pictures_of_another_size_are_resized(task: PictureTask) -> None:
    ((pictures, _),) = DataCache().subset(task, "test", 12, LARGER).batches(100)
    assert pictures.shape == (12, 16, 16, 3)


def test_what_fits_is_read_once(task: PictureTask, counted: Counted) -> None:
    data = DataCache()
    for _ in range(3):
        first = list(data.subset(task, "test", None, LARGER).batches(8, keep=data.free_bytes))
    assert counted.reads == 30
    assert [len(pictures) for pictures, _ in first] == [8, 8, 8, 6]
    assert data.free_bytes == (2 << 30) - 30 * 16 * 16 * 3


def test_what_does_not_fit_is_streamed_again(task: PictureTask, counted: Counted) -> None:
    data = DataCache(memory=30 * 16 * 16 * 3 - 1)
    runs = [list(data.subset(task, "test", None, LARGER).batches(8, keep=data.free_bytes)) for _ in range(2)]
    assert counted.reads == 60
    assert all(np.array_equal(a, b) for (a, _), (b, _) in zip(*runs, strict=True))


def test_a_run_that_is_left_early_keeps_nothing(task: PictureTask, counted: Counted) -> None:
    part = DataCache().subset(task, "test", None, LARGER)
    for _ in part.batches(4, keep=1 << 30):
        break
    assert part.nbytes == 0
    assert sum(len(pictures) for pictures, _ in part.batches(4)) == 30


def test_a_limit_takes_the_same_balanced_part_every_time(task: PictureTask) -> None:
    first, second = (DataCache().subset(task, "test", 9, SAME) for _ in range(2))
    assert np.bincount(first.labels).tolist() == [3, 3, 3]
    assert np.array_equal(next(first.batches(9))[0], next(second.batches(9))[0])


def test_a_task_that_was_edited_is_another_task(task: PictureTask) -> None:
    data = DataCache()
    assert data.split(task, "test") is data.split(PictureTask.load(task.folder), "test")
    fewer = PictureTask.parse({**task.model_dump(), "classes": ["red", "green"]}, folder=task.folder)
    with pytest.raises(TaskError, match="class list has 2 entries"):
        data.split(fewer, "test")
