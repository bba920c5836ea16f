"""One CoopVec at two levels: merged weights, ensembled features, and when they agree."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from pico_clip import random_clip, random_conv_clip, save_clip
from smelt.errors import RecipeError
from smelt.learning.neulig.collaborate import MODES, ensembled_logits, merged_logits
from smelt.learning.neulig.experts import Experts
from smelt.learning.neulig.portland import Portland
from smelt.models.families.load import load
from smelt.models.families.network import network_of
from towers_by_hand import BETA, Conv, Tower, coopvecs, head, linear, mlp, three, towers


def features(experts: Experts, inputs: Tensor) -> Tensor:
    with torch.no_grad():
        each = [network.encode(network.weights(), inputs) for network in experts.networks.values()]
    return torch.stack(each, dim=1)


def ensembled(experts: Experts, beta: Tensor, inputs: Tensor, classes: Tensor) -> Tensor:
    return ensembled_logits(experts.network.classify, beta, features(experts, inputs), classes)


def one_by_one(experts: Experts, beta: Tensor, inputs: Tensor, classes: Tensor) -> Tensor:
    rows = [
        experts.network.logits(experts.merge(row), example[None], classes)
        for row, example in zip(beta, inputs, strict=True)
    ]
    return torch.cat(rows).detach()


CASES = {"mlp": (mlp, (12,), 16), "conv": (Conv, (3, 8, 8), 5)}


def case(name: str, count: int = 20) -> tuple[Experts, Tensor, Tensor]:
    make, shape, width = CASES[name]
    inputs = torch.randn(count, *shape, generator=torch.Generator().manual_seed(0))
    return towers(make), inputs, head(4, width)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mode", MODES)
def test_n1_a_one_hot_vector_is_that_expert_at_both_levels(name, mode):
    experts, inputs, classes = case(name)
    for place, network in enumerate(experts.networks.values()):
        beta = torch.eye(3)[place].expand(len(inputs), 3)
        own = network.logits(network.weights(), inputs, classes).detach()
        assert torch.equal(merged_logits(experts, beta, inputs, classes, mode), own)
        torch.testing.assert_close(ensembled(experts, beta, inputs, classes), own, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", CASES)
def test_n2_equal_shares_are_the_simple_average(name):
    experts, inputs, classes = case(name)
    portland = Portland(experts.names, classes.shape[1])
    for parameter in portland.parameters():
        torch.nn.init.zeros_(parameter)
    average = {key: experts.stack(key).mean(dim=0) for key in experts.keys}
    torch.testing.assert_close(
        merged_logits(experts, portland.coopvec(features(experts, inputs)), inputs, classes),
        experts.network.logits(average, inputs, classes).detach(),
        atol=1e-5,
        rtol=0,
    )


def test_n3_linear_experts_merge_as_they_ensemble_through_the_normalising_head_too():
    experts, inputs, beta = towers(linear), torch.randn(30, 6), coopvecs(30, 3)
    with torch.no_grad():
        merged = torch.cat(
            [experts.network.encode(experts.merge(b), x[None]) for b, x in zip(beta, inputs, strict=True)]
        )
    torch.testing.assert_close((beta[:, :, None] * features(experts, inputs)).sum(dim=1), merged, atol=1e-6, rtol=0)
    scores = merged_logits(experts, beta, inputs, head(4, 4))
    # 1e-6 is meant of cosines, which the head multiplies by ten.
    torch.testing.assert_close(scores, ensembled(experts, beta, inputs, head(4, 4)), atol=1e-5, rtol=0)


def test_n4_the_gap_of_a_quadratic_is_half_the_weighted_variance():
    experts = three()
    x = torch.zeros(1, 1)
    ens = float((BETA * features(experts, x)[0, :, 0]).sum())
    with torch.no_grad():
        mer = float(experts.network.encode(experts.merge(BETA), x))
    assert (ens, mer) == pytest.approx((16.9, 11.35), abs=1e-5)
    offsets = experts.stack("theta") - experts.merge(BETA)["theta"]
    variance = float((BETA[:, None] * offsets**2 * torch.tensor([1.0, 2.0, 3.0])).sum())
    assert ens - mer == pytest.approx(variance / 2, abs=1e-5)
    assert ens - mer == pytest.approx(5.55, abs=1e-5)


def test_n5_the_gap_of_a_smooth_network_shrinks_with_the_square_of_the_offsets():
    centre = mlp(0).double()
    directions = [mlp(seed).double().state_dict() for seed in (1, 2, 3)]
    inputs = torch.randn(16, 12, generator=torch.Generator().manual_seed(0)).double()
    sizes, gaps = [1e-3, 1e-2, 1e-1], []
    tower = Tower(centre)
    base = tower.weights()
    for size in sizes:
        thetas = [{key: base[key] + size * one[key] for key in base} for one in directions]
        merged = {key: sum(b * theta[key] for b, theta in zip(BETA.double(), thetas, strict=True)) for key in base}
        ens = sum(b * tower.encode(theta, inputs) for b, theta in zip(BETA.double(), thetas, strict=True))
        gaps.append(float((ens - tower.encode(merged, inputs)).norm().detach()))
    slope = (math.log(gaps[-1]) - math.log(gaps[0])) / (math.log(sizes[-1]) - math.log(sizes[0]))
    assert slope == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("name", CASES)
def test_n10_the_order_of_experts_changes_no_answer(name):
    experts, inputs, classes = case(name)
    order = [2, 0, 1]
    moved = Experts({experts.names[k]: experts.networks[experts.names[k]] for k in order})
    portland = Portland(experts.names, classes.shape[1], seed=1)
    with torch.no_grad():
        beta = portland.coopvec(features(experts, inputs))
        other = portland.permuted(order).coopvec(features(moved, inputs))
    torch.testing.assert_close(other, beta[:, order], atol=1e-6, rtol=0)
    for answer in (merged_logits, ensembled):
        before, after = (answer(*words, inputs, classes) for words in ((experts, beta), (moved, other)))
        torch.testing.assert_close(after, before, atol=2e-5, rtol=0)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("chunk", [None, 1, 7])
def test_every_input_has_its_own_model_whatever_the_chunk(name, chunk):
    experts, inputs, classes = case(name)
    beta = coopvecs(len(inputs), 3)
    torch.testing.assert_close(
        merged_logits(experts, beta, inputs, classes, chunk=chunk),
        one_by_one(experts, beta, inputs, classes),
        atol=1e-5,
        rtol=0,
    )


def test_inputs_are_mapped_over_and_not_looped_over():
    experts, inputs, classes = case("mlp")
    merged_logits(experts, coopvecs(20, 3), inputs, classes)
    assert experts.network.encoded == 1  # one trace of one example for all of them


def test_inputs_of_one_coopvec_share_one_model():
    experts, inputs, classes = case("mlp")
    beta = coopvecs(3, 3)[torch.tensor([0, 1] * 9 + [2, 2])]
    scores = merged_logits(experts, beta, inputs, classes)
    assert experts.network.encoded == 9 + 9 + 1  # two shared models, and a map over the last two
    torch.testing.assert_close(scores, one_by_one(experts, beta, inputs, classes), atol=1e-5, rtol=0)


def test_the_batch_modes_merge_one_model_for_all_inputs():
    experts, inputs, classes = case("mlp")
    beta = coopvecs(20, 3)
    for mode, row in (("batch_first", beta[0]), ("batch_mean", beta.mean(dim=0))):
        expected = experts.network.logits(experts.merge(row), inputs, classes).detach()
        torch.testing.assert_close(merged_logits(experts, beta, inputs, classes, mode), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", CASES)
def test_n11_one_coopvec_for_all_is_the_map_mode(name):
    experts, inputs, classes = case(name)
    by_map = merged_logits(experts, BETA, inputs, classes, "map")
    for mode in MODES:
        scores = merged_logits(experts, BETA.expand(len(inputs), 3), inputs, classes, mode)
        torch.testing.assert_close(scores, by_map, atol=1e-6, rtol=0)


def test_a_chunk_of_the_merged_weights_is_bounded_by_memory(monkeypatch):
    from smelt.learning.neulig import collaborate

    experts, inputs, classes = case("mlp")
    asked = []
    merge_each = experts.merge_each
    monkeypatch.setattr(experts, "merge_each", lambda rows: asked.append(len(rows)) or merge_each(rows))
    monkeypatch.setattr(collaborate, "_BYTES", 3 * experts.bytes_of_one)
    merged_logits(experts, coopvecs(20, 3), inputs, classes)
    assert asked == [3] * 6 + [2]


@pytest.mark.parametrize("make", [random_clip, random_conv_clip])
def test_a_clip_tower_is_mapped_over_as_any_other(tmp_path, make):
    base = load(str(save_clip(make(0), tmp_path / "base")), "classifier")
    networks = {}
    for seed, name in enumerate("abc", 1):
        folder = save_clip(make(seed), tmp_path / name)
        networks[name] = network_of(load(str(folder), "classifier", text_from=base))
    experts = Experts(networks)
    inputs, beta = torch.randn(6, 3, *_side(networks["a"])), coopvecs(6, 3)
    classes = base.head(["red", "green"], ["a photo of a {}"])
    torch.testing.assert_close(
        merged_logits(experts, beta, inputs, classes), one_by_one(experts, beta, inputs, classes), atol=1e-4, rtol=0
    )
    own = networks["b"].logits(networks["b"].weights(), inputs, classes)
    torch.testing.assert_close(
        merged_logits(experts, torch.eye(3)[1], inputs, classes, "map"), own.detach(), atol=1e-4, rtol=0
    )


def _side(network: Any) -> tuple[int, int]:
    side = int(network.module.config.vision_config.image_size)
    return side, side


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"mode": "sampel"}, "no mode of merging named 'sampel' \\(did you mean 'sample'"),
        ({"mode": "map"}, "one model for all inputs, but their CoopVecs differ"),
        ({"chunk": 0}, "chunk is a number of inputs, at least 1"),
        ({"beta": coopvecs(7, 3)}, "7 CoopVecs for 20 inputs"),
        ({"beta": coopvecs(20, 2)}, "each of 3 experts"),
        ({"inputs": torch.zeros(0, 12), "beta": BETA}, "there are no inputs"),
    ],
)
def test_what_cannot_be_merged_is_refused(words, said):
    experts, inputs, classes = case("mlp")
    with pytest.raises(RecipeError, match=said):
        merged_logits(experts, **{"beta": coopvecs(20, 3), "inputs": inputs, "head": classes, **words})
