"""Statistics of a convolutional tower: a Fisher of everything that is merged, Gram matrices of patches."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import smelt
from pico_clip import conv_pool, random_conv_clip, save_clip, write_task
from smelt.measurement.fisher import fisher
from smelt.measurement.layer_inputs import patches
from smelt.models.families.clip.family import CLIP
from smelt.models.families.network import ModuleNetwork, Network, network_of
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


def test_the_gram_of_a_convolution_is_that_of_its_patches() -> None:
    """Two patches of two neighbours each in a row of three: (1, 2) and (2, 3)."""
    network = ModuleNetwork(nn.Conv2d(1, 2, (1, 2), bias=False))
    stream = ArrayStream("row", torch.tensor([[[[1.0, 2.0, 3.0]]]]), torch.zeros(1, dtype=torch.long))
    assert gram(network, stream)["weight"].tolist() == [[1 + 4, 2 + 6], [2 + 6, 4 + 9]]


def test_stride_and_padding_decide_which_patches_there_are() -> None:
    """A stride of two over (0, 1, 2, 3, 0): (0, 1), (2, 3)."""
    network = ModuleNetwork(nn.Conv2d(1, 2, (1, 2), stride=(1, 2), padding=(0, 1), bias=False))
    stream = ArrayStream("row", torch.tensor([[[[1.0, 2.0, 3.0]]]]), torch.zeros(1, dtype=torch.long))
    assert gram(network, stream)["weight"].tolist() == [[4, 6], [6, 1 + 9]]


def test_patches_are_what_the_convolution_multiplies_whatever_its_padding() -> None:
    x = torch.randn(2, 3, 5, 6, generator=torch.Generator().manual_seed(0))
    for words in (
        {"padding": "same", "dilation": 2},
        {"padding": "valid"},
        {"padding": 1, "stride": 2},
        {"dilation": 2},
    ):
        layer = nn.Conv2d(3, 4, (3, 2), bias=False, **words)
        expected = layer(x).flatten(2).mT
        torch.testing.assert_close(patches(layer, x) @ layer.weight.flatten(1).T, expected)


def test_grouped_convolutions_and_embeddings_of_patches_have_no_gram(network: Network, stream: ArrayStream) -> None:
    found = gram(network, stream)
    assert "vision_model.encoder.blocks.0.squeeze_excite.reduce.weight" in found
    assert not any("depthwise" in key or "embeddings" in key for key in found)
    for key, matrix in found.items():
        width = network.weights()[key][0].numel()
        assert matrix.shape == (width, width), key


def test_merged_convolutions_answer_as_least_squares_on_the_patches_of_both() -> None:
    draw = torch.Generator().manual_seed(1)
    layers = {name: nn.Conv2d(2, 3, 2, bias=False) for name in ("cars", "birds")}
    pictures = {name: torch.randn(5, 2, 4, 4, generator=draw) for name in layers}
    rows = {name: patches(layers[name], pictures[name]).flatten(0, 1) for name in layers}
    answers = torch.cat([rows[name] @ layers[name].weight.detach().flatten(1).T for name in layers])
    expected = torch.linalg.lstsq(torch.cat(list(rows.values())), answers).solution.T
    streams = {name: ArrayStream(name, x, torch.zeros(5, dtype=torch.long)) for name, x in pictures.items()}
    got = smelt.merge(
        {name: {"weight": layer.weight.detach()} for name, layer in layers.items()},
        method="regmean",
        statistics={name: {"weight": gram(ModuleNetwork(layers[name]), streams[name])["weight"]} for name in layers},
        reduction=1.0,
        ridge=0.0,
    )
    torch.testing.assert_close(got["weight"], expected.view(3, 2, 2, 2), rtol=1e-4, atol=1e-5)


def test_a_convolutional_tower_merges_by_regmean_from_a_recipe(tmp_path: Path) -> None:
    pool = conv_pool(tmp_path / "models")
    counts = {"one": {"red": 9, "green": 0, "blue": 0}, "two": {"red": 0, "green": 4, "blue": 5}}
    tasks = {name: str(write_task(tmp_path / f"colours-{name}", counts[name])) for name in pool["models"]}
    data = {"split": "val", "examples": 6, "tasks": tasks}
    merged = {
        method: smelt.merge({"pool": pool, "merge": method, "include": ["vision_model.*"], "data": use})
        for method, use in (("regmean", data), ("regmean_pp", data), ("average", None))
    }
    one, other = (f"vision_model.encoder.{part}" for part in ("top_conv.weight", "top_bn.running_mean"))
    assert not torch.equal(merged["regmean"][one], merged["average"][one])
    assert not torch.equal(merged["regmean_pp"][one], merged["average"][one])
    assert torch.equal(merged["regmean"][other], merged["average"][other])
    plan = smelt.plan({"pool": pool, "merge": "regmean", "include": ["vision_model.*"], "data": data})
    assert "gram statistics are read beside one, two" in plan.notes
