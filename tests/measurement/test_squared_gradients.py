from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from smelt.measurement.squared_gradients import GradientScratch, delta_rows, known_layer, pairs_pay, squares_of


def summed(module: nn.Module, inputs: Tensor, deltas: list[Tensor], rank: int) -> dict[str, Tensor]:
    squares = squares_of("layer", module, [inputs], rank, GradientScratch())
    for delta in deltas:
        squares.add([delta_rows(module, delta)])
    return squares.result()


def by_hand(module: nn.Module, inputs: Tensor, deltas: list[Tensor]) -> dict[str, Tensor]:
    totals: dict[str, Tensor] = {}
    for number, x in enumerate(inputs):
        for delta in deltas:
            module.requires_grad_(True)
            found = torch.autograd.grad(module(x), list(module.parameters()), delta[number])
            for (name, _), gradient in zip(module.named_parameters(), found, strict=True):
                totals[name] = totals.get(name, torch.zeros(())) + gradient.square()
    return totals


@pytest.mark.parametrize("rank", [1, 1000])
def test_one_token_of_a_linear_layer_has_delta_squared_times_x_squared(rank: int) -> None:
    found = summed(nn.Linear(2, 1), torch.tensor([[[2.0, 3.0]]]), [torch.tensor([[[5.0]]])], rank)
    assert found["weight"].tolist() == [[100, 225]]
    assert found["bias"].tolist() == [25]


@pytest.mark.parametrize("rank", [1, 1000])
def test_tokens_of_one_example_add_before_they_are_squared(rank: int) -> None:
    x, delta = torch.tensor([[[1.0], [2.0]]]), torch.tensor([[[3.0], [-1.0]]])
    assert summed(nn.Linear(1, 1), x, [delta], rank)["weight"].tolist() == [[1]]  # (3·1 - 1·2)^2
    apart = summed(nn.Linear(1, 1), x.view(2, 1, 1), [delta.view(2, 1, 1)], rank)
    assert apart["weight"].tolist() == [[13]]  # (3·1)^2 + (1·2)^2


@pytest.mark.parametrize("rank", [1, 1000])
@pytest.mark.parametrize(
    ("module", "shape", "out"),
    [
        (nn.Linear(6, 5), (3, 6), (3, 5)),
        (nn.Linear(300, 400), (3, 300), (3, 400)),
        (nn.Linear(6, 5, bias=False), (2, 3, 6), (2, 3, 5)),
        (nn.LayerNorm(6), (3, 6), (3, 6)),
        (nn.LayerNorm((3, 2), bias=False), (4, 3, 2), (4, 3, 2)),
        (nn.Conv2d(2, 5, 2, stride=2), (1, 2, 4, 4), (1, 5, 2, 2)),
        (nn.Conv2d(2, 3, 3, padding=1, dilation=1, bias=False), (1, 2, 5, 4), (1, 3, 5, 4)),
    ],
    ids=str,
)
def test_every_known_layer_equals_the_squares_of_its_gradients(
    module: nn.Module, shape: tuple[int, ...], out: tuple[int, ...], rank: int
) -> None:
    torch.manual_seed(0)
    inputs, deltas = torch.randn(4, *shape), [torch.randn(4, *out) for _ in range(3)]
    found, wanted = summed(module, inputs, deltas, rank), by_hand(module, inputs, deltas)
    assert found.keys() == wanted.keys()
    for name in wanted:
        assert torch.allclose(found[name], wanted[name], rtol=1e-4, atol=1e-4 * float(wanted[name].max()))


def test_a_token_that_wakes_up_late_counts() -> None:
    torch.manual_seed(0)
    module, inputs = nn.Linear(3, 2), torch.randn(2, 4, 3)
    first, second = torch.randn(2, 4, 2), torch.randn(2, 4, 2)
    first[:, 1:] = 0  # at first only one token is alive
    found, wanted = summed(module, inputs, [first, second], 1000), by_hand(module, inputs, [first, second])
    assert torch.allclose(found["weight"], wanted["weight"], rtol=1e-4)
    nothing = summed(module, inputs, [torch.zeros(2, 4, 2)], 1000)
    assert nothing["weight"].tolist() == [[0, 0, 0], [0, 0, 0]]


def test_pairs_of_tokens_pay_with_many_directions_and_few_tokens() -> None:
    assert pairs_pay(1, 1)
    assert pairs_pay(17, 9)
    assert not pairs_pay(17, 1)
    assert not pairs_pay(257, 100)


def test_only_layers_whose_forward_pass_is_known_are_known() -> None:
    class Odd(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) ** 2

    assert known_layer(nn.Linear(1, 1))
    assert known_layer(nn.LayerNorm(1))
    assert known_layer(nn.Conv2d(1, 1, 1))
    assert not known_layer(Odd(1, 1))
    assert not known_layer(nn.Conv2d(2, 2, 1, groups=2))
    assert not known_layer(nn.Conv2d(1, 1, 3, padding="same"))
    assert not known_layer(nn.BatchNorm2d(1))
