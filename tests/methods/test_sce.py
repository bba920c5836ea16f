import pytest
import torch
from torch.testing import assert_close

from by_hand import merge_rows


def test_weights_are_squared_magnitudes():
    """Changes of 3e-4 and 1e-4: 9 : 1, so 0.9 * 3e-4 + 0.1 * 1e-4 = 2.8e-4."""
    merged = merge_rows("sce", [3e-4, 3e-4], [1e-4, 1e-4])
    assert_close(merged, torch.full((2,), 2.8e-4), rtol=1e-6, atol=0)


def test_weights_are_those_of_the_tensor_not_of_the_entry():
    """Mean squares 9 and 1: 0.9 * 3 + 0.1 * 1 where both agree, 3 alone where they do not."""
    merged = merge_rows("sce", [3, 3], [1, -1])
    assert_close(merged, torch.tensor([2.8, 3.0]))


def test_small_changes_can_be_weighted_equally_as_mergekit_does():
    merged = merge_rows("sce", [3e-4], [1e-4], equal_below=1e-6)
    assert_close(merged, torch.tensor([2e-4]), rtol=1e-6, atol=0)
    assert_close(merge_rows("sce", [3], [1], equal_below=1e-6), torch.tensor([2.8]))


def test_entries_against_the_elected_sign_are_erased():
    assert merge_rows("sce", [3], [-1]).item() == pytest.approx(3)
    assert merge_rows("sce", [-3], [1]).item() == pytest.approx(-3)


def test_an_exact_tie_leaves_the_base():
    assert merge_rows("sce", [9], [5], base=[7]).tolist() == [7]
    assert merge_rows("sce", [9], [5], base=[7], tie="positive").tolist() == [9]


def test_positions_with_the_largest_variance_are_selected():
    """Variances 0, 1, 0, 4, 6.25: of the three that vary at all two thirds stay."""
    assert merge_rows("sce", [1, 2, 3, 4, 5], [1, 0, 3, 0, 0], density=0.67).tolist() == [0, 0, 0, 4, 5]


def test_variance_counts_an_outlier_more_than_a_spread():
    """(4, 0, 0, 0) has the variance 3, (1.6, -1.6, 1.6, -1.6) has 2.56, although its mean deviation is larger."""
    merged = merge_rows("sce", [4, 1.6], [0, -1.6], [0, 1.6], [0, -1.6], density=0.5)
    assert merged.tolist() == [4, 0]


def test_weights_come_from_the_selected_positions_alone():
    """Of the two positions that vary the second is selected, (3) and (1): weights 9 : 1 whatever the others hold."""
    merged = merge_rows("sce", [10, 3, 2], [10, 1, 2.5], density=0.5)
    assert_close(merged, torch.tensor([0.0, 2.8, 0.0]))


@pytest.mark.parametrize("density", [0.25, 0.5, 0.75])
def test_exactly_the_share_is_selected_among_equal_variances(density):
    merged = merge_rows("sce", [1] * 8, [3] * 8, density=density)
    assert (merged != 0).tolist() == [i < 8 * density for i in range(8)]
