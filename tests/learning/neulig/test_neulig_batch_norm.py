"""BatchNorm statistics of a merged model, estimated again."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pico_clip import random_conv_clip, save_clip
from smelt.errors import RecipeError
from smelt.learning.neulig.batch_norm import re_estimated
from smelt.models.families.load import load
from smelt.models.families.network import network_of
from towers_by_hand import BETA, Conv, Tower, mlp, towers


def test_the_statistics_are_those_of_all_that_comes_in_over_all_batches():
    tower = Tower(nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2)))
    data = torch.tensor([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [6.0, 4.0], [8.0, 6.0]])
    found = re_estimated(tower, tower.weights(), [data[:3], data[3:]])
    assert found["0.running_mean"].tolist() == pytest.approx([4.0, 2.0])
    assert found["0.running_var"].tolist() == pytest.approx([34 / 4, 32 / 4])


def test_only_the_statistics_change_and_the_network_stays_as_it_was():
    experts = towers(Conv)
    merged = experts.merge(BETA)
    module = experts.network.module
    before = {key: tensor.clone() for key, tensor in module.state_dict().items()}
    given = {key: tensor.clone() for key, tensor in merged.items()}
    found = re_estimated(experts.network, merged, [torch.randn(8, 3, 8, 8), torch.randn(8, 3, 8, 8)])
    changed = {key for key in merged if not torch.equal(found[key], merged[key])}
    assert changed == {"norm.running_mean", "norm.running_var"}
    assert all(torch.equal(merged[key], given[key]) for key in merged)
    assert all(torch.equal(tensor, before[key]) for key, tensor in module.state_dict().items())
    assert not any(layer.training for layer in module.modules())
    assert module.norm.track_running_stats
    assert not module.norm._forward_pre_hooks


def test_they_make_the_merged_model_normalise_its_own_inputs():
    experts = towers(Conv)
    inputs = torch.randn(64, 3, 8, 8)
    weights = re_estimated(experts.network, experts.merge(BETA), [inputs])
    seen = torch.nn.functional.conv2d(inputs, weights["conv.weight"], weights["conv.bias"], stride=2)
    torch.testing.assert_close(weights["norm.running_mean"], seen.mean(dim=(0, 2, 3)), atol=1e-5, rtol=0)


def test_a_convolutional_clip_is_measured_too(tmp_path):
    clip = load(str(save_clip(random_conv_clip(1), tmp_path / "clip")), "classifier")
    network = network_of(clip)
    side = int(clip.model.config.vision_config.image_size)
    weights = network.weights()
    found = re_estimated(network, weights, [torch.randn(4, 3, side, side) for _ in range(2)])
    moved = {key for key in weights if not torch.equal(found[key], weights[key])}
    assert moved == {key for key in weights if key.endswith(("running_mean", "running_var"))}


def test_a_network_without_batch_norm_is_left_alone_and_no_data_is_refused():
    plain = Tower(mlp(0))
    assert re_estimated(plain, plain.weights(), []).keys() == plain.weights().keys()
    conv = Tower(Conv(0))
    with pytest.raises(RecipeError, match="nothing came into 'norm': give at least one batch"):
        re_estimated(conv, conv.weights(), [])
