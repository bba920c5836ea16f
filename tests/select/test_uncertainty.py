"""Uncertainty in nats: the numbers of the specification, and the laws that a mutual information keeps."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from smelt.errors import NumericalError, RecipeError
from smelt.select.entropy import Uncertainty, mean_of_sets, set_uncertainty, uncertainty

_SPLIT = [[2.0, 1, 0, 0, 0, 0]] * 2 + [[1.0, 2, 0, 0, 0, 0]] * 2


def _one_hot(*letters: int) -> np.ndarray:
    passes = np.full((1, len(letters), 6), -1e4)
    passes[0, range(len(letters)), letters] = 1e4
    return passes


def _random(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 2, (5, 4, 6))


def test_equal_passes_leave_nothing_uncertain_about_the_model():
    """U1."""
    found = uncertainty(np.array([[[2.0, 1, 0, -1]] * 4]))
    assert found.model.tolist() == pytest.approx([0.0], abs=1e-12)
    assert found.total[0] > 0.5


def test_four_passes_on_four_letters_are_ln_four_and_an_even_split_ln_two():
    """U2."""
    assert uncertainty(_one_hot(0, 1, 2, 3)).model[0] == pytest.approx(1.386294, abs=1e-6)
    assert uncertainty(_one_hot(0, 0, 5, 5)).model[0] == pytest.approx(0.693147, abs=1e-6)


def test_the_example_by_hand():
    """U3."""
    found = uncertainty(np.array([_SPLIT]))
    assert found.total[0] == pytest.approx(1.485948, abs=1e-6)
    assert found.data[0] == pytest.approx(1.406462, abs=1e-6)
    assert found.model[0] == pytest.approx(0.079487, abs=1e-6)


def test_it_is_never_negative_and_at_most_the_logarithm_of_passes_or_options():
    """U4."""
    for seed in range(20):
        found = uncertainty(10 * _random(seed)).model
        assert found.min() >= -1e-9
        assert found.max() <= math.log(4) + 1e-9


def test_a_constant_the_order_of_passes_and_the_names_of_letters_do_not_matter():
    """U4."""
    logits = _random()
    plain = uncertainty(logits).model
    shift = np.random.default_rng(1).normal(0, 50, (5, 4, 1))
    for other in (logits + shift, logits[:, [2, 0, 3, 1]], logits[:, :, [5, 3, 1, 0, 2, 4]]):
        assert uncertainty(other).model == pytest.approx(plain, abs=1e-12)


def test_huge_logits_are_sound():
    """U5."""
    logits = np.array([[[1e4, -1e4, 0.0], [1e4, 1e4, -1e4]]])
    found = uncertainty(logits)
    assert np.isfinite([*found.total, *found.data]).all()
    assert found.data[0] == pytest.approx(math.log(2) / 2)


def test_an_option_that_a_sample_does_not_have_is_as_if_it_were_not_there():
    logits = _random()
    wide = np.concatenate([logits, np.full((5, 4, 2), -np.inf)], axis=2)
    assert uncertainty(wide).model == pytest.approx(uncertainty(logits).model, abs=1e-12)


def test_tensors_are_taken_too():
    logits = torch.tensor([_SPLIT], dtype=torch.float32)
    assert uncertainty(logits).model[0] == pytest.approx(0.079487, abs=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_none_are_refused(value: float):
    logits = _random()
    logits[3, 2, 1] = value
    with pytest.raises(NumericalError, match="sample 3 in pass 2"):
        uncertainty(logits)
    with pytest.raises(NumericalError, match="all absent"):
        uncertainty(np.full((1, 1, 2), -np.inf))


def test_one_pass_has_a_wrong_shape():
    with pytest.raises(RecipeError, match=r"\[samples, passes, options\]; got \[5, 6\]"):
        uncertainty(np.zeros((5, 6)))


def _with(*values: float) -> Uncertainty:
    return Uncertainty(np.array(values), np.zeros(len(values)))


def test_a_set_is_the_mean_over_samples_with_a_normal_interval():
    """0.1 and 0.3: mean 0.2, SD 0.141421, standard error 0.1; 0.2 ± 0.196."""
    found = set_uncertainty([_with(0.1, 0.3)])
    assert (found.n, found.model, found.standard_error) == (2, pytest.approx(0.2), pytest.approx(0.1))
    assert found.interval == pytest.approx((0.004004, 0.395996), abs=1e-6)


def test_an_interval_does_not_go_below_zero_and_one_sample_has_none():
    low, _ = set_uncertainty([_with(0.0, 0.3)]).interval or (1.0, 1.0)
    assert low == 0
    assert set_uncertainty([_with(0.4)]).interval is None


def test_repeats_are_averaged_sample_by_sample():
    found = set_uncertainty([_with(0.1, 0.3), _with(0.3, 0.1)])
    assert (found.n, found.model, found.standard_error) == (2, pytest.approx(0.2), pytest.approx(0.0, abs=1e-12))


def test_sets_count_alike_however_many_samples_they_have():
    """0.2 of two samples and 0.5 of four."""
    sets = [set_uncertainty([_with(0.1, 0.3)]), set_uncertainty([_with(0.5, 0.5, 0.5, 0.5)])]
    mean, interval = mean_of_sets(sets)
    assert mean == pytest.approx(0.35)
    assert interval == pytest.approx((0.35 - 1.959964 * 0.05, 0.35 + 1.959964 * 0.05), abs=1e-6)
