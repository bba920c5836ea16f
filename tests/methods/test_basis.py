"""Methods between a change of basis and the way back."""

import pytest
import torch
from torch.testing import assert_close

import smelt
from smelt.testing import pico

BASES = ["knots", "core_space"]


@pytest.mark.parametrize("basis", BASES)
def test_a_linear_merge_of_changes_is_the_same_in_any_basis(basis):
    pool = pico(3)
    method = ("task_arithmetic", {"scale": 0.5, "weights": [1, 2, 3]})
    inside = smelt.merge(pool.models, base=pool.base, method=[basis, method])
    outside = smelt.merge(pool.models, base=pool.base, method=[method])
    for name, tensor in outside.items():
        assert_close(inside[name], tensor, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("basis", BASES)
def test_a_linear_merge_of_weights_is_the_same_in_any_basis(basis):
    """In another basis every method works on changes; for a mean that is the same."""
    pool = pico(3)
    outside = smelt.merge(pool.models, base=pool.base, method="average")
    inside = smelt.merge(pool.models, base=pool.base, method=[basis, "average"])
    for name, tensor in outside.items():
        assert_close(inside[name], tensor, rtol=1e-5, atol=1e-6)


def test_ranks_run_over_the_whole_model_behind_a_basis_too():
    """The embedding's 100 changes exceed every coordinate of the matrix: a tenth of 1,000 entries is just them."""
    draw = torch.Generator().manual_seed(0)
    base = {"embed_tokens.weight": torch.zeros(10, 10), "layers.0.w.weight": torch.zeros(30, 30)}
    model = {name: torch.rand(tensor.shape, generator=draw) for name, tensor in base.items()}
    model["embed_tokens.weight"] += 100
    merged = smelt.merge({"m": model}, base=base, method=["knots", "localize_and_stitch"])
    assert int((merged["embed_tokens.weight"] != 0).sum()) == 100
    assert int((merged["layers.0.w.weight"] != 0).sum()) == 0
