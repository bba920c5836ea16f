"""Trained Localize-and-Stitch: masks over weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import smelt
from learned_by_hand import moved, small, stream, work_with
from smelt.formats.statistics import open_statistics
from smelt.learning.differentiable_merge import MergedObjective
from smelt.learning.largest_scores import top
from smelt.learning.learn import learn
from smelt.learning.localize import _Masked, localize
from smelt.tasks.examples import ArrayStream


def one_input_matters() -> tuple[nn.Linear, dict[str, dict[str, torch.Tensor]], dict[str, ArrayStream]]:
    """Two weights per class; the second input is always 0, yet its weights moved further than the others."""
    base = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        base.weight.zero_()
    tuned = {"weight": torch.tensor([[1.0, 5.0], [-1.0, -5.0]])}
    x = torch.cat([torch.randn(64, 1, generator=torch.Generator().manual_seed(0)), torch.zeros(64, 1)], dim=1)
    return base, {"a": tuned}, {"a": ArrayStream("a", x, (x[:, 0] < 0).long())}


def test_the_mask_finds_the_weights_that_the_task_needs(tmp_path: Path):
    work, kept = work_with(*one_input_matters(), tmp_path)
    found = localize(work, density=0.5, steps=120, lr=0.1, batch=16)
    assert kept["a"]["weight"].tolist() == [[True, False], [True, False]]
    assert found.merge == [{"stitch": {}}]
    assert found.trace[-1]["loss"]["a"] < found.trace[0]["loss"]["a"]
    assert found.trace[0]["model"] == "a"


def test_it_begins_at_the_largest_changes(tmp_path: Path):
    work, kept = work_with(*one_input_matters(), tmp_path)
    localize(work, density=0.5, steps=1, lr=1e-6, batch=16)
    assert kept["a"]["weight"].tolist() == [[False, True], [False, True]]


@pytest.mark.parametrize(("density", "kept"), [(0.5, 3), (0.34, 2), (1.0, 6), (0.1, 0)])
def test_exactly_the_asked_share_is_kept_even_among_equals(density, kept):
    scores = {"a": torch.tensor([1.0, 1.0, 1.0]), "b": torch.tensor([[1.0, 2.0, 1.0]])}
    masks = top(scores, scores.__getitem__, density)
    assert sum(int(mask.sum()) for mask in masks.values()) == kept
    assert bool(masks["b"][0, 1]) is (kept > 0)
    assert masks["b"].shape == (1, 3)


def test_its_gradients_equal_those_of_a_graph(tmp_path: Path):
    work, _ = work_with(small(), {"a": moved(small(), 1)}, {"a": stream("a")}, tmp_path)
    deltas = work.deltas()
    merge = _Masked(deltas, 0.3, l1=2.0)
    one = work.streams["a"].batch(range(9))
    found, _ = MergedObjective(merge, work.passes, "labels").gradients({"a": one})
    leaves = {key: scores.clone().requires_grad_() for key, scores in merge.parameters.items()}
    state = {key: work.base[key] + torch.sigmoid(leaf) * deltas.delta("a", key) for key, leaf in leaves.items()}
    loss = nn.functional.cross_entropy(torch.func.functional_call(small(), state, (one.inputs,)), one.labels)
    loss = loss + 2.0 * torch.cat([torch.sigmoid(leaf).reshape(-1) for leaf in leaves.values()]).mean()
    loss.backward()
    for key, leaf in leaves.items():
        torch.testing.assert_close(found[key], leaf.grad, rtol=1e-4, atol=1e-7)


def test_masks_are_stitched_by_an_ordinary_merge_and_the_base_stays(tmp_path: Path):
    base = small()
    before = {key: tensor.clone() for key, tensor in base.state_dict().items()}
    models = {"red": moved(small(), 1), "green": moved(small(), 2)}
    streams = {"red": stream("reds", 40, 1), "green": stream("greens", 30, 2)}
    found = learn(
        models,
        base=base,
        method="localize",
        streams=streams,
        density=0.2,
        steps=4,
        batch=8,
        threads=1,
        out=tmp_path / "o",
    )
    assert all(torch.equal(before[key], tensor) for key, tensor in base.state_dict().items())
    assert found.budget.labels == 70
    assert [call.name for call in found.recipe.merge] == ["stitch"]
    masks = {}
    for name, place in found.recipe.statistics.items():
        source = open_statistics(place)
        assert (source.note.kind, source.note.estimator) == ("mask", "localize")
        assert source.note.data[0].task == streams[name].name
        masks[name] = {}
        for key, info in source.tensors.items():
            flat = torch.empty(info.count)
            source.read(key, 0, flat)
            masks[name][key] = flat.view(info.shape)
        source.close()
        total = sum(mask.numel() for mask in masks[name].values())
        assert sum(int(mask.sum()) for mask in masks[name].values()) == int(0.2 * total)
    merged = smelt.merge(models, base=base, method="stitch", statistics=masks)
    for key, tensor in before.items():
        overlap = (masks["red"][key] + masks["green"][key]).clamp_min(1)
        change = sum(masks[name][key] * (models[name][key] - tensor) for name in models) / overlap
        torch.testing.assert_close(merged[key], tensor + change, rtol=0, atol=1e-6)
