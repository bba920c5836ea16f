from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import enumerated
from smelt.errors import NumericalError, RecipeError
from smelt.measurement.gram import mirrored, tied_names, upper_gram
from smelt.measurement.gram_row_blocks import strips
from smelt.models.families.network import ModuleNetwork
from smelt.tasks.examples import ArrayStream
from whole_grams import gram


def rows(*values: list[float]) -> ArrayStream:
    return ArrayStream("rows", torch.tensor(values), torch.zeros(len(values), dtype=torch.long))


def test_the_gram_of_known_inputs() -> None:
    network = ModuleNetwork(nn.Linear(2, 3))
    found = gram(network, rows([1.0, 2.0], [3.0, -1.0]))
    assert found["weight"].tolist() == [[10, -1], [-1, 5]]  # 1+9, 2-3, 4+1
    assert list(found) == ["weight"]
    assert found["weight"].dtype == torch.float64


def test_tokens_of_an_example_add_to_it() -> None:
    stream = ArrayStream("rows", torch.tensor([[[1.0], [2.0]], [[3.0], [4.0]]]), torch.zeros(2, dtype=torch.long))
    assert gram(ModuleNetwork(nn.Linear(1, 1)), stream)["weight"].tolist() == [[1 + 4 + 9 + 16]]


def test_a_deeper_layer_sees_what_the_one_before_gives_it() -> None:
    module = nn.Sequential(nn.Linear(1, 2, bias=False), nn.ReLU(), nn.Linear(2, 1))
    module[0].weight.data = torch.tensor([[1.0], [-1.0]])
    found = gram(ModuleNetwork(module), rows([2.0], [-3.0]))
    assert found["0.weight"].tolist() == [[13]]
    assert found["2.weight"].tolist() == [[4, 0], [0, 9]]  # relu(2, -2) and relu(-3, 3)


def test_layers_with_one_input_share_one_gram() -> None:
    network, stream = enumerated.attention()
    found = gram(network, stream)
    assert tied_names(found) == {"k.weight": "q.weight", "v.weight": "q.weight"}
    assert set(found) == {f"{name}.weight" for name in ("patches", "q", "k", "v", "o", "up", "down", "head")}


def test_it_equals_the_plain_product_of_all_inputs() -> None:
    network, stream = enumerated.attention(examples=9)
    seen: dict[str, Tensor] = {}
    for name, module in network.module.named_modules():
        if isinstance(module, nn.Linear):
            module.register_forward_pre_hook(lambda _, x, name=name: seen.update({f"{name}.weight": x[0]}))
    found = gram(network, stream, chunk=4)
    network.module(stream.batch(range(9)).inputs)
    for key, x in seen.items():
        flat = x.reshape(-1, x.shape[-1]).double()
        assert torch.allclose(found[key], flat.T @ flat, rtol=1e-5, atol=1e-4)
        assert torch.equal(found[key], found[key].T)


@pytest.mark.parametrize("width", [1, 7, 96, 97, 500])
def test_half_a_product_and_its_mirror_image_are_the_whole(width: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(20, width)
    assert torch.allclose(mirrored(upper_gram(x)), x.T @ x, rtol=1e-4, atol=1e-4)


def test_the_forward_pass_ends_at_the_last_layer() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            after = self.last(x)
            if len(x) > 1:  # not for the one example by which the layers are found
                raise AssertionError("went on")
            return after

    assert gram(ModuleNetwork(Model()), rows([1.0, 0.0], [0.0, 2.0]))["last.weight"].tolist() == [[1, 0], [0, 4]]


def test_a_layer_that_is_called_twice_has_both_inputs() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.same = nn.Linear(1, 1, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.same(self.same(x))

    model = Model()
    model.same.weight.data.fill_(3.0)
    assert gram(ModuleNetwork(model), rows([2.0]))["same.weight"].tolist() == [[4 + 36]]


def test_only_the_merged_layers_are_measured() -> None:
    network, stream = enumerated.attention()
    assert list(gram(ModuleNetwork(network.module, ["o.weight", "o.bias"]), stream)) == ["o.weight"]


def test_layers_inside_torchs_fused_attention_are_seen() -> None:
    module = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
    stream = ArrayStream("rows", torch.randn(3, 4, 8), torch.zeros(3, dtype=torch.long))
    assert {"linear1.weight", "linear2.weight"} <= gram(ModuleNetwork(module), stream).keys()


def test_the_number_of_threads_does_not_change_a_bit() -> None:
    network, stream = enumerated.attention(examples=11)
    one, three = (gram(network, stream, chunk=2, threads=threads) for threads in (1, 3))
    assert all(torch.equal(one[key], three[key]) for key in one)


def test_threads_that_share_the_strips_of_one_chunk_do_not_change_a_bit() -> None:
    torch.manual_seed(0)
    stream = ArrayStream("rows", torch.randn(5, 300), torch.zeros(5, dtype=torch.long))
    one, three = (gram(ModuleNetwork(nn.Linear(300, 1)), stream, threads=threads)["weight"] for threads in (1, 3))
    assert len(strips(300)) == 4
    assert torch.equal(one, three)
    assert torch.equal(one, one.T)


def test_more_chunks_than_are_summed_at_once_all_count() -> None:
    values = [[float(number)] for number in range(1, 12)]
    assert gram(ModuleNetwork(nn.Linear(1, 1)), rows(*values), chunk=1, threads=2)["weight"].tolist() == [[506]]


def test_inputs_that_are_changed_in_place_later_on_count_as_they_were_given() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            x = x.clone()
            x += self.first(x)
            return self.second(x)

    model = Model()
    model.first.weight.data.fill_(2.0)
    found = gram(ModuleNetwork(model), rows([1.0], [3.0]))
    assert found["first.weight"].tolist() == [[1 + 9]]
    assert found["second.weight"].tolist() == [[9 + 81]]


def test_chunks_are_smaller_where_an_examples_inputs_are_large() -> None:
    seen = []

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.only = nn.Linear(9, 1)

        def forward(self, x: Tensor) -> Tensor:
            seen.append(len(x))
            return self.only(x.expand(-1, 1 << 20, 9))  # 36 MiB an example, of 128

    stream = ArrayStream("rows", torch.ones(4, 1, 9), torch.zeros(4, dtype=torch.long))
    found = gram(ModuleNetwork(Model()), stream, threads=1)["only.weight"]
    assert torch.equal(found, torch.full((9, 9), 4.0 * (1 << 20), dtype=torch.float64))
    assert seen == [1, 2, 2]


def test_two_halves_add_up_to_the_very_bits_of_the_whole() -> None:
    network, stream = enumerated.attention(examples=16)
    whole = gram(network, stream, chunk=4)
    first, second = (gram(network, stream, first=start, examples=8, chunk=4) for start in (0, 8))
    assert all(torch.equal(first[key] + second[key], whole[key]) for key in whole)


def test_a_network_without_linear_layers_has_none_to_measure() -> None:
    stream = ArrayStream("pictures", torch.randn(1, 1, 2, 2), torch.zeros(1, dtype=torch.long))
    with pytest.raises(RecipeError, match="Conv2d: calls no linear layer whose weight is merged"):
        gram(ModuleNetwork(nn.Conv2d(1, 1, 2)), stream)


def test_inputs_that_are_not_numbers_are_refused_with_the_layer() -> None:
    with pytest.raises(NumericalError, match="Gram matrix of 'weight' is NaN or infinite for cars on rows"):
        gram(ModuleNetwork(nn.Linear(2, 3)), rows([1.0, float("inf")]), label="cars")
