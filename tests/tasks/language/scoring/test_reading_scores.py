"""SQuAD 2.0: words are compared without case, articles and punctuation; no answer is right where there is none."""

from __future__ import annotations

import pytest

from smelt.tasks.language.scoring import reading


def asked(*answers: str) -> dict[str, object]:
    return {"answers": {"text": list(answers), "answer_start": [0] * len(answers)}}


def test_the_same_words_are_right_whatever_their_case_and_articles() -> None:
    assert reading.score(asked("The Eiffel Tower"), ["eiffel tower."]) == {"exact": 1.0, "f1": 1.0}


def test_f1_counts_shared_words_and_takes_the_best_answer() -> None:
    found = reading.score(asked("in 1889", "the year 1889 in Paris"), ["year 1889"])
    assert found["exact"] == 0.0
    assert found["f1"] == pytest.approx(2 * 2 / (2 + 4))  # the second: two of its four words, and both that were said


def test_a_question_without_an_answer_wants_an_empty_reply() -> None:
    assert reading.score(asked(), [" "]) == {"exact": 1.0, "f1": 1.0}
    assert reading.score(asked(), ["Paris"]) == {"exact": 0.0, "f1": 0.0}
    assert reading.score(asked("Paris"), [""]) == {"exact": 0.0, "f1": 0.0}


def test_the_words_of_transformers_older_functions_mean_the_same() -> None:
    assert (reading.compute_exact("The Tower", "tower"), reading.compute_f1("a b", "b c")) == (1, pytest.approx(2 / 3))
