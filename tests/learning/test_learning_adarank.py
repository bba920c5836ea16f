"""AdaRank: masks over singular directions."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import smelt
from learned_by_hand import moved, small, stream, work_with
from smelt.learning.adarank import Components, adarank
from smelt.learning.differentiable_merge import MergedObjective
from smelt.learning.learn import learn
from smelt.tasks.examples import ArrayStream


def helps_and_harms() -> tuple[nn.Linear, dict[str, dict[str, torch.Tensor]], dict[str, ArrayStream]]:
    """A change of two directions: 3 along the input that tells the classes apart, -2 along one that misleads."""
    base = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        base.weight.zero_()
    tuned = {"weight": torch.tensor([[3.0, 0.0], [0.0, -2.0]])}
    draw = torch.Generator().manual_seed(0)
    y = torch.randint(0, 2, (64,), generator=draw)
    x = torch.stack([1.0 - y, y.float()], dim=1)
    return base, {"a": tuned}, {"a": ArrayStream("a", x, y)}


def test_a_direction_that_does_harm_is_switched_off(tmp_path: Path):
    work, kept = work_with(*helps_and_harms(), tmp_path)
    found = adarank(work, scale=1.0, loss="labels", steps=80, lr=0.05, batch=16)
    assert kept["a"]["weight"].tolist() == [1.0, 0.0]
    assert found.merge == [{"adarank": {"scale": 1.0}}]


def test_all_directions_on_is_task_arithmetic(tmp_path: Path):
    models = {"red": moved(small(), 1), "green": moved(small(), 2)}
    work, _ = work_with(small(), models, {"red": stream("a"), "green": stream("b")}, tmp_path)
    merge = Components(work.deltas(), 0.3, 1.0, work.passes)
    expected = smelt.merge(models, base=small(), method="task_arithmetic", scale=0.3)
    for key in merge.keys:
        torch.testing.assert_close(merge.weight(key), expected[key], rtol=1e-5, atol=1e-6)
    assert set(merge.parameters) == {"layers.0.weight", "layers.1.weight", "norm.weight"}


def test_init_switches_on_the_largest_share_of_each_model(tmp_path: Path):
    work, _ = work_with(small(), {"red": moved(small(), 1)}, {"red": stream("a")}, tmp_path)
    merge = Components(work.deltas(), 0.3, 0.5, work.passes)
    assert merge.masks("red")["layers.0.weight"].tolist() == [1, 1, 1, 0, 0, 0]


def test_its_gradients_are_those_of_the_masks_through_a_sigmoid(tmp_path: Path):
    models = {"red": moved(small(), 1), "green": moved(small(), 2)}
    work, _ = work_with(small(), models, {"red": stream("a"), "green": stream("b")}, tmp_path)
    merge = Components(work.deltas(), 0.4, 0.7, work.passes)
    one = work.streams["red"].batch(range(9))
    found, _ = MergedObjective(merge, work.passes, "labels").gradients({"red": one})
    leaves = {key: (scores > 0).float().requires_grad_() for key, scores in merge.parameters.items()}
    state = {key: merge.weight(key).clone() for key in merge.keys}
    for key, leaf in leaves.items():
        state[key] = work.base[key]
        for row, model in zip(leaf, models, strict=True):
            u, s, v = torch.linalg.svd(models[model][key] - work.base[key], full_matrices=False)
            state[key] = state[key] + 0.4 * (u * (s * row)) @ v
    nn.functional.cross_entropy(torch.func.functional_call(small(), state, (one.inputs,)), one.labels).backward()
    for key, leaf in leaves.items():
        slope = torch.sigmoid(merge.parameters[key]) * (1 - torch.sigmoid(merge.parameters[key]))
        torch.testing.assert_close(found[key], leaf.grad * slope, rtol=1e-3, atol=1e-6)


def test_components_are_merged_by_the_stage_of_that_name(tmp_path: Path):
    models = {"red": moved(small(), 1), "green": moved(small(), 2)}
    streams = {"red": stream("reds", 40, 1), "green": stream("greens", 30, 2)}
    found = learn(models, base=small(), method="adarank", streams=streams, steps=30, lr=0.1, batch=8, threads=1)
    work, kept = work_with(small(), models, streams, tmp_path)
    adarank(work, steps=30, lr=0.1, batch=8)
    merged = smelt.merge(models, base=small(), method="adarank", statistics=kept)
    assert min(float(mask.min()) for masks in kept.values() for mask in masks.values()) == 0
    for key, mask in kept["red"].items():
        base, expected = work.base[key], work.base[key].double()
        for model in models:
            u, s, v = torch.linalg.svd((models[model][key] - base).double(), full_matrices=False)
            expected = expected + 0.3 * (u * (s * kept[model][key])) @ v
        torch.testing.assert_close(merged[key].double(), expected, rtol=0, atol=1e-5)
        assert len(mask) == min(base.shape)
    assert set(found.recipe.statistics) == {"red", "green"}
    assert [(call.name, call.parameters) for call in found.recipe.merge] == [("adarank", {"scale": 0.3})]
