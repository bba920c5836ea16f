import pytest
import torch
from torch.testing import assert_close

from by_hand import merge_rows


def test_own_changes_stay_whole_and_shared_ones_are_averaged():
    assert merge_rows("ram", [1, 0, 2], [3, 4, 0]).tolist() == [2, 4, 2]


def test_a_change_of_at_most_epsilon_is_none():
    """1e-6 of the second model does not halve the 1 of the first."""
    assert merge_rows("ram", [1], [1e-6]).tolist() == [1]
    assert merge_rows("ram", [1], [0.5], epsilon=0.5).tolist() == [1]
    assert merge_rows("ram", [1], [0.5], epsilon=0.4).tolist() == [0.75]


def test_of_three_only_those_that_moved_are_counted():
    assert merge_rows("ram", [6], [3], [0]).tolist() == [4.5]


@pytest.mark.parametrize(
    ("r", "limit", "factor"), [(0.1, 0.2, 1.02), (0.5, 1.0, 1.5), (0.5, 5.0, 2.0), (0.0, 1.0, 1.0)]
)
def test_ram_plus_strengthens_what_is_a_models_own(r, limit, factor):
    """Each model shares two entries and owns one: shared / unique = 2, bounded by `limit`, times r, plus one."""
    merged = merge_rows("ram_plus", [1, 1, 1, 0], [3, 3, 0, 1], r=r, limit=limit)
    assert_close(merged, torch.tensor([2.0, 2.0, factor, factor]))


def test_ram_plus_looks_at_each_model_by_itself():
    """The first shares 1 and owns 1 (ratio 1), the second shares 1 and owns 2 (ratio 1/2); r = 1."""
    merged = merge_rows("ram_plus", [1, 1, 0, 0], [1, 0, 1, 1], r=1.0, limit=9.0)
    assert_close(merged, torch.tensor([1.0, 2.0, 1.5, 1.5]))


def test_ram_plus_without_shared_entries_is_ram():
    models = [1, 0, 2], [0, 4, 0]
    assert torch.equal(merge_rows("ram_plus", *models), merge_rows("ram", *models))
