"""Paired differences of models that answered the same questions, by hand."""

import math

import numpy as np
import pytest

from smelt.bench.selection.answers import paired


def test_questions_that_both_answer_alike_say_nothing():
    same = [np.array([1.0, 0.0, 1.0])]
    assert paired([same], [same]) == {"difference": 0.0, "error": 0.0, "low": 0.0, "high": 0.0}


def test_the_difference_of_one_set_has_the_standard_error_of_its_questions():
    ours, theirs = [np.array([1.0, 1.0, 1.0, 0.0])], [np.array([1.0, 0.0, 0.0, 0.0])]
    found = paired([ours], [theirs])  # 0, 1, 1, 0: mean 1/2, variance 1/3
    assert found["difference"] == pytest.approx(0.5)
    assert found["error"] == pytest.approx(math.sqrt(1 / 3 / 4))
    assert found["low"] == pytest.approx(0.5 - 1.959964 * found["error"], abs=1e-6)


def test_sets_count_alike_whatever_their_size():
    ours, theirs = [np.ones(2), np.zeros(8)], [np.zeros(2), np.zeros(8)]
    assert paired([ours], [theirs])["difference"] == pytest.approx(0.5)


def test_several_models_of_a_side_are_averaged_question_by_question():
    one, other, none = [np.array([1.0, 0.0])], [np.array([0.0, 1.0])], [np.array([0.0, 0.0])]
    found = paired([one, other], [none])  # 1/2 everywhere: no spread
    assert (found["difference"], found["error"]) == (pytest.approx(0.5), 0.0)
