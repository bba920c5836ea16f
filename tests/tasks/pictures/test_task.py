from __future__ import annotations

from pathlib import Path

import pytest

from pico_clip import write_task
from smelt.tasks.pictures.task import PictureTask
from smelt.tasks.task import TaskError


def test_a_folder_is_a_task(tmp_path: Path) -> None:
    task = PictureTask.load(write_task(tmp_path / "colours"))
    assert (task.name, task.version, task.classes) == ("colours", 1, ("red", "green", "blue"))
    assert (task.splits, task.size, task.folder) == (("val", "test"), 8, tmp_path / "colours")
    assert task.licence == "CC0."


def test_its_yaml_file_is_the_same_task(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "colours")
    assert PictureTask.load(folder / "task.yaml") == PictureTask.load(folder)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"classes": ["red", "green", "red"]}, "lists 'red' more than once"),
        ({"classes": ["red", 5]}, "classes: entry 1 is 5, which is not text; write it in quotes"),
        ({"classes": ["yes", True]}, "entry 1 is True, which is not text"),
        ({"classes": []}, "classes: is a list with at least one entry"),
        ({"classes": ["red", " "]}, "entry 1 is empty"),
        ({"templates": ["a photo"]}, "'a photo' needs one {} where the class's name goes"),
        ({"templates": ["{} and {}"]}, "needs one {}"),
        ({"clases": []}, "no word of a task named 'clases' (did you mean 'classes'?)"),
        ({"data": {"mosaic": {}}}, "data: takes exactly one of mosaics, dataset, folder"),
        ({"data": {"folder": "x", "dataset": "y"}}, "data: takes exactly one of"),
        ({"data": {"mosaics": {}, "labels": "x"}}, "data"),
        ({"name": "a/b"}, "name: "),
        ({"version": 0}, "version: "),
    ],
)
def test_a_wrong_word_is_refused_with_its_reason(tmp_path: Path, words: dict[str, object], message: str) -> None:
    folder = write_task(tmp_path / "colours", **words)
    with pytest.raises(TaskError) as error:
        PictureTask.load(folder)
    assert message in str(error.value)
    assert str(folder / "task.yaml") in str(error.value)


def test_all_faults_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(TaskError) as error:
        PictureTask.load(write_task(tmp_path / "colours", version=0, templates=["x"], size=-1))
    assert len(str(error.value).splitlines()) == 4


@pytest.mark.parametrize("content", ["[1, 2]", "a: [", "\xff"])
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "task.yaml").write_text(content, encoding="latin-1")
    with pytest.raises(TaskError, match=r"task\.yaml"):
        PictureTask.load(tmp_path)


def test_a_folder_without_a_task_says_so(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"no such task \(a folder with a task\.yaml\)"):
        PictureTask.load(tmp_path)


def test_a_split_that_is_not_there_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"colours: no split named 'tets' \(did you mean 'test'\?\)"):
        PictureTask.load(write_task(tmp_path / "colours")).check_split("tets")


@pytest.mark.parametrize(
    "text", ["License: MIT, by us", "- **Licence:** MIT, by us", "## License\n\nMIT,\nby us\n\nmore"]
)
def test_the_licence_is_found_however_it_is_written(tmp_path: Path, text: str) -> None:
    folder = write_task(tmp_path / "colours")
    (folder / "README.md").write_text(f"# Colours\n\n{text}\n")
    assert PictureTask.load(folder).licence == "MIT, by us"
