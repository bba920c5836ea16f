"""Experts side by side: what is merged, what is counted, and what is refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from smelt.errors import IncompatibleModels, RecipeError
from smelt.learning.neulig.experts import Experts
from smelt.models.families.network import ModuleNetwork
from towers_by_hand import BETA, ROWS, Conv, Numbers, Tower, linear, mlp, three, towers


def test_n1_a_one_hot_vector_merges_to_that_expert_bit_for_bit():
    experts = towers(mlp)
    for place, network in enumerate(experts.networks.values()):
        merged = experts.merge(torch.eye(3)[place])
        mapped = experts.merge_each(torch.eye(3))
        for key, own in network.weights().items():
            assert torch.equal(merged[key], own)
            assert torch.equal(mapped[key][place], own)


def test_n2_equal_shares_merge_to_the_plain_average():
    experts = towers(mlp)
    merged = experts.merge([1 / 3] * 3)
    for key in experts.keys:
        average = sum(network.weights()[key] for network in experts.networks.values()) / 3
        torch.testing.assert_close(merged[key], average, atol=1e-7, rtol=1e-6)


def test_n4_three_rows_merge_to_the_numbers_of_the_specification():
    experts = three()
    assert experts.merge(BETA)["theta"].tolist() == pytest.approx([1.2, 0.7, 2.6], abs=1e-6)
    assert experts.stack("theta").tolist() == [list(row) for row in ROWS]


def test_tensors_that_all_experts_share_are_not_merged():
    networks = {name: Tower(mlp(0)) for name in "abc"}
    with torch.no_grad():
        networks["c"].module[2].bias += 1
    experts = Experts(networks)
    assert set(experts.keys) - experts.shared.keys() == {"2.bias"}
    assert experts.bytes_of_one == 4 * 16
    assert experts.merge(BETA)["0.weight"] is experts.shared["0.weight"]
    torch.testing.assert_close(experts.merge(BETA)["2.bias"], networks["a"].module[2].bias + 0.3)
    assert experts.stack("0.weight").shape == (3, 48, 12)


def test_float_buffers_are_merged_but_count_nothing_in_the_alignment():
    experts = towers(Conv)
    assert {"norm.running_mean", "norm.running_var"} <= set(experts.keys)
    assert "norm.num_batches_tracked" not in experts.keys
    own = [network.module.norm.running_var for network in experts.networks.values()]
    torch.testing.assert_close(experts.merge(BETA)["norm.running_var"], 0.2 * own[0] + 0.5 * own[1] + 0.3 * own[2])
    offsets, gram = experts.offsets(), experts.gram()
    networks = {name: Tower(network.module) for name, network in experts.networks.items()}
    networks["e0"].module.norm.running_mean += 100
    assert torch.equal(Experts(networks).offsets(), offsets)
    assert torch.equal(Experts(networks).gram(), gram)


def test_offsets_sum_to_zero_and_the_gram_matrix_has_trace_one():
    experts = towers(mlp)
    assert float(experts.offsets().sum()) == pytest.approx(0, abs=1e-9)
    assert float(experts.gram().trace()) == pytest.approx(1)
    assert float(experts.gram().sum()) == pytest.approx(0, abs=1e-9)


def test_an_expert_is_known_by_its_numbers():
    one, other = towers(mlp).hashes, towers(mlp).hashes
    assert one == other
    assert len(set(one.values())) == 3
    assert towers(lambda seed: nn.Sequential(*list(mlp(seed))[:1], nn.ReLU(), mlp(seed)[2])).hashes["e0"] != one["e0"]


def test_fewer_than_two_experts_are_refused():
    with pytest.raises(RecipeError, match=r"at least two experts, got 1 \(a\)"):
        Experts({"a": Tower(mlp(0))})
    with pytest.raises(RecipeError, match="at least two experts, got 0"):
        Experts({})


def test_experts_of_different_shapes_or_names_are_refused_with_every_fault():
    with pytest.raises(IncompatibleModels, match=r"'weight' is \(4, 6\) in a but \(4, 5\) in b"):
        Experts({"a": Tower(linear(0)), "b": Tower(nn.Linear(5, 4))})
    with pytest.raises(IncompatibleModels, match="cannot collaborate") as caught:
        Experts({"a": Tower(linear(0)), "b": Tower(Numbers(1.0, 2.0, 3.0))})
    assert caught.value.faults == (
        "'weight' of a is missing from b",
        "'bias' of a is missing from b",
        "'theta' of b is missing from a",
    )


def test_what_is_not_merged_has_to_be_the_same():
    networks = {"a": Tower(linear(0)), "b": Tower(linear(1))}
    for network in networks.values():
        network.keys = ("weight",)
    with pytest.raises(IncompatibleModels, match=r"'bias' is not merged, but differs between a and b; .* text_from"):
        Experts(networks)


def test_a_network_without_features_is_no_expert():
    with pytest.raises(RecipeError, match="b: cannot be experts, because they give no features"):
        Experts({"a": Tower(linear(0)), "b": ModuleNetwork(linear(1))})


@pytest.mark.parametrize(
    ("beta", "said"),
    [
        ([0.5, 0.5], "number for each of 3 experts \\(a, b, c\\), but the coefficients are \\(2,\\)"),
        ([0.5, 0.2, 0.2], "not on the simplex"),
        ([1.5, -0.5, 0.0], "not on the simplex"),
        ([float("nan"), 0.5, 0.5], "not on the simplex"),
    ],
)
def test_coefficients_that_are_no_coopvec_are_refused(beta, said):
    with pytest.raises(RecipeError, match=said):
        three().merge(beta)
