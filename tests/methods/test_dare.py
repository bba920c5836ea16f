import pytest
import torch
from torch.testing import assert_close

import smelt
from by_hand import after
from smelt.testing.laws import block_size

SUM = ("task_arithmetic", {"scale": 1.0})


def dare(deltas, seed=0, name="m", others=None, **parameters):
    models = {**(others or {}), name: {"w": deltas}}
    return smelt.merge(models, base={"w": torch.zeros_like(deltas)}, method=[("dare", parameters), SUM], seed=seed)["w"]


def test_what_stays_is_divided_by_density():
    assert set(dare(torch.full((1000,), 3.0), density=0.25).tolist()) == {0.0, 12.0}


def test_about_the_share_stays():
    """20,000 draws of chance 0.1: 2,000 on average, 42 the standard deviation."""
    kept = int((dare(torch.ones(20_000), density=0.1) != 0).sum())
    assert abs(kept - 2000) < 5 * 42


def test_on_average_over_seeds_nothing_changes():
    """Density 0.5 gives 0 or 2, standard deviation 1: the mean of 400 draws is 1 within 0.25 (five deviations)."""
    mean = torch.stack([dare(torch.ones(50), seed=seed, density=0.5) for seed in range(400)]).mean(0)
    assert_close(mean, torch.ones(50), rtol=0, atol=0.25)
    assert float(mean.mean()) == pytest.approx(1, abs=0.035)


def test_the_same_entries_stay_whatever_the_block_size():
    deltas = torch.randn(40, 25, generator=torch.Generator().manual_seed(0))
    whole = dare(deltas, density=0.3)
    for size in (1, 7, 999):
        with block_size(size):
            assert torch.equal(dare(deltas, density=0.3), whole)


def test_a_model_drops_the_same_entries_in_any_company():
    deltas = torch.ones(500)
    silent = {"before": {"w": torch.zeros(500)}, "between": {"w": torch.zeros(500)}}
    assert torch.equal(dare(deltas, density=0.5), dare(deltas, density=0.5, others=silent))


def test_models_and_seeds_drop_different_entries():
    deltas = torch.ones(500)
    kept = [dare(deltas, density=0.5), dare(deltas, density=0.5, name="n"), dare(deltas, density=0.5, seed=1)]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert 150 < int((kept[i] != kept[j]).sum()) < 350


def test_l1_keeps_the_summed_magnitude_exactly():
    deltas = torch.randn(300, generator=torch.Generator().manual_seed(0))
    assert float(dare(deltas, density=0.3, rescale="l1").abs().sum()) == pytest.approx(float(deltas.abs().sum()))


def test_none_leaves_the_survivors_as_they_are():
    assert set(dare(torch.full((1000,), 3.0), density=0.25, rescale="none").tolist()) == {0.0, 3.0}


def test_density_one_changes_nothing():
    assert after("dare", [1, -2, 3], density=1.0).tolist() == [1, -2, 3]


def test_density_zero_is_refused():
    with pytest.raises(smelt.RecipeError, match="density"):
        after("dare", [1], density=0)


def test_each_model_may_have_its_own_density():
    models = {"a": {"w": torch.ones(200)}, "b": {"w": torch.full((200,), 10.0)}}
    steps = [("dare", {"density": {"a": 1.0, "b": 0.5}}), SUM]
    merged = smelt.merge(models, base={"w": torch.zeros(200)}, method=steps)["w"]
    assert set(merged.tolist()) == {1.0, 21.0}


def test_dare_ties_is_dare_and_then_ties_without_a_trim():
    draw = torch.Generator().manual_seed(0)
    models = {name: {"w": torch.randn(100, generator=draw)} for name in "abc"}
    base = {"w": torch.zeros(100)}
    known = smelt.merge(models, base=base, method="dare_ties", density=0.4)["w"]
    steps = smelt.merge(models, base=base, method=[("dare", {"density": 0.4}), ("ties", {"density": 1.0})])["w"]
    assert torch.equal(known, steps)
