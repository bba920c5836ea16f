"""Statistics of a convolutional tower: a Fisher of everything that is merged; no Gram where no layer is linear."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pico_clip import random_conv_clip, save_clip
from smelt.errors import RecipeError
from smelt.measurement.fisher import fisher
from smelt.models.families.clip.family import CLIP
from smelt.models.families.network import Network, network_of
from smelt.tasks.examples import ArrayStream
from whole_grams import gram


@pytest.fixture
def network(tmp_path: Path) -> Network:
    return network_of(CLIP.load(save_clip(random_conv_clip(0), tmp_path / "conv")))


@pytest.fixture
def stream() -> ArrayStream:
    draw = torch.Generator().manual_seed(0)
    head = torch.nn.functional.normalize(torch.randn(4, 3, generator=draw), dim=1)
    return ArrayStream("pictures", torch.randn(3, 3, 8, 8, generator=draw), torch.tensor([0, 1, 3]), head)


def test_the_fisher_is_that_of_one_gradient_for_each_picture(network: Network, stream: ArrayStream) -> None:
    expected = {key: torch.zeros_like(tensor) for key, tensor in network.weights().items()}
    for place in range(3):
        own = {key: tensor.clone().requires_grad_() for key, tensor in network.weights().items()}
        batch = stream.batch([place])
        chance = network.logits(own, batch.inputs, batch.head).log_softmax(-1)[0, int(batch.labels[0])]
        for key, gradient in zip(own, torch.autograd.grad(chance, list(own.values())), strict=True):
            expected[key] += gradient.square()
    found = fisher(network, stream, estimator="empirical")
    assert found.keys() == expected.keys()
    for key, tensor in expected.items():
        scale = float(tensor.abs().max())
        torch.testing.assert_close(found[key].float(), tensor, rtol=1e-3, atol=1e-4 * scale, msg=key)
    assert float(found["vision_model.encoder.top_bn.running_var"].sum()) > 0


@pytest.mark.parametrize("estimator", ["exact", "sampled", "batched_sqrt"])
def test_every_estimator_looks_at_a_convolutional_tower(network: Network, stream: ArrayStream, estimator: str) -> None:
    found = fisher(network, stream, estimator=estimator)
    assert tuple(found) == network.keys


def test_without_a_linear_layer_there_is_no_gram(network: Network, stream: ArrayStream) -> None:
    with pytest.raises(RecipeError, match="calls no linear layer whose weight is merged"):
        gram(network, stream)
