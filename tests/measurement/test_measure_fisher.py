from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor, nn

import enumerated
from smelt.errors import NumericalError, RecipeError
from smelt.measurement.fisher import ESTIMATORS, fisher
from smelt.models.families.network import ModuleNetwork
from smelt.tasks.examples import ArrayStream


class Logistic(nn.Module):
    """Scores 0 and w x: the second class has probability 1 / (1 + exp(-w x))."""

    def __init__(self, w: float):
        super().__init__()
        self.w = nn.Parameter(torch.tensor(w))

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([torch.zeros_like(x), self.w * x], dim=1)


def points(*xs: float, labels: tuple[int, ...] | None = None) -> ArrayStream:
    return ArrayStream("points", torch.tensor(xs), torch.tensor(labels or (1,) * len(xs)))


def close(found: dict[str, Tensor], wanted: dict[str, Tensor], share: float = 1e-5) -> bool:
    assert found.keys() == wanted.keys()
    return all(
        torch.allclose(found[key], wanted[key], rtol=share, atol=share * float(wanted[key].max()) + 1e-12)
        for key in wanted
    )


def test_one_weight_of_a_logistic_regression_has_p_times_1_minus_p_times_x_squared() -> None:
    p = 1 / (1 + math.exp(-0.5 * 2))
    (found,) = fisher(ModuleNetwork(Logistic(0.5)), points(2.0)).values()
    assert float(found) == pytest.approx(p * (1 - p) * 4, rel=1e-6)


def test_sums_run_over_the_examples() -> None:
    network = ModuleNetwork(Logistic(0.0))  # p = 1/2, so every example adds x^2 / 4
    assert float(fisher(network, points(2.0, 4.0, 6.0))["w"]) == pytest.approx((4 + 16 + 36) / 4)


def test_the_empirical_estimator_uses_the_label() -> None:
    network = ModuleNetwork(Logistic(math.log(3)))  # x = 1: p = 3/4
    right = fisher(network, points(1.0, labels=(1,)), estimator="empirical")["w"]
    wrong = fisher(network, points(1.0, labels=(0,)), estimator="empirical")["w"]
    assert float(right) == pytest.approx(1 / 16)
    assert float(wrong) == pytest.approx(9 / 16)


def test_the_batched_estimator_squares_the_sum_over_a_batch() -> None:
    # d/dw of sqrt(p_0) log p_0 + sqrt(p_1) log p_1 at w = 0 is sqrt(1/2) (x/2 - x/2) = 0, whatever the batch;
    # at x = 1, w = log 3 it is sqrt(3/4) (1/4) - sqrt(1/4) (3/4).
    one = math.sqrt(3 / 4) / 4 - math.sqrt(1 / 4) * 3 / 4
    network = ModuleNetwork(Logistic(math.log(3)))
    together = fisher(network, points(1.0, 1.0), estimator="batched_sqrt", batch=2)["w"]
    apart = fisher(network, points(1.0, 1.0), estimator="batched_sqrt", batch=1)["w"]
    assert float(together) == pytest.approx((2 * one) ** 2, rel=1e-5)
    assert float(apart) == pytest.approx(2 * one**2, rel=1e-5)


def test_the_batched_estimator_takes_a_networks_shorter_way() -> None:
    class Short(ModuleNetwork):
        def embed(self, weights: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
            return super().logits(weights, inputs, None)

        def score(self, features: Tensor, head: Tensor | None) -> Tensor:
            return features

        def logits(self, weights: Mapping[str, Tensor], inputs: Tensor, head: Tensor | None) -> Tensor:
            raise AssertionError("the longer way")

    plain, short = (
        fisher(kind(Logistic(math.log(3))), points(1.0, 2.0), estimator="batched_sqrt")["w"]
        for kind in (ModuleNetwork, Short)
    )
    assert float(plain) > 0
    assert torch.equal(short, plain)


def test_the_gradients_of_two_weights_that_are_only_added_are_squared_once_each() -> None:
    class Sum(Logistic):
        def __init__(self, w: float):
            super().__init__(w / 2)
            self.more = nn.Parameter(torch.tensor(w / 2))

        def forward(self, x: Tensor) -> Tensor:
            return torch.stack([torch.zeros_like(x), (self.w + self.more) * x], dim=1)

    wanted = fisher(ModuleNetwork(Logistic(math.log(3))), points(1.0), estimator="batched_sqrt")["w"]
    found = fisher(ModuleNetwork(Sum(math.log(3))), points(1.0), estimator="batched_sqrt")
    assert float(found["w"]) == float(found["more"]) == pytest.approx(float(wanted), rel=1e-5)


@pytest.mark.parametrize("classes", [2, 5, 40])
def test_exact_equals_the_enumeration_of_all_classes(classes: int) -> None:
    network, stream = enumerated.attention(classes)
    assert close(fisher(network, stream, tolerance=0), enumerated.exact(network, stream))


def test_what_the_tolerance_leaves_out_is_below_it() -> None:
    network, stream = enumerated.attention(40)
    network.module.head.weight.mul_(8)  # a sure model, most of whose classes hardly matter
    whole, less = (sum(float(t.sum()) for t in fisher(network, stream, tolerance=x).values()) for x in (0, 1e-2))
    assert 0.9 * whole < less < whole


def test_the_empirical_estimator_equals_its_definition_on_a_picture_model() -> None:
    network, stream = enumerated.attention()
    assert close(fisher(network, stream, estimator="empirical"), enumerated.empirical(network, stream))


def test_sampled_labels_give_the_exact_information_on_average() -> None:
    network = ModuleNetwork(Logistic(1.0))
    stream = points(*[1.0] * 4000)
    exact, sampled = (float(fisher(network, stream, estimator=e, chunk=1000)["w"]) for e in ("exact", "sampled"))
    assert sampled == pytest.approx(exact, rel=0.05)
    assert sampled != exact


def test_a_sampled_label_belongs_to_its_example_and_the_seed() -> None:
    network, stream = enumerated.attention(examples=8)
    words = {"estimator": "sampled"}
    whole = fisher(network, stream, **words)
    parts = [fisher(network, stream, first=first, examples=4, **words) for first in (0, 4)]
    assert close({key: parts[0][key] + parts[1][key] for key in whole}, whole)
    assert not close(fisher(network, stream, seed=1, **words), whole)


class Twice(nn.Module):
    """One linear layer that is used twice, and one whose weight is also another layer's."""

    def __init__(self) -> None:
        super().__init__()
        self.same, self.out, self.tied = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.tied.weight = self.out.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.same(torch.tanh(self.same(x))))) + torch.tanh(self.tied(x))


def test_a_weight_that_is_used_twice_has_the_square_of_its_whole_gradient() -> None:
    torch.manual_seed(0)
    network, stream = ModuleNetwork(Twice()), ArrayStream("rows", torch.randn(5, 4), torch.arange(5) % 4)
    assert close(fisher(network, stream, tolerance=0), enumerated.exact(network, stream))


def test_attention_that_reads_weights_past_their_layer_is_measured_too() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, dropout=0.0)

        def forward(self, x: Tensor) -> Tensor:
            return self.block(x).sum(dim=1)

    torch.manual_seed(0)
    network, stream = ModuleNetwork(Model()), ArrayStream("rows", torch.randn(3, 4, 8), torch.arange(3))
    assert close(fisher(network, stream, tolerance=0), enumerated.exact(network, stream))


def test_only_the_merged_weights_are_measured() -> None:
    network, stream = enumerated.attention()
    some = ModuleNetwork(network.module, ["q.weight", "token"])
    found, whole = fisher(some, stream), fisher(network, stream)
    assert close(found, {key: whole[key] for key in ("q.weight", "token")})


def test_a_weight_that_the_scores_do_not_depend_on_has_none() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(2, 3), nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.used(x)

    rows = ArrayStream("rows", torch.ones(2, 2), torch.zeros(2, dtype=torch.long))
    found = fisher(ModuleNetwork(Model()), rows)
    assert found["unused.weight"].tolist() == [[0, 0], [0, 0]]
    assert float(found["used.weight"].sum()) > 0


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_scores_that_depend_on_no_weight_are_refused(estimator: str) -> None:
    one_class = ModuleNetwork(nn.Linear(2, 1))
    rows = ArrayStream("rows", torch.ones(2, 2), torch.zeros(2, dtype=torch.long))
    with pytest.raises(NumericalError, match="the scores of cars on rows depend on none of its merged weights"):
        fisher(one_class, rows, estimator=estimator, label="cars")


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_number_of_threads_does_not_change_a_bit(estimator: str) -> None:
    network, stream = enumerated.attention(examples=11)
    one, three = (fisher(network, stream, estimator=estimator, chunk=2, batch=2, threads=threads) for threads in (1, 3))
    assert all(torch.equal(one[key], three[key]) for key in one)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_two_halves_add_up_to_the_very_bits_of_the_whole(estimator: str) -> None:
    network, stream = enumerated.attention(examples=16)
    words = {"estimator": estimator, "chunk": 4, "batch": 4}
    whole = fisher(network, stream, **words)
    first, second = (fisher(network, stream, first=start, examples=8, **words) for start in (0, 8))
    assert all(torch.equal(first[key] + second[key], whole[key]) for key in whole)


def test_the_networks_own_modules_are_left_without_hooks() -> None:
    network, stream = enumerated.attention()
    fisher(network, stream)
    assert not any(module._forward_hooks for module in network.module.modules())


def test_an_unknown_estimator_is_refused() -> None:
    network, stream = enumerated.attention()
    with pytest.raises(RecipeError, match=r"no estimator of the Fisher information named 'exakt'.*'exact'"):
        fisher(network, stream, estimator="exakt")


def test_more_examples_than_there_are_is_refused() -> None:
    network, stream = enumerated.attention(examples=6)
    with pytest.raises(RecipeError, match="pictures: 5 examples from 2 on are asked for, but there are 4"):
        fisher(network, stream, first=2, examples=5)
    with pytest.raises(RecipeError, match="at least one"):
        fisher(network, stream, examples=0)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_scores_that_are_not_numbers_are_refused_with_the_model_and_the_task(estimator: str) -> None:
    with pytest.raises(NumericalError, match="cars gives NaN or infinite scores on points"):
        fisher(ModuleNetwork(Logistic(math.nan)), points(1.0), estimator=estimator, label="cars")


def test_gradients_that_are_not_numbers_are_refused_with_the_weights_name() -> None:
    class Root(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.tensor(0.0))

        def forward(self, x: Tensor) -> Tensor:
            return torch.stack([x, (self.w * self.w).sqrt() * x], dim=1)  # the root has no slope at zero

    with pytest.raises(NumericalError, match="squared gradient of 'w' is NaN or infinite for cars on points"):
        fisher(ModuleNetwork(Root()), points(1.0), label="cars")
