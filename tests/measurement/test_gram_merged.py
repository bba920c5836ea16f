from __future__ import annotations

import copy
from collections import OrderedDict

import pytest
import torch
from torch import Tensor, nn

import enumerated
import smelt
from smelt.errors import IncompatibleModels, NumericalError, RecipeError
from smelt.measurement.gram_merged import gram_merged
from smelt.measurement.layer_inputs import patches
from smelt.models.families.network import ModuleNetwork
from smelt.ops.least_squares import gram_mean
from smelt.tasks.examples import ArrayStream
from whole_grams import gram


def pool(models: int = 2) -> tuple[dict[str, ModuleNetwork], dict[str, ArrayStream]]:
    """Fine-tunes of one small picture model, each with pictures of its own."""
    base, _ = enumerated.attention()
    networks, streams = {}, {}
    for number in range(models):
        module = copy.deepcopy(base.module)
        draw = torch.Generator().manual_seed(number)
        for tensor in module.parameters():
            tensor.add_(0.2 * torch.randn(tensor.shape, generator=draw))
        name = ("cars", "birds", "ships")[number]
        networks[name] = ModuleNetwork(module)
        pictures = (number + 1) * torch.randn(12, 2, 4, 4, generator=draw)
        streams[name] = ArrayStream(name, pictures, torch.zeros(12, dtype=torch.long))
    return networks, streams


def two_layers(first: float, second: float) -> ModuleNetwork:
    module = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    module[0].weight.data.fill_(first)
    module[1].weight.data.fill_(second)
    return ModuleNetwork(module)


def column(name: str, *values: float) -> ArrayStream:
    return ArrayStream(name, torch.tensor(values)[:, None], torch.zeros(len(values), dtype=torch.long))


def test_the_second_layer_is_fed_by_the_merged_first() -> None:
    networks = {"cars": two_layers(1.0, 10.0), "birds": two_layers(4.0, 20.0)}
    streams = {"cars": column("cars", 1.0), "birds": column("birds", 2.0)}
    found = gram_merged(networks, streams, reduction=1.0, ridge=0.0)
    # The first layer: Grams 1 and 4, so w = (1·1 + 4·4) / 5 = 3.4, and the inputs of the second are 3.4 and 6.8.
    assert float(found.weights["0.weight"]) == pytest.approx(3.4)
    assert float(found.grams["cars"]["1.weight"]) == pytest.approx(3.4**2)
    assert float(found.grams["birds"]["1.weight"]) == pytest.approx(6.8**2)
    assert float(found.weights["1.weight"]) == pytest.approx((10 * 1 + 20 * 4) / 5)
    assert float(gram(networks["birds"], streams["birds"])["1.weight"]) == 64  # RegMean's own: (4·2)^2


def test_inside_a_block_the_step_by_blocks_uses_the_models_own_layers() -> None:
    networks = {"cars": two_layers(1.0, 10.0), "birds": two_layers(4.0, 20.0)}
    one_block = {
        name: ModuleNetwork(nn.Sequential(OrderedDict(layers=nn.Sequential(network.module))))
        for name, network in networks.items()
    }
    streams = {"cars": column("cars", 1.0), "birds": column("birds", 2.0)}
    found = gram_merged(one_block, streams, reduction=1.0, ridge=0.0, step="block")
    assert float(found.grams["birds"]["layers.0.1.weight"]) == pytest.approx(64)  # its own first layer: (4·2)^2
    assert float(found.weights["layers.0.0.weight"]) == pytest.approx(3.4)
    apart = gram_merged(networks, streams, reduction=1.0, ridge=0.0, step="block")  # a block each
    assert float(apart.grams["birds"]["1.weight"]) == pytest.approx(6.8**2)


@pytest.mark.parametrize("step", ["layer", "block"])
def test_regmean_with_these_grams_is_the_model_that_the_walk_built(step: str) -> None:
    networks, streams = pool(3)
    found = gram_merged(networks, streams, reduction=0.9, ridge=1e-4, step=step, chunk=5, threads=2)
    models = {name: network.weights() for name, network in networks.items()}
    means = {name: {key: t / 12 for key, t in grams.items()} for name, grams in found.grams.items()}
    merged = smelt.merge(models, method="regmean", statistics=means, reduction=0.9, ridge=1e-4)
    for key, tensor in found.weights.items():
        assert torch.allclose(merged[key], tensor, rtol=1e-5, atol=1e-6), key


def test_the_walk_equals_building_the_model_layer_after_layer_by_hand() -> None:
    networks, streams = pool(2)
    found = gram_merged(networks, streams, reduction=0.9, ridge=1e-4)
    own = [network.weights() for network in networks.values()]
    merged = {key: (own[0][key] + own[1][key]) / 2 for key in own[0]}
    for keys in (["patches"], ["q", "k", "v"], ["o"], ["up"], ["down"], ["head"]):
        grams = []
        for network, stream in zip(networks.values(), streams.values(), strict=True):
            module = copy.deepcopy(network.module)
            module.load_state_dict(merged)
            seen: list[Tensor] = []
            getattr(module, keys[0]).register_forward_pre_hook(lambda _, x, seen=seen: seen.append(x[0]))
            module(stream.batch(range(12)).inputs)
            inputs = patches(module.patches, seen[0]) if keys == ["patches"] else seen[0]
            flat = inputs.reshape(-1, inputs.shape[-1])
            grams.append(flat.T @ flat / 12)
        for name in (f"{key}.weight" for key in keys):
            found_layer = gram_mean([one[name].flatten(1) for one in own], grams, reduction=0.9, ridge=1e-4)
            merged[name] = found_layer.float().view(merged[name].shape)
    for key, tensor in found.weights.items():
        assert torch.allclose(merged[key], tensor, rtol=1e-3, atol=1e-4), key


def test_with_one_model_the_walk_gives_it_back() -> None:
    networks, streams = pool(1)
    found = gram_merged(networks, streams)
    assert all(torch.allclose(found.weights[k], t, atol=1e-6) for k, t in networks["cars"].weights().items())
    plain = gram(networks["cars"], streams["cars"])
    assert all(torch.allclose(found.grams["cars"][key], plain[key], rtol=1e-4, atol=1e-3) for key in plain)


def test_layers_with_one_input_share_one_gram() -> None:
    found = gram_merged(*pool(2))
    for grams in found.grams.values():
        assert grams["q.weight"] is grams["k.weight"] is grams["v.weight"]
        assert grams["q.weight"] is not grams["o.weight"]


def test_a_tensor_that_is_not_merged_is_in_place_from_the_start() -> None:
    networks = {"cars": two_layers(1.0, 10.0), "birds": two_layers(4.0, 20.0)}
    streams = {"cars": column("cars", 1.0), "birds": column("birds", 2.0)}
    found = gram_merged(networks, streams, fixed={"0.weight": torch.tensor([[2.0]])})
    assert found.grams["cars"].keys() == {"1.weight"}
    assert float(found.grams["birds"]["1.weight"]) == pytest.approx(16)  # (2·2)^2


def test_models_and_data_are_paired_by_name() -> None:
    networks, streams = pool(2)
    swapped = dict(reversed(streams.items()))
    one, other = (gram_merged(networks, given).weights for given in (streams, swapped))
    assert all(torch.equal(one[key], other[key]) for key in one)
    with pytest.raises(RecipeError, match=r"paired by name.*no partner: birds"):
        gram_merged(networks, {"cars": streams["cars"]})


def test_models_of_other_shapes_are_refused() -> None:
    networks = {"cars": ModuleNetwork(nn.Linear(1, 1)), "birds": ModuleNetwork(nn.Linear(1, 2))}
    streams = {"cars": column("cars", 1.0), "birds": column("birds", 2.0)}
    with pytest.raises(IncompatibleModels, match=r"'weight' is \(2, 1\) in birds but \(1, 1\) in cars"):
        gram_merged(networks, streams)


def test_an_unknown_step_is_refused() -> None:
    with pytest.raises(RecipeError, match="no step of RegMean\\+\\+ named 'blok' \\(did you mean 'block'"):
        gram_merged(*pool(2), step="blok")


def test_a_singular_gram_names_the_layer() -> None:
    module = nn.Linear(3, 1)
    stream = ArrayStream("rows", torch.tensor([[1.0, 1.0, 2.0]]), torch.zeros(1, dtype=torch.long))
    with pytest.raises(NumericalError, match=r"^weight: .*singular.*more examples"):
        gram_merged({"cars": ModuleNetwork(module)}, {"cars": stream}, reduction=1.0, ridge=0.0)


def test_layers_stored_as_in_and_out_are_walked_as_any_other() -> None:
    """The same two layers as Linear and as GPT-2's Conv1D, whose weights are the transposed ones."""
    from transformers.pytorch_utils import Conv1D

    plain, turned, streams = {}, {}, {}
    for number, name in enumerate(("cars", "birds")):
        draw = torch.Generator().manual_seed(number)
        layers = nn.Sequential(OrderedDict(first=nn.Linear(3, 4), second=nn.Linear(4, 2)))
        others = nn.Sequential(OrderedDict(first=Conv1D(4, 3), second=Conv1D(2, 4)))
        for key, tensor in layers.state_dict().items():
            tensor.copy_(torch.randn(tensor.shape, generator=draw))
            others.state_dict()[key].copy_(tensor.mT if tensor.ndim == 2 else tensor)
        plain[name], turned[name] = ModuleNetwork(layers), ModuleNetwork(others)
        streams[name] = ArrayStream(name, torch.randn(12, 3, generator=draw), torch.zeros(12, dtype=torch.long))
    expected, got = gram_merged(plain, streams), gram_merged(turned, streams)
    for key, tensor in expected.weights.items():
        torch.testing.assert_close(got.weights[key].mT if tensor.ndim == 2 else got.weights[key], tensor)
    for name, grams in expected.grams.items():
        for key, tensor in grams.items():
            torch.testing.assert_close(got.grams[name][key], tensor, rtol=1e-5, atol=1e-5)
