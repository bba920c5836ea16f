"""A CLIP network in two parts: the tower without what nobody looks at, and the head."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

from pico_clip import random_clip, save_clip
from smelt.learning.parallel_passes import Passes
from smelt.models.families.load import load
from smelt.models.families.network import Divided, Network, Replicable, network_of
from smelt.optimise.losses import entropy
from smelt.tasks.examples import ExampleBatch


@pytest.fixture
def network(tmp_path: Path) -> Network:
    return network_of(load(str(save_clip(random_clip(), tmp_path / "clip")), "classifier"))


def pictures(count: int = 5) -> torch.Tensor:
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def head() -> torch.Tensor:
    return torch.randn(4, 3, generator=torch.Generator().manual_seed(2))


def test_embedding_then_scoring_gives_the_logits_and_their_gradients(network: Network):
    assert isinstance(network, Divided)
    found = []
    for way in (
        lambda weights: network.logits(weights, pictures(), head()),
        lambda weights: network.score(network.embed(weights, pictures()), head()),
    ):
        weights = {key: tensor.clone().requires_grad_() for key, tensor in network.weights().items()}
        scores = way(weights)
        scores.square().sum().backward()
        found.append((scores.detach(), {key: weight.grad for key, weight in weights.items()}))
    (plain, gradients), (quick, others) = found
    torch.testing.assert_close(quick, plain, rtol=1e-4, atol=1e-5)
    for key, gradient in gradients.items():
        torch.testing.assert_close(others[key], gradient, rtol=1e-3, atol=1e-3, msg=key)


def test_a_copy_of_a_network_that_was_used_computes_with_weights_of_its_own(network: Network):
    assert isinstance(network, Divided)
    network.embed({}, pictures())
    twin = copy.deepcopy(network)
    weights = {key: tensor.clone().requires_grad_() for key, tensor in twin.weights().items()}
    twin.embed(weights, pictures()).square().sum().backward()
    last = [key for key in weights if ".layers." in key and key.endswith("mlp.fc2.weight")][-1]
    assert weights[last].grad is not None


def test_replicas_share_numbers_and_keep_their_weights_apart(network: Network):
    assert isinstance(network, Replicable)
    twin = network.replica()
    moved = {key: tensor + 0.1 for key, tensor in network.weights().items()}
    assert not torch.equal(twin.logits(moved, pictures(), head()), network.logits({}, pictures(), head()))
    assert torch.equal(twin.logits({}, pictures(), head()), network.logits({}, pictures(), head()))
    assert all(tensor.data_ptr() == network.weights()[key].data_ptr() for key, tensor in twin.weights().items())


def test_threads_agree_on_a_clip_model(network: Network):
    batches = {
        name: ExampleBatch(pictures(count), torch.zeros(count, dtype=torch.int64), head())
        for name, count in (("a", 5), ("b", 8))
    }
    found = []
    for threads in (1, 3):
        with Passes(network, threads, at_once=2) as passes:
            like = {key: torch.empty_like(tensor) for key, tensor in network.weights().items()}
            gradients, losses = passes.back(
                network.weights(), batches, entropy, lambda key, gradient, into: into[key].add_(gradient), like
            )
            found.append((gradients, losses))
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-5)
    for key, gradient in found[0][0].items():
        torch.testing.assert_close(found[1][0][key], gradient, rtol=1e-3, atol=1e-6, msg=key)
    assert max(float(gradient.abs().max()) for gradient in found[0][0].values()) > 1e-3
