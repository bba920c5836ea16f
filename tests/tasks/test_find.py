from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from pico_clip import write_task
from smelt.errors import MissingExtra
from smelt.tasks.groups import GROUPS
from smelt.tasks.pictures.task import PictureTask
from smelt.tasks.registry import find_task, find_tasks, list_tasks
from smelt.tasks.task import TaskError

PUBLIC = {
    "sun397": (397, 2), "stanford_cars": (196, 8), "resisc45": (45, 18), "eurosat": (10, 3), "svhn": (10, 1),
    "gtsrb": (43, 3), "mnist": (10, 1), "dtd": (47, 8),
    "oxford_flowers102": (102, 1), "pcam": (2, 1), "fer2013": (7, 6), "oxford_iiit_pet": (37, 1), "stl10": (10, 2),
    "cifar100": (100, 18),
    "cifar10": (10, 18), "food101": (101, 1), "fashion_mnist": (10, 2), "emnist_letters": (26, 1), "kmnist": (10, 1),
    "rendered_sst2": (2, 1),
}  # fmt: skip


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A zoo with all eight tasks, though each shows colours."""
    module = ModuleType("smelt_zoo")
    folders = {name: write_task(tmp_path / "zoo" / name) for name in GROUPS["clip8"]}
    module.tasks = lambda: folders  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "smelt_zoo", module)
    return tmp_path / "zoo"


@pytest.fixture
def no_zoo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "smelt_zoo", None)


@pytest.mark.parametrize("name", PUBLIC)
def test_the_public_tasks_have_the_papers_classes_and_templates(name: str) -> None:
    task = find_task(name)
    assert (len(task.classes), len(task.templates)) == PUBLIC[name]
    assert task.licence
    assert {"train", "test"} <= set(task.splits)


def test_a_group_is_its_tasks_in_order(no_zoo: None) -> None:
    for group, count in {"TA8": 8, "TALL14": 14, "TALL20": 20}.items():
        assert [task.name for task in find_tasks(group)] == list(PUBLIC)[:count]


def test_the_zoos_tasks_stand_beside_the_public_ones(zoo: Path) -> None:
    assert {*GROUPS["clip8"], *PUBLIC} <= list_tasks().keys()
    assert [task.name for task in find_tasks("clip8")] == list(GROUPS["clip8"])
    assert find_task("photos").folder == zoo / "photos"


def test_names_paths_and_lists_can_be_mixed(zoo: Path, tmp_path: Path) -> None:
    own = write_task(tmp_path / "mine")
    found = find_tasks(["photos, mnist", own, PictureTask.load(own), "photos"])
    assert [task.name for task in found] == ["photos", "mnist", "mine"]


def test_a_path_in_a_comma_list_works(zoo: Path, tmp_path: Path) -> None:
    assert [task.name for task in find_tasks(f"photos,{write_task(tmp_path / 'mine')}")] == ["photos", "mine"]


def test_an_unknown_task_gets_a_suggestion(zoo: Path) -> None:
    with pytest.raises(TaskError, match=r"no task named 'phtoos' \(did you mean 'photos'\?\)"):
        find_tasks("digits,phtoos")


def test_without_the_zoo_its_tasks_say_what_to_install(no_zoo: None) -> None:
    with pytest.raises(MissingExtra, match=r"pip install \./zoo"):
        find_tasks("clip8")


def test_a_task_of_the_part_of_the_zoo_that_is_not_installed_says_what_to_install(
    zoo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"language": ["maths"], "questions": ["objects"]}
    monkeypatch.setattr(sys.modules["smelt_zoo"], "names_in_more", lambda: names, raising=False)
    for name in ("maths", "objects", "photos,maths"):
        with pytest.raises(MissingExtra, match=r"the task '\w+' lies in the rest .* `pip install \./zoo-more`"):
            find_tasks(name)
    with pytest.raises(TaskError, match=r"no task named 'mahts' \(did you mean 'maths'\?\)"):
        find_tasks("mahts")


def test_two_tasks_of_one_name_are_refused(zoo: Path, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="two tasks are named 'photos'"):
        find_tasks(["photos", write_task(tmp_path / "photos")])


@pytest.mark.parametrize("nothing", [[], ",", ""])
def test_nothing_is_refused(nothing: object) -> None:
    with pytest.raises(TaskError):
        find_tasks(nothing)  # type: ignore[arg-type]
