"""The merge that is differentiated without a graph through it."""

from __future__ import annotations

import weakref
from pathlib import Path

import pytest
import torch
from torch import nn

from learned_by_hand import Slope, batch, moved, random_batch, small, vectors
from smelt.errors import IncompatibleModels, NumericalError
from smelt.learning.differentiable_merge import MergedObjective, Weighted
from smelt.learning.parallel_passes import Passes
from smelt.learning.tensor_groups import groups_of
from smelt.models.families.network import ModuleNetwork
from smelt.optimise.losses import LOSSES
from smelt.tasks.examples import ExampleBatch

MODELS = {"red": moved(small(), 1), "green": moved(small(), 2), "blue": moved(small(), 3)}
BATCHES = {"red": random_batch(7, 4), "green": random_batch(5, 5), "blue": random_batch(9, 6)}


def gradients(level="tensor", threads=1, at_once=None, loss="entropy", network=None, spread=True, **words):
    merge = Weighted(vectors(small(), MODELS, **words), level, 0.3)
    if spread:  # coefficients that differ, so that a mix-up shows
        merge.coefficients += torch.arange(merge.coefficients.numel()).view_as(merge.coefficients) / 50
    with Passes(network or ModuleNetwork(small()), threads, at_once) as passes:
        return merge, *MergedObjective(merge, passes, loss).gradients(BATCHES)


def total_loss(merge: Weighted, coefficients: torch.Tensor, loss: str = "entropy") -> torch.Tensor:
    """The same, written down with a graph and in float64."""
    module = small().double()
    state = {key: tensor.detach() for key, tensor in module.state_dict().items()}
    for column, keys in enumerate(merge.groups.values()):
        for key in keys:
            for row, model in enumerate(MODELS.values()):
                state[key] = state[key] + coefficients[row, column] * (model[key].double() - module.state_dict()[key])
    total = torch.zeros((), dtype=torch.float64)
    for one in BATCHES.values():
        logits = torch.func.functional_call(module, state, (one.inputs.double(),))
        total = total + LOSSES[loss](logits, one.labels).mean()
    return total


def test_the_gradient_of_one_weight_is_the_one_by_hand():
    # w = 1 + 0.5 · 2 = 2, z = w x = 2, p = 1 / (1 + e^-2); dH/dz = -z p (1 - p); dz/dλ = x τ = 2
    merge = Weighted(vectors(Slope(1.0), {"a": {"w": torch.tensor([3.0])}}), "tensor", 0.5)
    with Passes(ModuleNetwork(Slope(1.0)), 1) as passes:
        found, losses = MergedObjective(merge, passes).gradients({"a": batch([[1.0]])})
    p = 0.8807970779778823
    assert float(found["coefficients"]) == pytest.approx(-2 * p * (1 - p) * 2, rel=1e-5)
    assert losses["a"] == pytest.approx(0.3653353, rel=1e-5)


@pytest.mark.parametrize("level", ["task", "layer", "tensor"])
@pytest.mark.parametrize("loss", ["entropy", "labels"])
def test_gradients_equal_those_of_a_graph_through_the_merge(level, loss):
    merge, found, losses = gradients(level, loss=loss)
    leaf = merge.coefficients.double().requires_grad_()
    expected = total_loss(merge, leaf, loss)
    expected.backward()
    torch.testing.assert_close(found["coefficients"].double(), leaf.grad, rtol=1e-4, atol=1e-6)
    assert sum(losses.values()) == pytest.approx(float(expected.detach()), rel=1e-5)


def test_gradients_equal_finite_differences():
    merge, found, _ = gradients("layer")
    for row, column in ((0, 0), (1, 2), (2, 3)):
        step = torch.zeros_like(merge.coefficients, dtype=torch.float64)
        step[row, column] = 1e-5
        here = merge.coefficients.double()
        slope = (total_loss(merge, here + step) - total_loss(merge, here - step)) / 2e-5
        assert float(found["coefficients"][row, column]) == pytest.approx(float(slope), rel=1e-3, abs=1e-6)


def test_one_tensor_per_task_equals_one_coefficient_per_tensor():
    found = []
    for level in ("task", "tensor", "layer"):
        merge = Weighted(vectors(Slope(1.0), {"a": {"w": torch.tensor([3.0])}, "b": {"w": torch.tensor([0.0])}}), level)
        with Passes(ModuleNetwork(Slope(1.0)), 1) as passes:
            found.append(MergedObjective(merge, passes).gradients({"a": batch([[1.0], [2.0]])})[0]["coefficients"])
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_a_coefficient_of_a_task_has_the_sum_of_its_tensors_gradients():
    _, by_task, _ = gradients("task", spread=False)
    _, by_tensor, _ = gradients("tensor", spread=False)
    torch.testing.assert_close(by_task["coefficients"][:, 0], by_tensor["coefficients"].sum(dim=1))


@pytest.mark.parametrize(("threads", "at_once"), [(1, 4), (2, None), (3, 2), (4, 100)])
def test_threads_and_parts_change_nothing_but_rounding(threads, at_once):
    _, one, losses = gradients()
    _, other, others = gradients(threads=threads, at_once=at_once)
    torch.testing.assert_close(other["coefficients"], one["coefficients"], rtol=1e-4, atol=1e-6)
    assert others == pytest.approx(losses, rel=1e-5)
    assert torch.equal(other["coefficients"], gradients(threads=threads, at_once=at_once)[1]["coefficients"])


def test_changes_on_disk_give_the_same_bytes_as_in_memory(tmp_path: Path):
    _, memory, _ = gradients()
    _, disk, _ = gradients(file=tmp_path / "deltas.bin")
    assert torch.equal(disk["coefficients"], memory["coefficients"])
    assert (tmp_path / "deltas.bin").stat().st_size == 3 * 4 * sum(p.numel() for p in small().parameters())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_changes_in_half_precision_take_half_the_room_and_give_nearly_the_same(dtype):
    whole, half = vectors(small(), MODELS), vectors(small(), MODELS, dtype=dtype)
    assert half.nbytes * 2 == whole.nbytes
    _, exact, _ = gradients()
    _, rounded, _ = gradients(dtype=dtype)
    torch.testing.assert_close(rounded["coefficients"], exact["coefficients"], rtol=0.05, atol=0.01)
    assert not torch.equal(rounded["coefficients"], exact["coefficients"])


def test_gradients_of_the_weights_never_exist_all_at_once():
    alive: list[weakref.ref[torch.Tensor]] = []
    most = 0
    merge = Weighted(vectors(small(), MODELS), "tensor")
    pull = merge.pull

    def watched(key, gradient, into):
        nonlocal most
        alive.append(weakref.ref(gradient))
        most = max(most, sum(one() is not None for one in alive))
        pull(key, gradient, into)

    merge.pull = watched
    with Passes(ModuleNetwork(small()), 1) as passes:
        MergedObjective(merge, passes).gradients(BATCHES)
    assert len(alive) == len(dict(small().named_parameters()))
    assert most <= 3


class Tower(ModuleNetwork):
    """A network whose larger part does not know the head."""

    calls: list[int]

    def embed(self, weights, inputs):
        self.calls.append(len(inputs))
        return super().logits(weights, inputs, None)

    def score(self, features, head):
        return features @ head.T

    def logits(self, weights, inputs, head):
        return self.score(self.embed(weights, inputs), head)


def test_examples_of_all_tasks_go_through_a_tower_in_one_call():
    heads = {name: torch.randn(5, 3, generator=torch.Generator().manual_seed(n)) for n, name in enumerate(BATCHES)}
    batches = {name: ExampleBatch(one.inputs, one.labels, heads[name]) for name, one in BATCHES.items()}
    merge = Weighted(vectors(small(), MODELS), "tensor")
    network = Tower(small())
    network.calls = []
    with Passes(network, 1) as passes:
        together = MergedObjective(merge, passes).gradients(batches)
        assert network.calls == [7 + 5 + 9]
        apart = [MergedObjective(merge, passes).gradients({name: one}) for name, one in batches.items()]
    torch.testing.assert_close(together[0]["coefficients"], sum(one["coefficients"] for one, _ in apart))
    assert together[1] == pytest.approx({name: loss for _, losses in apart for name, loss in losses.items()})


def test_inputs_that_are_no_tensors_go_through_task_by_task():
    class Pairs(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = small()

        def forward(self, inputs):
            return self.inner(inputs["x"])

    models = {name: {f"inner.{key}": tensor for key, tensor in state.items()} for name, state in MODELS.items()}
    merge = Weighted(vectors(Pairs(), models), "task")
    tables = {name: ExampleBatch({"x": one.inputs}, one.labels, None) for name, one in BATCHES.items()}
    with Passes(ModuleNetwork(Pairs()), 2) as passes:
        found, _ = MergedObjective(merge, passes).gradients(tables)
    torch.testing.assert_close(found["coefficients"], gradients("task", spread=False)[1]["coefficients"])


def test_a_tensor_that_the_network_does_not_use_has_no_gradient():
    class Idle(Slope):
        def __init__(self, w=1.0):
            super().__init__(w)
            self.idle = nn.Parameter(torch.ones(2))

    merge = Weighted(vectors(Idle(), {"a": {"w": torch.tensor([3.0]), "idle": torch.zeros(2)}}), "tensor", 0.5)
    with Passes(ModuleNetwork(Idle()), 1) as passes:
        found, _ = MergedObjective(merge, passes).gradients({"a": batch([[1.0]])})
    assert found["coefficients"][0, list(merge.groups).index("idle")] == 0


def test_layers_are_the_blocks_and_what_lies_before_and_after_them():
    groups = groups_of(tuple(small().state_dict()), "layer")
    assert list(groups) == ["before the blocks", "layers.0", "layers.1", "after the blocks"]
    assert groups["layers.1"] == ("layers.1.weight", "layers.1.bias")
    assert groups["after the blocks"] == ("norm.weight", "norm.bias")
    many = [f"layers.{number}.w" for number in (10, 2, 1)]
    assert list(groups_of(many, "layer")) == ["layers.1", "layers.2", "layers.10"]


def test_the_base_is_never_altered():
    network = ModuleNetwork(small())
    before = {key: tensor.clone() for key, tensor in network.weights().items()}
    gradients(network=network, threads=2)
    assert all(torch.equal(before[key], tensor) for key, tensor in network.weights().items())


def test_models_that_do_not_fit_are_refused_with_every_reason():
    short = {key: tensor for key, tensor in MODELS["red"].items() if key != "norm.bias"}
    wide = {**MODELS["green"], "embed.bias": torch.zeros(9)}
    whole = {**MODELS["blue"], "embed.bias": torch.zeros(6, dtype=torch.int64)}
    with pytest.raises(IncompatibleModels) as caught:
        vectors(small(), {"red": short, "green": wide, "blue": whole})
    assert len(caught.value.faults) == 3
    assert "'norm.bias' is missing from red" in str(caught.value)
    assert "'embed.bias' is (9,) in green but (6,) in the base" in str(caught.value)
    assert "'embed.bias' is I64 in blue, not a float" in str(caught.value)


def test_a_model_with_nan_is_named():
    sick = {**MODELS["red"], "norm.bias": torch.tensor([0.0, float("nan"), 0.0])}
    with pytest.raises(NumericalError, match=r"'norm.bias' of red holds NaN"):
        vectors(small(), {"red": sick})
