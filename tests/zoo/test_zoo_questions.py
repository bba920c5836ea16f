"""The question sets of mllm10 ask about test and validation pictures; their answers are the pictures' own labels."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

import smelt_zoo
from smelt.tasks.groups import GROUPS
from smelt.tasks.pictures.splits import open_split
from smelt.tasks.questions.records import Question, picture_places
from smelt.tasks.registry import find_task, picture_task

HELD_IN, HELD_OUT, VALIDATION = (GROUPS[name] for name in ("mllm10", "mllm10-out", "mllm10-val"))
ALL = (*HELD_IN, *HELD_OUT, *VALIDATION)
NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen"
).split()


@cache
def questions(name: str) -> list[Question]:
    task = find_task(name)
    (split,) = task.splits
    assert split == ("val" if name in VALIDATION else "test")
    return list(task.questions(split))


@cache
def labels(task: str, split: str) -> list[str]:
    found = picture_task(task)
    return [found.classes[number].lower() for number in open_split(found, split).labels]


def shown(reference: tuple[str, str, int]) -> str:
    task, split, number = reference
    return labels(task, split)[number]


def test_there_are_five_held_in_seven_held_out_and_three_validation_sets():
    assert (len(HELD_IN), len(HELD_OUT), len(VALIDATION)) == (5, 7, 3)
    assert set(smelt_zoo.questions()) == set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_a_set_has_as_many_different_questions_as_its_card_says(name):
    found = questions(name)
    there = {"printed-numbers": 120}  # that many pictures
    assert len(found) == there.get(name, 240 if name in VALIDATION else 400)
    assert len({str(one.picture) for one in found}) == len(found)  # no picture twice
    assert f"{len(found)} questions" in find_task(name).readme


@pytest.mark.parametrize("name", ALL)
def test_no_letter_is_right_much_more_often_than_its_turn(name):
    found = questions(name)
    counts = Counter(one.answer for one in found)
    expected = {letter: sum(1 / len(one.options) for one in found if len(one.options) > letter) for letter in range(4)}
    for letter, wanted in expected.items():
        assert abs(counts[letter] - wanted) < 4 * max(1.0, wanted) ** 0.5, (letter, counts[letter], wanted)


@pytest.mark.parametrize("name", [*HELD_IN, "garments", "letters-in-fonts", *VALIDATION])
def test_the_right_option_of_a_naming_set_is_the_label_of_its_picture(name):
    for one in questions(name):
        assert one.options[one.answer] == shown(one.picture)


def test_the_right_sum_is_that_of_the_two_digits():
    for one in questions("sums"):
        first, second = (shown(cell) for cell in picture_places(one.picture))
        assert one.options[one.answer] == NUMBERS[NUMBERS.index(first) + NUMBERS.index(second)]


def test_no_question_is_about_a_training_picture():
    for name in ALL:
        for one in questions(name):
            splits = {split for _, split, _ in picture_places(one.picture)}
            assert splits == {"val" if name in VALIDATION else "test"}
