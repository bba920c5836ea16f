"""At density 1 methods that drop become those that do not (U9): untuned tables compare one rule under two names."""

import pytest
import torch

from by_hand import merge_rows

_ROWS = ([0.5, -2.0, 1.0, 0.0], [1.5, 1.0, -3.0, 2.0], [-0.25, 4.0, 1.0, 1.0])


def test_della_is_ties():
    della = merge_rows("della_ties", *_ROWS, density=1.0)
    assert torch.equal(della, merge_rows("ties", *_ROWS, density=1.0))


def test_dare_with_a_sum_is_task_arithmetic():
    dare = merge_rows("dare_linear", *_ROWS, density=1.0)
    assert torch.equal(dare, merge_rows("task_arithmetic", *_ROWS, scale=1.0))


def test_of_plus_one_and_minus_three_ties_takes_minus_three():
    assert merge_rows("ties", [11], [7], base=[10], density=1.0).tolist() == [pytest.approx(7)]
