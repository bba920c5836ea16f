"""The order of models and the choice of a step: the paper's own numbers."""

from __future__ import annotations

import pytest

from smelt.errors import RecipeError
from smelt.select.step_choice import chosen_step, ordered

_PAPER = {"OKVQA": 0.1314, "OCRVQA": 0.0548, "GQA": 0.2141, "VQAv2": 0.0322, "TextCaps": 0.0073, "A-OKVQA": 0.1078}
_PAPER |= {"RefCOCO": 0.0275, "LLaVA-Instruct": 0.0713, "ShareGPT": 0.0317, "VG": 0.0379}
_TRACE = (0.21197, 0.13290, 0.05609, 0.04866, 0.04531, 0.04155, 0.03950, 0.03954, 0.03740, 0.03672)


def test_models_are_sorted_by_descending_uncertainty():
    """U6."""
    names = "GQA OKVQA A-OKVQA LLaVA-Instruct OCRVQA VG VQAv2 ShareGPT RefCOCO TextCaps".split()
    assert ordered(_PAPER) == names
    assert ordered(_PAPER, "ascending") == names[::-1]


def test_of_equal_models_the_earlier_comes_first_in_both_orders():
    values = {"b": 0.5, "a": 0.5, "c": 0.1}
    assert ordered(values) == ["b", "a", "c"]
    assert ordered(values, "ascending") == ["c", "b", "a"]


def test_the_papers_trace_is_lowest_at_ten_and_first_rises_after_seven():
    """U7."""
    assert chosen_step(_TRACE, "global_min") == 10
    assert chosen_step(_TRACE, "first_local_min") == 7


def test_of_equal_steps_the_smaller_group_is_chosen():
    assert chosen_step([0.3, 0.1, 0.2, 0.1]) == 2


def test_a_trace_that_never_rises_has_its_first_minimum_at_the_end():
    assert chosen_step([0.3, 0.2, 0.2, 0.1], "first_local_min") == 4


def test_of_one_step_that_one_is_chosen():
    """U12: one model is given back."""
    assert ordered({"a": 0.3}) == ["a"]
    assert chosen_step([0.3], "first_local_min") == chosen_step([0.3]) == 1


def test_unknown_words_are_refused():
    with pytest.raises(RecipeError, match="did you mean 'global_min'"):
        chosen_step([0.1], "globalmin")  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match="did you mean 'descending'"):
        ordered({"a": 1.0}, "descend")  # type: ignore[arg-type]
