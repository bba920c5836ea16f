"""A model as a function of its weights: the same scores as the model itself, and gradients that are right."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from pico_clip import COLOURS, TEMPLATES, random_clip, save_clip
from smelt.errors import RecipeError
from smelt.models.families.clip.family import CLIP
from smelt.models.families.network import ModuleNetwork, network_of


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return CLIP.load(str(save_clip(random_clip(), tmp_path_factory.mktemp("clip"))))


@pytest.fixture(scope="module")
def pictures():
    return np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3), dtype=np.uint8)


def _inputs(clip, pictures):
    return clip.preprocess.normalise(torch.from_numpy(pictures), torch.float32)


def test_with_its_own_weights_it_scores_as_the_model_does(clip, pictures):
    network, head = network_of(clip), clip.head(list(COLOURS), TEMPLATES)
    scores = network.logits(network.weights(), _inputs(clip, pictures), head)
    assert torch.equal(scores, clip.logits(pictures, head))


def test_its_keys_are_the_picture_towers(clip):
    network = network_of(clip)
    assert all(key.startswith("vision_model.") for key in network.keys)
    assert set(network.weights()) == set(network.keys) < {name for name, _ in network.module.named_parameters()}


def test_other_weights_give_other_scores_and_leave_the_model_as_it_was(clip, pictures):
    network, head = network_of(clip), clip.head(list(COLOURS), TEMPLATES)
    before = {name: tensor.clone() for name, tensor in network.module.state_dict().items()}
    own = network.logits(network.weights(), _inputs(clip, pictures), head)
    doubled = {key: 2 * tensor for key, tensor in network.weights().items()}
    assert not torch.allclose(network.logits(doubled, _inputs(clip, pictures), head), own)
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.module.state_dict().items())


def test_the_gradient_is_that_of_finite_differences(clip, pictures):
    network, head = network_of(clip), clip.head(list(COLOURS), TEMPLATES)
    key, inputs = "vision_model.post_layernorm.bias", _inputs(clip, pictures)
    weights = network.weights()
    weights[key].requires_grad_()
    (gradient,) = torch.autograd.grad(network.logits(weights, inputs, head)[:, 0].sum(), weights[key])
    step = torch.zeros_like(gradient)
    step[2] = 1e-2
    up, down = (
        network.logits({**weights, key: (weights[key] + sign * step).detach()}, inputs, head) for sign in (1, -1)
    )
    assert float((up - down)[:, 0].sum()) / 2e-2 == pytest.approx(float(gradient[2]), rel=1e-2)


def test_a_plain_module_is_a_network_of_all_its_parameters():
    module = nn.Linear(2, 1)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[1.0, 2.0]]))
        module.bias.zero_()
    network = ModuleNetwork(module)
    assert network.keys == ("weight", "bias")
    assert network.logits({"bias": torch.tensor([10.0])}, torch.tensor([[3.0, 4.0]]), None).item() == 21.0


def test_what_has_no_weights_of_its_own_is_no_network():
    with pytest.raises(RecipeError, match="not one model with weights of its own"):
        network_of(object())
