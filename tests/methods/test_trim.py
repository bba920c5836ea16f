import torch
from torch.testing import assert_close

import smelt
from by_hand import after

SUM = ("task_arithmetic", {"scale": 1.0})


def test_the_largest_changes_stay():
    assert after("trim", [1, -2, 3, -4, 5], density=0.4).tolist() == [0, 0, 0, -4, 5]


def test_each_model_is_trimmed_by_itself():
    """Of [1, 9] and [4, 2], half stays: 9 and 4."""
    assert after("trim", [1, 9], [4, 2], density=0.5).tolist() == [4, 9]


def two_tensors(**parameters):
    model = {"a": torch.tensor([1.0, 2.0, 3.0]), "b": torch.tensor([10.0, 20.0, 30.0])}
    base = {name: torch.zeros(3) for name in model}
    return smelt.merge({"m": model}, base=base, method=[("trim", parameters), SUM])


def test_ranks_run_over_the_whole_model_or_in_each_tensor():
    whole, each = two_tensors(density=0.5), two_tensors(density=0.5, trim="tensor")
    assert whole["a"].tolist() + whole["b"].tolist() == [0, 0, 0, 10, 20, 30]
    assert each["a"].tolist() + each["b"].tolist() == [0, 0, 3, 0, 0, 30]


def test_l1_restores_the_summed_magnitude():
    """4 + 5 of 1 + 2 + 3 + 4 + 5 stay: both are multiplied by 15 / 9."""
    merged = after("trim", [1, 2, -3, 4, 5], density=0.4, trim="tensor", rescale="l1")
    assert_close(merged, torch.tensor([0, 0, 0, 20 / 3, 25 / 3]))


def test_density_one_changes_nothing():
    assert after("trim", [1, 2, 3], density=1.0).tolist() == [1, 2, 3]


def test_before_a_mean_it_is_what_ties_does_first():
    models = [5, 1, -3, 2], [4, -6, 1, 2]
    base = {"w": torch.zeros(4)}
    table = {name: {"w": torch.tensor(m, dtype=torch.float32)} for name, m in zip("ab", models, strict=True)}
    steps = smelt.merge(table, base=base, method=[("trim", {"density": 0.5}), ("ties", {"density": 1.0})])
    assert torch.equal(steps["w"], smelt.merge(table, base=base, method="ties", density=0.5)["w"])


def test_l1_restores_the_model_where_ranks_run_over_the_model():
    """Of 1 + 2 + 3 + 10 + 20 + 30 = 66 all but the 1 stays: everything is multiplied by 66 / 65."""
    merged = two_tensors(density=5 / 6, rescale="l1")
    assert_close(merged["a"], torch.tensor([0, 2.0, 3.0]) * 66 / 65)
    assert_close(merged["b"], torch.tensor([10.0, 20.0, 30.0]) * 66 / 65)
