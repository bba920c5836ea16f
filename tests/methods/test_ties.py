import pytest
import torch

import smelt
from by_hand import merge_rows


def test_election_follows_mass_not_head_count():
    """Two models say -1, one says +5: the sum is +3, so +5 stays alone."""
    assert merge_rows("ties", [5], [-1], [-1], density=1.0).tolist() == [5]


def test_election_by_count_is_a_setting():
    assert merge_rows("ties", [5], [-1], [-2], density=1.0, elect="count").tolist() == [-1.5]


def test_only_those_that_agree_are_averaged():
    """4 and 2 agree, -1 does not, 0 has no opinion: (4 + 2) / 2."""
    assert merge_rows("ties", [4], [2], [-1], [0], density=1.0).tolist() == [3]


@pytest.mark.parametrize(("merge", "value"), [("mean", 3), ("sum", 6), ("max", 4)])
def test_what_becomes_of_those_that_agree(merge, value):
    assert merge_rows("ties", [4], [2], [-1], density=1.0, merge=merge).tolist() == [value]
    assert merge_rows("ties", [-4], [-2], [1], density=1.0, merge=merge).tolist() == [-value]


def test_an_exact_tie_leaves_the_base():
    assert merge_rows("ties", [9], [5], base=[7], density=1.0).tolist() == [7]
    assert merge_rows("ties", [9], [5], base=[7], density=1.0, tie="positive").tolist() == [9]


def test_weights_enter_the_election_and_the_mean():
    """3 * 1 outweighs 1 * 2, so +1 wins. Where both agree: (3 * 1 + 1 * 5) / 4 = 2."""
    assert merge_rows("ties", [1, 1], [-2, 5], density=1.0, weights=[3, 1]).tolist() == [1, 2]


def test_scale_multiplies_the_merged_change():
    assert merge_rows("ties", [3], base=[1], density=1.0, scale=0.5).tolist() == [2]


def two_tensors(**parameters):
    model = {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([10.0, 20.0])}
    base = {name: torch.zeros(2) for name in model}
    merged = smelt.merge({"m": model}, base=base, method="ties", **parameters)
    return merged["a"].tolist() + merged["b"].tolist()


def test_the_trim_ranks_over_the_whole_model():
    assert two_tensors(density=0.5) == [0, 0, 10, 20]
    assert two_tensors(density=0.75) == [0, 2, 10, 20]


def test_the_trim_per_tensor_is_a_setting():
    assert two_tensors(density=0.5, trim="tensor") == [0, 2, 0, 20]


def test_per_tensor_at_least_one_entry_stays_and_over_the_model_none_has_to():
    assert two_tensors(density=0.2, trim="tensor") == [0, 2, 0, 20]
    assert two_tensors(density=0.2) == [0, 0, 0, 0]


@pytest.mark.parametrize("density", [0.1, 0.29, 0.37, 0.5, 0.999])
def test_exactly_the_share_survives_even_when_half_of_the_entries_are_tied(density):
    """1,000 entries in three tensors, 500 of them 1.0 exactly: floor(1000 * density) stay, not one more."""
    draw = torch.Generator().manual_seed(0)
    values = torch.cat([torch.ones(500), torch.rand(500, generator=draw) * 2 + 1e-3])
    values = values[torch.randperm(1000, generator=draw)] * torch.randn(1000, generator=draw).sign()
    model = {"a": values[:100].view(10, 10), "b": values[100:833], "c": values[833:]}
    base = {name: torch.zeros_like(tensor) for name, tensor in model.items()}
    merged = smelt.merge({"m": model}, base=base, method="ties", density=density)
    kept = torch.cat([merged[name].flatten() for name in model])
    assert int((kept != 0).sum()) == int(f"{1000 * density:.0f}")
    dropped = values[kept == 0].abs()
    assert float(dropped.max()) <= float(kept[kept != 0].abs().min())
    assert torch.equal(kept[kept != 0], values[kept != 0])


def test_of_equal_entries_the_first_survive():
    assert merge_rows("ties", [1, -1, 1, 1], density=0.5).tolist() == [1, -1, 0, 0]


def test_each_model_may_have_its_own_density():
    """The first keeps 4 alone; the second keeps both. Where both have an entry: (4 + 8) / 2."""
    assert merge_rows("ties", [1, 4], [2, 8], density=[0.5, 1.0]).tolist() == [2, 6]


def test_a_density_of_zero_is_refused():
    with pytest.raises(smelt.RecipeError, match="density"):
        merge_rows("ties", [1], density=0)
