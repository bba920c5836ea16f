"""Features: computed once for each expert and stream, and cut to fractions that contain each other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from smelt.errors import NumericalError, RecipeError
from smelt.learning.neulig.experts import Experts
from smelt.learning.neulig.features import ExpertFeatures, features_of
from smelt.tasks.examples import ArrayStream, ExampleBatch
from towers_by_hand import Tower, head, mlp, towers


def stream(name: str = "cars", count: int = 30, seed: int = 0) -> ArrayStream:
    draw = torch.Generator().manual_seed(seed)
    return ArrayStream(name, torch.randn(count, 12, generator=draw), torch.arange(count) % 4, head(4, 16))


def test_features_are_every_experts_un_normalised_ones():
    experts, data = towers(mlp), stream()
    found = features_of(experts, data, batch=7)
    (batch,) = data.batches(30)
    assert (found.task, found.experts, found.z.shape) == ("cars", ("e0", "e1", "e2"), (30, 3, 16))
    assert torch.equal(found.labels, batch.labels)
    assert torch.equal(found.head, batch.head)
    for place, network in enumerate(experts.networks.values()):
        torch.testing.assert_close(found.z[:, place], network.module(batch.inputs).detach(), atol=1e-6, rtol=0)


def test_a_second_call_computes_nothing_and_another_set_of_experts_only_the_new_one():
    networks = {name: Tower(mlp(seed)) for seed, name in enumerate("abcd")}
    first = features_of(Experts({name: networks[name] for name in "abc"}), stream())
    for network in networks.values():
        network.encoded = 0
    again = features_of(Experts({name: networks[name] for name in "dca"}), stream())
    assert {name: network.encoded for name, network in networks.items()} == {"a": 0, "b": 0, "c": 0, "d": 30}
    assert torch.equal(again.of("ca").z, first.of("ca").z)
    features_of(Experts({name: networks[name] for name in "ab"}), stream(seed=1))
    assert networks["a"].encoded == 30


def test_a_damaged_file_of_the_cache_is_computed_again():
    experts = towers(mlp)
    first = features_of(experts, stream())
    files = sorted(Path(os.environ["SMELT_CACHE"], "features").iterdir())
    assert len(files) == 3
    for number, file in enumerate(files):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content[:100] if number == 0 else content)
    assert torch.equal(features_of(experts, stream()).z, first.z)


def test_a_cache_that_cannot_be_written_costs_time_only(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SMELT_CACHE", str(tmp_path / "file" / "below"))
    assert features_of(towers(mlp), stream()).z.shape == (30, 3, 16)


def test_fractions_are_nested_and_follow_from_the_seed():
    whole = features_of(towers(mlp), stream(count=100))
    places = {fraction: _places(whole, whole.part(fraction, seed=1)) for fraction in (0.01, 0.1, 0.5, 1.0)}
    assert [len(found) for found in places.values()] == [1, 10, 50, 100]
    assert places[0.01] < places[0.1] < places[0.5] < places[1.0]
    assert _places(whole, whole.part(0.1, seed=2)) != places[0.1]
    part = whole.part(0.1, seed=1)
    assert torch.equal(part.labels, whole.labels[sorted(places[0.1])])


def _places(whole: ExpertFeatures, part: ExpertFeatures) -> set[int]:
    return {int((whole.z == one).all(dim=(1, 2)).nonzero()) for one in part.z}


@pytest.mark.parametrize("fraction", [0.0, -0.5, 1.5, float("nan")])
def test_a_fraction_outside_of_zero_to_one_is_refused(fraction):
    with pytest.raises(RecipeError, match="fraction: is above 0 and at most 1"):
        features_of(towers(mlp), stream()).part(fraction)


class _Without(ArrayStream):
    """A stream whose batches lack something."""

    lacks = "labels"

    def batch(self, indices):
        batch = super().batch(indices)
        return ExampleBatch(batch.inputs, None, batch.head) if self.lacks == "labels" else batch


def test_a_stream_without_a_head_or_labels_is_refused():
    bare = ArrayStream("cars", torch.randn(5, 12), torch.zeros(5, dtype=torch.int64))
    with pytest.raises(RecipeError, match="cars: its examples come without a head"):
        features_of(towers(mlp), bare)
    with pytest.raises(RecipeError, match="birds: its examples come without labels"):
        features_of(towers(mlp), _Without("birds", torch.randn(5, 12), torch.zeros(5, dtype=torch.int64), head(4, 16)))
    with pytest.raises(RecipeError, match="labels from 4 to 4, but its head has 4 classes"):
        features_of(towers(mlp), ArrayStream("cars", torch.randn(5, 12), torch.full((5,), 4), head(4, 16)))
    with pytest.raises(RecipeError, match="the stream has no examples"):
        features_of(towers(mlp), stream(count=0))
    with pytest.raises(RecipeError, match="batch is a number of examples"):
        features_of(towers(mlp), stream(), batch=0)


def test_features_that_are_not_finite_are_refused_with_the_experts_name():
    experts = towers(mlp)
    with torch.no_grad():
        experts.networks["e1"].module[2].bias[3] = float("nan")
    with pytest.raises(NumericalError, match="e1 gives features with NaN or infinity on cars"):
        features_of(experts, stream())


def test_features_of_the_wrong_shape_are_refused():
    with pytest.raises(RecipeError, match=r"cars: features are .* got \(4, 3\) and 4 labels"):
        ExpertFeatures("cars", torch.zeros(4, 3), torch.zeros(4), head(4, 3))
    with pytest.raises(RecipeError, match="features of 3 experts, but 2 names"):
        ExpertFeatures("cars", torch.zeros(4, 3, 2), torch.zeros(4), head(4, 2), ("a", "b"))
    with pytest.raises(RecipeError, match="there are no features of x"):
        ExpertFeatures("cars", torch.zeros(4, 2, 2), torch.zeros(4), head(4, 2), ("a", "b")).of(["x"])
