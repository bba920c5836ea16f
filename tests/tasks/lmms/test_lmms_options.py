"""Options read from lmms-eval's documents, four of each question."""

from __future__ import annotations

from typing import Any

import pytest

from smelt.tasks.lmms.options import INSTRUCTION, questions_of
from smelt.tasks.questions.records import EXTRA, prompt_of
from smelt.tasks.registry import find_task
from smelt.tasks.task import TaskError

DIAGRAMS: list[dict[str, Any]] = [
    {"question": "What eats grass?", "options": ["fox", "hare", "owl", "oak"], "answer": "1"},
    {"question": "What flies?", "options": ["owl", "oak", "hare", "fox"], "answer": "0"},
]
SCIENCE: list[dict[str, Any]] = [
    {"question": "Which?", "hint": "Look.", "choices": ["north", "south"], "answer": 1, "task": "closed choice"},
    {"question": "True?", "hint": "", "choices": ["yes", "no"], "answer": 0, "task": "true-or false"},
    {"question": "Who?", "hint": None, "choices": ["a", "b", "c", "d", "e"], "answer": 3, "task": "closed choice"},
]


def test_a_diagram_has_its_four_options_and_the_two_that_all_have() -> None:
    first, second = questions_of("ai2d", DIAGRAMS)
    assert (first.options, first.answer, second.answer) == (("fox", "hare", "owl", "oak"), 1, 0)
    assert prompt_of(first, EXTRA, INSTRUCTION).split("\n") == [
        "What eats grass?",
        *("A. fox", "B. hare", "C. owl", "D. oak", "E. I don't know", "F. None of the above"),
        "Answer with the option's letter from the given choices directly.",
    ]


def test_fewer_than_four_options_are_filled_with_those_of_other_questions() -> None:
    first, third = questions_of("scienceqa_img", SCIENCE)
    assert (first.options[:2], first.answer, first.hint) == (("north", "south"), 1, "Look.")
    assert len(set(first.options)) == 4
    assert set(first.options[2:]) < {"a", "b", "c", "d", "e"}
    assert (third.picture, third.line) == (2, 3)  # what is no closed choice is left out, numbers stay the documents'


def test_of_more_than_four_options_the_right_one_and_three_others_stay_in_their_order() -> None:
    third = questions_of("scienceqa_img", SCIENCE)[1]
    assert len(third.options) == 4
    assert list(third.options) == sorted(third.options)
    assert third.options[third.answer] == "d"  # type: ignore[index]


def test_what_is_drawn_follows_from_the_set_and_the_question_alone() -> None:
    documents = [{"question": "?", "choices": [f"x{n}", f"y{n}"], "answer": 0, "hint": ""} for n in range(20)]
    once, again = questions_of("scienceqa_img", documents), questions_of("scienceqa_img", documents)
    assert once == again
    assert len({one.options[2:] for one in once}) > 10


def test_pictures_alone_are_asked_of_seedbench_and_empty_fields_of_mmbench_are_no_options() -> None:
    four = {"choice_a": "1", "choice_b": "2", "choice_c": "3", "choice_d": "4", "question": "How many?"}
    asked = [{**four, "answer": "C", "data_type": "image"}, {**four, "answer": "A", "data_type": "video"}]
    (only,) = questions_of("seedbench", asked)
    assert (only.options, only.answer) == (("1", "2", "3", "4"), 2)
    rows = [
        {"question": "Q", "hint": "nan", "A": "w", "B": "x", "C": "nan", "D": float("nan"), "answer": "B"},
        {"question": "R", "hint": "see", "A": "y", "B": "z", "C": None, "D": "nan", "answer": "nan"},
    ]
    first, second = questions_of("mmbench_en_dev_static", rows)
    assert (first.options[:2], set(first.options[2:])) == (("w", "x"), {"y", "z"})
    assert (first.answer, first.hint, second.answer, second.hint) == (1, "", None, "see")


def test_too_few_different_options_in_all_are_refused() -> None:
    with pytest.raises(TaskError, match="fewer than 4 different options"):
        questions_of("ai2d", [{"question": "?", "options": ["a", "b"], "answer": "0"}])


def test_other_columns_are_named() -> None:
    with pytest.raises(TaskError, match=r"document 0 has not the columns .*it has: question, choices"):
        questions_of("ai2d", [{"question": "?", "choices": ["a", "b"]}])


def test_tasks_without_known_options_have_none() -> None:
    assert find_task("lmms:ai2d").has_options
    assert not find_task("lmms:gqa").has_options
