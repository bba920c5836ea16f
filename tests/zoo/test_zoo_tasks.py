"""The tasks: enough pictures, labels that are classes, and no picture in two splits."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
import pytest

import smelt_zoo
from smelt.tasks.groups import GROUPS
from smelt.tasks.intervals import wilson
from smelt.tasks.pictures.splits import ArraySplit, open_split
from smelt.tasks.pictures.task import PictureTask
from smelt.tasks.registry import find_tasks

TASKS = list(smelt_zoo.tasks())
EIGHT = list(GROUPS["clip8"])
TARGETS = [name for name in TASKS if name not in EIGHT]
"""Tasks that nothing is trained for."""
SPLITS = [(name, which) for name in TASKS for which in ("train", "val", "test") if which != "train" or name in EIGHT]
UNTESTED = {"emoji": {"cat face"}}
"""Classes that no held-out picture shows."""


@cache
def task(name: str) -> PictureTask:
    return PictureTask.load(smelt_zoo.tasks()[name])


@cache
def split(name: str, which: str) -> ArraySplit:
    opened = open_split(task(name), which)  # refuses a mosaic of another size and a label outside the class list
    assert isinstance(opened, ArraySplit)
    return opened


def test_a_group_means_the_eight_tasks_that_models_are_trained_for() -> None:
    assert [one.name for one in find_tasks("clip8")] == EIGHT
    assert [name for name in TASKS if "train" in task(name).splits] == sorted(EIGHT)
    assert len(TARGETS) == 9


@pytest.mark.parametrize("name", TARGETS)
def test_a_task_that_nothing_is_trained_for_has_hundreds_of_pictures_and_says_so(name: str) -> None:
    assert 200 <= len(split(name, "test")) <= 1_000
    assert 100 <= len(split(name, "val")) <= 300
    assert "no model of the zoo was trained for this task" in task(name).readme
    assert task(name).licence


@pytest.mark.parametrize("name", EIGHT)
def test_there_are_enough_pictures_to_tell_models_apart(name: str) -> None:
    test, val = split(name, "test"), split(name, "val")
    assert len(test) >= 1_500
    assert len(val) >= 500
    low, high = wilson(len(test) // 2, len(test))
    assert (high - low) / 2 < 0.025


@pytest.mark.parametrize(("name", "which"), SPLITS)
def test_pictures_can_be_read_and_differ(name: str, which: str) -> None:
    part = split(name, which)
    assert part.pictures.shape == (len(part.labels), 32, 32, 3)
    assert part.pictures.dtype == np.uint8
    assert (part.pictures.reshape(len(part), -1).std(axis=1) > 1).all()  # none is a plain square


@pytest.mark.parametrize("name", TASKS)
def test_every_class_has_pictures_to_learn_from_and_to_be_tested_on(name: str) -> None:
    classes = task(name).classes
    assert len(set(classes)) == len(classes)
    for which, without in (("train", set()), ("test", UNTESTED.get(name, set()))):
        if (name, which) not in SPLITS:
            continue
        shown = set(split(name, which).labels.tolist())
        assert {classes[number] for number in range(len(classes)) if number not in shown} == without


@pytest.mark.parametrize("name", TASKS)
def test_no_picture_stands_in_two_splits(name: str) -> None:
    """To the last pixel, after decoding; a lossy mosaic could hide one."""
    pictures = [{p.tobytes() for p in split(name, which).pictures} for one, which in SPLITS if one == name]
    assert not any(one & other for one, other in combinations(pictures, 2))


@pytest.mark.parametrize("name", TASKS)
def test_the_prompts_name_the_class_in_words_that_the_tokenizer_knows(name: str) -> None:
    from transformers import AutoTokenizer

    words = AutoTokenizer.from_pretrained(smelt_zoo.models()["clip-tiny"])
    prompts = [template.format(one) for template in task(name).templates for one in task(name).classes]
    ids = words(prompts)["input_ids"]
    assert max(map(len, ids)) <= 32
    inner = [number for prompt in ids for number in prompt[1:-1]]
    assert words.unk_token_id not in inner
    assert len({tuple(prompt) for prompt in ids}) == len(prompts)  # no two classes look the same to the model


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_is_learned_or_tuned_from_a_picture_that_is_tested_elsewhere(name: str) -> None:
    """Tests may share pictures: kinds asks another question about the sketches of the task sketches."""
    mine = {p.tobytes() for p in split(name, "test").pictures}
    for other, which in SPLITS:
        if which != "test":
            assert not mine & {p.tobytes() for p in split(other, which).pictures}, (other, which)
