import pytest
import torch
from by_hand import merge_rows
from torch.testing import assert_close


def test_weights_are_squared_magnitudes():
    """Changes of 3e-4 and 1e-4: 9 : 1, so 0.9 * 3e-4 + 0.1 * 1e-4 = 2.8e-4."""
    merged = merge_rows("sce", [3e-4, 3e-4], [1e-4, 1e-4])
    assert_close(merged, torch.full((2,), 2.8e-4), rtol=1e-6, atol=0)


def test_weights_are_those_of_the_tensor_not_of_the_entry():
    """Mean squares 9 and 1 although both have the same first entry... (3, 3) and (1, -1): + wins twice, then alone."""
    merged = merge_rows("sce", [3, 3], [1, -1])
    assert_close(merged, torch.tensor([2.8, 3.0]))


def test_small_changes_can_be_weighted_equally_as_mergekit_does():
    merged = merge_rows("sce", [3e-4], [1e-4], equal_below=1e-6)
    assert_close(merged, torch.tensor([2e-4]), rtol=1e-6, atol=0)
    assert_close(merge_rows("sce", [3], [1], equal_below=1e-6), torch.tensor([2.8]))


def test_entries_against_the_elected_sign_are_erased():
    assert merge_rows("sce", [3], [-1]).tolist() == [3]
    assert merge_rows("sce", [-3], [1]).tolist() == [-3]


def test_an_exact_tie_leaves_the_base():
    assert merge_rows("sce", [9], [5], base=[7]).tolist() == [7]
    assert merge_rows("sce", [9], [5], base=[7], tie="positive").tolist() == [9]


def test_positions_with_the_largest_variance_are_selected():
    """Variances 0, 1, 0, 4: half of the positions are the second and fourth, where the second model has nothing."""
    assert merge_rows("sce", [1, 2, 3, 4], [1, 0, 3, 0], density=0.5).tolist() == [0, 2, 0, 4]


def test_weights_come_from_the_selected_positions_alone():
    """Of (10, 3) and (10, 1) the second position is selected: weights 9 : 1, not 109 : 101."""
    merged = merge_rows("sce", [10, 3], [10, 1], density=0.5)
    assert_close(merged, torch.tensor([0.0, 2.8]))


@pytest.mark.parametrize("density", [0.25, 0.5, 0.75])
def test_exactly_the_share_is_selected_among_equal_variances(density):
    merged = merge_rows("sce", [1] * 8, [3] * 8, density=density)
    assert (merged != 0).tolist() == [i < 8 * density for i in range(8)]
