"""Pictures of questions come from files, from picture tasks, and as grids of both."""

import numpy as np
import pytest

from pico_clip import write_task
from question_sets import question, write_set
from smelt.errors import CorruptFile
from smelt.tasks.pictures.data_cache import DataCache
from smelt.tasks.pictures.task import PictureTask
from smelt.tasks.questions.option_scores import question_subset
from smelt.tasks.questions.pictures import Pictures, grid
from smelt.tasks.questions.task import QuestionTask
from smelt.tasks.task import TaskError


def plain(value, side=4):
    return np.full((side, side, 3), value, dtype=np.uint8)


def test_a_grid_has_the_size_of_its_first_cell_and_white_where_a_cell_is_missing():
    found = grid([plain(10), plain(20, side=9), plain(30)], columns=2)
    assert found.shape == (4, 4, 3)
    assert found[:2, :2].mean() == 10
    assert found[:2, 2:].mean() == 20
    assert found[2:, :2].mean() == 30
    assert found[2:, 2:].mean() == 255


def test_cells_are_resized_bilinearly_and_share_what_does_not_divide():
    step = np.repeat(np.array([0, 0, 200, 200], dtype=np.uint8), 4).reshape(4, 4).T[..., None].repeat(3, axis=2)
    assert grid([step], columns=1).tolist() == step.tolist()
    assert [int(row) for row in grid([plain(1, 5), plain(2), plain(3)], columns=3)[0, :, 0]] == [1, 2, 2, 3, 3]
    with pytest.raises(TaskError, match="1 rows and 5 columns does not fit 4×4"):
        grid([plain(0)] * 5, columns=5)


def test_files_tasks_and_grids_are_read(tmp_path):
    task, data = write_task(tmp_path / "plain"), DataCache()
    place = [str(task), "test", 3]
    folder = write_set(tmp_path / "set", [question(0)])
    pictures = Pictures(folder, data)
    stored = data.split(PictureTask.load(task), "test").read([3])[0]
    assert pictures.read(place).tolist() == stored.tolist()
    red = pictures.read("red.png")
    assert red.shape == (8, 8, 3)
    assert red[..., 0].mean() > 200
    both = pictures.read({"grid": [place, {"grid": ["red.png", "red.png"], "columns": 1}], "columns": 2})
    assert both.shape == (8, 8, 3)
    assert both[:, 4:, 0].mean() > 200


def test_a_picture_that_a_task_does_not_have_is_refused_with_the_line_of_its_question(tmp_path):
    task = write_task(tmp_path / "plain")
    beyond = question(1, picture={"grid": ["red.png", [str(task), "test", 30]]})
    with pytest.raises(
        TaskError, match=r"line 2: there is no picture 30 in the test split of .*plain, which has 30 \(0 to 29\)"
    ):
        question_subset(QuestionTask.load(write_set(tmp_path / "set", [question(0), beyond])), "test")
    for place, fault in (
        ([str(task), "train", 0], "no split named 'train'"),
        (["plane", "test", 0], "no task named 'plane'"),
    ):
        folder = write_set(tmp_path / "set", [question(0, picture=place)])
        with pytest.raises(TaskError, match=f"line 1: its picture cannot be found: .*{fault}"):
            question_subset(QuestionTask.load(folder), "test")


def test_a_file_that_is_no_picture_is_named(tmp_path):
    (tmp_path / "bad.png").write_bytes(b"no picture")
    with pytest.raises(CorruptFile, match=r"bad\.png: cannot be read as a picture"):
        Pictures(tmp_path, DataCache()).read("bad.png")
