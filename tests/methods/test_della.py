import pytest
import torch
from torch.testing import assert_close

import smelt
from by_hand import after


def test_each_survivor_is_divided_by_its_own_chance():
    """Ranks 0, 1, 2, 3, 4 of a row have the chances 0.34, 0.42, 0.5, 0.58, 0.66: the middles of five equal parts."""
    row = torch.tensor([3.0, -1.0, 5.0, 2.0, -4.0])
    chance = torch.tensor([0.5, 0.34, 0.66, 0.42, 0.58])
    for seed in range(20):
        merged = della(row.repeat(10, 1), seed=seed, density=0.5, window=0.4)
        kept = merged != 0
        assert_close(merged[kept], (row / chance).expand(10, 5)[kept])


def test_the_larger_of_two_stays_more_often():
    """Chances 0.3 and 0.7 in 4,000 rows: 1,200 and 2,800, standard deviation 29."""
    merged = della(torch.tensor([[1.0, 2.0]]).repeat(4000, 1), density=0.5, window=0.8)
    small, large = (merged != 0).sum(0).tolist()
    assert abs(small - 1200) < 145
    assert abs(large - 2800) < 145


def test_equal_magnitudes_share_a_chance_and_keep_the_density():
    """All of a row equal: every entry has the chance 0.5 exactly; 4,000 rows of 4 keep 8,000, deviation 63."""
    merged = della(torch.full((4000, 4), 2.0), density=0.5, window=0.8)
    assert abs(int((merged != 0).sum()) - 8000) < 320
    assert set(merged.unique().tolist()) == {0.0, 4.0}


def test_ranks_are_those_inside_a_row():
    """A row of small and a row of large changes keep the same share of entries: half of 4,000 each."""
    merged = della(torch.stack([torch.linspace(1, 2, 4000), torch.linspace(100, 200, 4000)]), density=0.5, window=0.8)
    first, second = (merged != 0).sum(1).tolist()
    assert abs(first - 2000) < 160
    assert abs(second - 2000) < 160


def test_on_average_nothing_changes():
    row = torch.tensor([[1.0, 1.5, 2.0]])
    mean = torch.stack([della(row.repeat(50, 1), seed=seed, density=0.5, window=0.4) for seed in range(40)]).mean(
        (0, 1)
    )
    assert_close(mean, row[0], rtol=0.2, atol=0)


def test_l1_keeps_the_summed_magnitude():
    deltas = torch.randn(20, 30, generator=torch.Generator().manual_seed(0))
    merged = della(deltas, density=0.5, rescale="l1")
    assert float(merged.abs().sum()) == pytest.approx(float(deltas.abs().sum()))


def test_none_leaves_the_survivors_as_they_are():
    deltas = torch.arange(1.0, 101).view(10, 10)
    merged = della(deltas, density=0.5, rescale="none")
    assert torch.equal(merged[merged != 0], deltas[merged != 0])


def test_density_one_changes_nothing():
    assert after("della", [1, -2, 3], density=1.0).tolist() == [1, -2, 3]


@pytest.mark.parametrize(("density", "window"), [(0.9, 0.3), (0.1, 0.3), (0.1, 0.2)])
def test_a_window_that_leaves_the_chances_is_refused(density, window):
    with pytest.raises(smelt.RecipeError, match="narrow the window"):
        after("della", [1, 2], density=density, window=window)


def della(deltas, seed=0, **parameters):
    steps = [("della", parameters), ("task_arithmetic", {"scale": 1.0})]
    return smelt.merge({"m": {"w": deltas}}, base={"w": torch.zeros_like(deltas)}, method=steps, seed=seed)["w"]
