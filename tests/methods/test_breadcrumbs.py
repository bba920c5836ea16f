import torch
from torch.testing import assert_close

import smelt
from by_hand import after

ONE_TO_TEN = list(range(1, 11))


def test_the_largest_and_the_smallest_are_dropped():
    """Two tenths from above (10, 9), then half stays (8 ... 4), the rest (3, 2, 1) is dropped."""
    assert after("breadcrumbs", ONE_TO_TEN, density=0.5, top=0.2).tolist() == [0, 0, 0, 4, 5, 6, 7, 8, 0, 0]


def test_signs_do_not_count():
    assert after("breadcrumbs", [-9, 1, -5, 3], density=0.5, top=0.25).tolist() == [0, 0, -5, 3]


def test_where_there_is_no_room_fewer_of_the_largest_are_dropped():
    """Nine tenths must stay, so only one of the two largest goes."""
    assert after("breadcrumbs", ONE_TO_TEN, density=0.9, top=0.2).tolist() == [*range(1, 10), 0]


def test_equal_entries_are_dropped_from_the_front():
    """Of four equal ones the first counts as the largest; the next two stay."""
    assert after("breadcrumbs", [2, 2, 2, 2], density=0.5, top=0.25).tolist() == [0, 2, 2, 0]


def test_ranks_are_those_of_each_tensor():
    model = {"a": torch.tensor([1.0, 2.0, 3.0, 4.0]), "b": torch.tensor([10.0, 20.0, 30.0, 40.0])}
    steps = [("breadcrumbs", {"density": 0.5, "top": 0.25}), ("task_arithmetic", {"scale": 1.0})]
    merged = smelt.merge({"m": model}, base={name: torch.zeros(4) for name in model}, method=steps)
    assert merged["a"].tolist() + merged["b"].tolist() == [0, 2, 3, 0, 0, 20, 30, 0]


def test_l1_restores_the_summed_magnitude():
    """3 + 2 of 1 + 2 + 3 + 4 stay, so they are doubled."""
    merged = after("breadcrumbs", [1, 2, 3, 4], density=0.5, top=0.25, rescale="l1")
    assert_close(merged, torch.tensor([0.0, 4.0, 6.0, 0.0]))
