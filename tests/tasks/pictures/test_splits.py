from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pico_clip import COLOURS, colour_pictures, write_task
from smelt.errors import CorruptFile, SmeltError
from smelt.tasks.corruptions.corruption import Corruption
from smelt.tasks.groups import GROUPS
from smelt.tasks.pictures.data_cache import DataCache
from smelt.tasks.pictures.splits import count, open_split
from smelt.tasks.pictures.task import HeldOut, HubData, PictureTask
from smelt.tasks.registry import picture_task
from smelt.tasks.task import TaskError


def picture_folder(root: Path, **words: object) -> PictureTask:
    """A task of plain files: two red, one blue; sizes 8 and 5×6."""
    folder = write_task(root / "files", size=None, data={"folder": "pictures"}, **words)
    for name, (colour, size) in {
        "red/a": ("red", (8, 8)),
        "red/b": ("red", (5, 6)),
        "blue/a": ("blue", (8, 8)),
    }.items():
        path = folder / "pictures" / "test" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size, COLOURS[colour]).save(path)
    return PictureTask.load(folder)


def test_a_mosaic_split_has_the_pictures_and_labels_that_were_packed(tmp_path: Path) -> None:
    split = open_split(PictureTask.load(write_task(tmp_path / "colours")), "test")
    pictures, labels = colour_pictures(dict.fromkeys(COLOURS, 10), seed=1)
    assert np.array_equal(split.labels, labels)
    assert np.array_equal(split.read([5, 2]), pictures[[5, 2]])


def test_a_folder_split_has_a_folder_per_class(tmp_path: Path) -> None:
    task = picture_folder(tmp_path)
    split = open_split(task, "test")
    assert split.labels.tolist() == [2, 0, 0]  # classes in the order of their folders' names, numbers as in the list
    assert [picture.shape for picture in split.read([0, 1, 2])] == [(8, 8, 3), (8, 8, 3), (6, 5, 3)]
    assert split.read([0])[0][0, 0].tolist() == [0, 0, 255]
    assert (task.splits, count(task, "test")) == (("test",), 3)


def test_a_class_folder_that_is_not_in_the_list_gets_a_suggestion(tmp_path: Path) -> None:
    task = picture_folder(tmp_path)
    (task.folder / "pictures" / "test" / "blu").mkdir()
    with pytest.raises(TaskError, match=r"no class named 'blu' \(did you mean 'blue'\?\)"):
        open_split(task, "test")


def test_a_file_of_the_wrong_size_is_named(tmp_path: Path) -> None:
    task = picture_folder(tmp_path)
    sized = PictureTask.parse({**task.model_dump(), "size": 8}, folder=task.folder)
    with pytest.raises(TaskError, match=r"b\.png: is 5×6, but the task files says size: 8"):
        open_split(sized, "test").read([0, 1, 2])


def test_a_file_that_is_no_picture_is_named(tmp_path: Path) -> None:
    task = picture_folder(tmp_path)
    (task.folder / "pictures" / "test" / "red" / "a.png").write_text("no picture")
    with pytest.raises(CorruptFile, match=r"a\.png: cannot be read as a picture"):
        open_split(task, "test").read([1])


def test_labels_outside_the_class_list_are_refused(tmp_path: Path) -> None:
    task = PictureTask.load(write_task(tmp_path / "colours", classes=["red", "green"]))
    with pytest.raises(TaskError, match=r"colours/test: picture \d+ has the label 2, but the class list has 2 entries"):
        open_split(task, "test")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"val": np.zeros(3, int)}, "no split named 'test'"),
        ({"test": np.zeros(30)}, "labels are one row of whole numbers, got float64"),
        ({"test": np.zeros((5, 6), int)}, "labels are one row of whole numbers"),
        ({"test": np.zeros(0, int)}, "holds no pictures|make a mosaic"),
        ({"test": np.zeros(300, int)}, "300 pictures of 8×8 make a mosaic of 800×24, but it is 800×8"),
        ({"test": np.array([None] * 30)}, "cannot be read as labels"),
    ],
)
def test_labels_that_do_not_fit_are_refused(tmp_path: Path, labels: dict[str, np.ndarray], message: str) -> None:
    folder = write_task(tmp_path / "colours")
    np.savez(folder / "labels.npz", **labels)
    with pytest.raises(SmeltError, match=message):
        open_split(PictureTask.load(folder), "test")


def test_a_damaged_or_missing_label_file_is_named(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "colours")
    (folder / "labels.npz").write_bytes(b"PK\x03\x04 no more")
    with pytest.raises(CorruptFile, match=r"labels\.npz: cannot be read as labels"):
        open_split(PictureTask.load(folder), "test")
    (folder / "labels.npz").unlink()
    with pytest.raises(TaskError, match=r"labels\.npz: the labels are not there"):
        open_split(PictureTask.load(folder), "test")


def test_a_data_set_of_the_hub_is_read_by_its_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets", reason="the extra `clip` is not installed")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    pictures, labels = colour_pictures(dict.fromkeys(COLOURS, 4))
    folder = write_task(
        tmp_path / "hub",
        data={"dataset": "rows", "splits": {"test": "train"}, "image": "picture", "label": "colour"},
    )
    features = datasets.Features({"picture": datasets.Image(), "colour": datasets.ClassLabel(names=list(COLOURS))})
    table = {"picture": [Image.fromarray(picture) for picture in pictures], "colour": labels.tolist()}
    (folder / "rows").mkdir()
    datasets.Dataset.from_dict(table, features=features).to_parquet(folder / "rows" / "train.parquet")
    task = PictureTask.load(folder)
    split = open_split(task, "test")
    assert split.labels.tolist() == labels.tolist()
    assert np.array_equal(np.stack(split.read(np.array([7, 0]))), pictures[[7, 0]])
    assert count(task, "test") is None

    fewer = PictureTask.parse({**task.model_dump(), "classes": ["red", "blue"]}, folder=folder)
    with pytest.raises(TaskError, match="has 3 classes, but the class list has 2"):
        open_split(fewer, "test")
    other = PictureTask.parse(
        {**task.model_dump(), "data": {**task.data.model_dump(), "label": "color"}}, folder=folder
    )
    with pytest.raises(TaskError, match=r"no column named 'color' \(did you mean 'colour'\?\)"):
        open_split(other, "test")


def test_val_of_data_that_are_sorted_by_class_has_every_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty of each colour, one colour after the other; the last tenth as stored would be blue alone."""
    datasets = pytest.importorskip("datasets", reason="the extra `clip` is not installed")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    public = picture_task("dtd")
    folder = write_task(tmp_path / "hub", data={**public.data.model_dump(), "dataset": "rows"})
    labels = np.repeat(np.arange(3), 20)
    pictures = [Image.new("RGB", (8, 8), (int(label), number, 0)) for number, label in enumerate(labels)]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=list(COLOURS))})
    table = datasets.Dataset.from_dict({"image": pictures, "label": labels.tolist()}, features=features)
    (folder / "rows").mkdir()
    for name in ("train", "test"):
        table.to_parquet(folder / "rows" / f"{name}.parquet")
    task = PictureTask.load(folder)
    assert task.splits == ("train", "val", "test")
    train, val, test = (open_split(task, split) for split in task.splits)
    assert (len(train), len(val), len(test)) == (54, 6, 60)
    assert set(val.labels.tolist()) == set(train.labels.tolist()) == {0, 1, 2}
    numbers = [[int(picture[0, 0, 1]) for picture in split.read(range(len(split)))] for split in (train, val)]
    assert sorted(numbers[0] + numbers[1]) == list(range(60))
    assert np.array_equal(labels[numbers[1]], val.labels)


@pytest.mark.parametrize("name", GROUPS["TA8"])
def test_public_tasks_hold_out_what_fusionbench_holds_out(name: str) -> None:
    task = picture_task(name)
    assert isinstance(task.data, HubData)
    assert task.data.held_out == HeldOut(fraction=0.1, seed=0)
    assert (task.splits, task.version) == (("train", "val", "test"), 2)


def test_a_second_val_beside_the_held_out_one_is_refused(tmp_path: Path) -> None:
    data = {"dataset": "rows", "splits": {"train": "train", "val": "val"}, "held_out": {}}
    with pytest.raises(TaskError, match="held_out takes `val` from `train`"):
        PictureTask.load(write_task(tmp_path / "hub", data=data))


def test_a_data_set_that_cannot_be_had_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets", reason="the extra `clip` is not installed")

    def no_network(*args: object, **words: object) -> None:
        raise ConnectionError("Couldn't reach the Hub")

    monkeypatch.setattr(datasets, "load_dataset", no_network)
    folder = write_task(tmp_path / "hub", data={"dataset": "tanganke/dtd", "splits": {"test": "test"}})
    with pytest.raises(
        TaskError, match=r"hub: the data set 'tanganke/dtd' is not in the local cache, and the .*Hub cannot be reached"
    ):
        open_split(PictureTask.load(folder), "test")


def test_pictures_that_a_data_set_stores_damaged_are_another_split_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = pytest.importorskip("datasets", reason="the extra `clip` is not installed")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    data = {"dataset": "rows", "splits": {"test": "test"}, "corrupted": {"jpeg": "jpeg_compression"}}
    folder = write_task(tmp_path / "hub", data=data)
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=list(COLOURS))})
    (folder / "rows").mkdir()
    for value, name in enumerate(("test", "jpeg_compression")):
        pictures = [Image.new("RGB", (8, 8), (value, 0, 0))] * 3
        table = datasets.Dataset.from_dict({"image": pictures, "label": [0, 1, 2]}, features=features)
        table.to_parquet(folder / "rows" / f"{name}-00000-of-00001.parquet")
    (folder / "rows" / "README.md").write_text(
        "---\nconfigs:\n- config_name: default\n  data_files:\n"
        "  - {split: test, path: test-*}\n  - {split: jpeg_compression, path: jpeg_compression-*}\n---\n"
    )
    task, data_cache = PictureTask.load(folder), DataCache()
    clean, damaged = (data_cache.split(task, "test", one) for one in (None, Corruption("jpeg", "stored")))
    assert [int(split.read([0])[0][0, 0, 0]) for split in (clean, damaged)] == [0, 1]
    with pytest.raises(TaskError, match=r"stores no pictures with contrast \(it has jpeg\); contrast@3 has them"):
        task.check_request("test", None, Corruption("contrast", "stored"))
    with pytest.raises(TaskError, match="stores no pictures with jpeg"):
        PictureTask.load(write_task(tmp_path / "plain")).check_request("test", None, Corruption("jpeg", "stored"))
