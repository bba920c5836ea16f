"""Picture tasks over the Hub's real clients: parquet and folders of pictures, and what goes wrong on the way."""

import io

import numpy as np
import pytest
import yaml
from PIL import Image

from smelt.models.verified_download import WrongHash
from smelt.tasks.pictures.splits import open_split
from smelt.tasks.registry import find_task
from smelt.tasks.task import TaskError
from stand_in_hub.server import Fault


def png(red):
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), (red, 0, 0)).save(buffer, "PNG")
    return buffer.getvalue()


def parquet(reds):
    import datasets

    rows = {"image": [{"bytes": png(red), "path": None} for red in reds], "label": [red % 2 for red in reds]}
    buffer = io.BytesIO()
    datasets.Dataset.from_dict(rows).cast_column("image", datasets.Image()).to_parquet(buffer)
    return buffer.getvalue()


@pytest.fixture
def task(tmp_path):
    def make(dataset):
        folder = tmp_path / dataset.replace("/", "-")
        folder.mkdir()
        words = {"dataset": dataset, "splits": {"test": "test"}, "image": "image", "label": "label"}
        content = {"name": "two", "version": 1, "classes": ["even", "odd"], "templates": ["a {}"], "data": words}
        (folder / "task.yaml").write_text(yaml.safe_dump(content))
        return find_task(folder)

    return make


@pytest.mark.parametrize("layout", ["parquet", "folders"])
def test_pictures_and_labels_come_from_either_layout(stand_in, task, layout):
    name = f"data/{layout}"
    files = {
        "parquet": {"data/test-00000-of-00001.parquet": parquet([10, 201])},
        "folders": {"test/even/a.png": png(10), "test/odd/b.png": png(201)},
    }
    stand_in.contents.add_dataset(name, files[layout])
    split = open_split(task(name), "test")
    assert split.labels.tolist() == [0, 1]
    assert np.asarray(split.read([1])[0]).reshape(-1, 3)[0].tolist() == [201, 0, 0]


def test_a_parquet_file_with_another_hash_is_refused_and_comes_whole_the_next_time(stand_in, task):
    stand_in.contents.add_dataset("data/wrong", {"data/test-00000-of-00001.parquet": parquet([10, 201])})
    stand_in.faults["data/wrong", "data/test-00000-of-00001.parquet"] = Fault(wrong_bytes=True)
    one = task("data/wrong")
    with pytest.raises((WrongHash, TaskError), match="data/wrong"):
        open_split(one, "test")
    assert open_split(one, "test").labels.tolist() == [0, 1]


def test_a_name_that_is_not_there_and_a_gated_one_are_told(stand_in, task):
    stand_in.contents.add_dataset("data/gated", {"data/test-00000-of-00001.parquet": parquet([1])}, gated=True)
    with pytest.raises(TaskError, match=r"two: the data set 'data/none' is not on the Hugging Face Hub"):
        open_split(task("data/none"), "test")
    with pytest.raises(TaskError, match=r"two: the data set 'data/gated' is gated: ask for access"):
        open_split(task("data/gated"), "test")
