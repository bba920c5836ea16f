"""Paired differences of models that answered the same questions, by hand."""

import math

import numpy as np
import pytest

from pico_selection import write_questions
from smelt.suites.selection.paired import paired, picture_names
from smelt.tasks.registry import find_task


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


def test_questions_about_one_picture_count_as_one_draw():
    ours, theirs = [np.array([1.0, 1.0, 0.0, 0.0])], [np.zeros(4)]
    found = paired([ours], [theirs], [["a", "a", "b", "b"]])  # two draws, 1 and 0: variance 1/2
    assert found["difference"] == pytest.approx(0.5)
    assert found["error"] == pytest.approx(math.sqrt(1 / 2 / 2))


def test_a_picture_of_two_sets_is_one_draw_in_both():
    ours, theirs = [np.array([1.0, 0.0])] * 2, [np.zeros(2)] * 2
    same = paired([ours], [theirs], [["a", "b"], ["a", "b"]])["error"]
    apart = paired([ours], [theirs], [["a", "b"], ["c", "d"]])["error"]
    assert same == pytest.approx(math.sqrt(1 / 2 / 2))  # as one set of the two
    assert apart == pytest.approx(same / math.sqrt(2))
    assert paired([ours], [theirs])["error"] == pytest.approx(apart)


def test_sets_of_the_zoo_share_pictures_by_their_references():
    photos = [name for name in picture_names(find_task("objects"), "test", None) if name.startswith('[["photos"')]
    kinds = picture_names(find_task("kinds-of-things"), "test", None)
    assert len(photos) == 400
    assert set(photos) & set(kinds)


def test_a_file_is_a_picture_of_its_own_folder(tmp_path):
    one, other = (write_questions(tmp_path / name, 2) for name in ("one", "other"))
    names = [picture_names(find_task(str(folder)), "test", None) for folder in (one, other)]
    assert len({*names[0], *names[1]}) == 4
