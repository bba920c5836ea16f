"""Maths answers are judged by the number that they end on."""

from __future__ import annotations

import pytest

from smelt.tasks.language.scoring import numbers

DOC = {"answer": "8 - 5 = 3\n3 + 7 = 10\nAnswer: 10"}


@pytest.mark.parametrize(
    "reply",
    ["Answer: 10", "8 - 5 + 7 = 10", "answer: 10.0 apples", "#### 10", "So the answer is 10.", "Answer: $10, not 12"],
)
def test_the_right_number_counts_however_it_is_written(reply: str) -> None:
    assert numbers.score(DOC, [reply]) == {"exact_match": 1.0}


@pytest.mark.parametrize("reply", ["Answer: -10", "Answer: 100", "10 - 3 = 7", "ten", "", "Answer: 10/2"])
def test_another_number_or_none_does_not(reply: str) -> None:
    assert numbers.score(DOC, [reply]) == {"exact_match": 0.0}


def test_a_fraction_counts_only_in_the_form_that_is_asked_for() -> None:
    doc = {"answer": "GCD = 2\nAnswer: 3/4"}
    assert numbers.score(doc, ["Answer: 3 / 4"]) == {"exact_match": 1.0}
    assert numbers.score(doc, ["Answer: 6/8"]) == {"exact_match": 0.0}


def test_thousands_and_minus_signs_are_read() -> None:
    assert numbers.final_number("It costs $1,250.50 in all") == "1250.5"
    assert numbers.final_number("2 - 9 = -7") == "-7"
    assert numbers.final_number("9-7") == "7"


def test_a_mark_without_a_number_falls_back_on_the_last_number() -> None:
    assert numbers.final_number("3 + 4 = 7\nAnswer:") == "7"


def test_a_number_without_end_is_wrong_and_breaks_nothing() -> None:
    assert numbers.score(DOC, [f"Answer: {'9' * 5000}.{'1' * 60}"]) == {"exact_match": 0.0}
    assert numbers.final_number("-0.00") == "0"
    assert numbers.final_number("007.50") == "7.5"
