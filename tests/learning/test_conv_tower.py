"""Learning how to merge towers with BatchNorm: statistics follow the coefficients, and pull at them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import smelt
from pico_clip import conv_pool, write_task
from smelt.errors import RecipeError
from smelt.learning.differentiable_merge import MergedObjective, Weighted
from smelt.learning.parallel_passes import Passes
from smelt.learning.task_vectors import TaskVectors
from smelt.models.families.clip.family import CLIP
from smelt.models.families.network import network_of
from smelt.models.references import open_ref
from smelt.optimise.losses import entropy
from smelt.tasks.examples import ExampleBatch

STATISTICS = ("running_mean", "running_var")


def test_the_gradient_of_a_coefficient_runs_through_the_statistics(tmp_path: Path) -> None:
    pool = conv_pool(tmp_path)
    network = network_of(CLIP.load(pool["base"]))
    sources = {name: open_ref(path) for name, path in pool["models"].items()}
    merge = Weighted(TaskVectors(network.weights(), sources), "task", 0.3)
    draw = torch.Generator().manual_seed(0)
    head = torch.nn.functional.normalize(torch.randn(4, 3, generator=draw), dim=1)
    batch = ExampleBatch(torch.randn(6, 3, 8, 8, generator=draw), torch.zeros(6, dtype=torch.int64), head)
    with Passes(network, threads=2) as passes:
        found, _ = MergedObjective(merge, passes).gradients({"one": batch})

    def loss(coefficient: float) -> float:
        merge.coefficients[0, 0] = coefficient
        weights = {key: merge.weight(key) for key in merge.keys}
        return float(entropy(network.logits(weights, batch.inputs, head), batch.labels).mean())

    slope = (loss(0.31) - loss(0.29)) / 0.02
    assert abs(slope) > 1e-3
    assert float(found["coefficients"][0, 0]) == pytest.approx(slope, rel=2e-2)


@pytest.fixture
def recipe(tmp_path: Path) -> dict:
    pool = conv_pool(tmp_path / "models")
    tasks = {name: str(write_task(tmp_path / "tasks" / f"{name}-task")) for name in pool["models"]}
    return {"pool": pool, "data": {"tasks": tasks, "split": "val", "examples": 8}}


def test_what_adamerging_learns_streams_and_leaves_counters_alone(recipe: dict, tmp_path: Path) -> None:
    learned = smelt.learn({**recipe, "merge": {"adamerging": {"steps": 2, "batch": 4, "lr": 0.1}}})
    smelt.merge(learned.recipe, out=tmp_path / "merged")
    merged, base = (load_file(Path(f) / "model.safetensors") for f in (tmp_path / "merged", recipe["pool"]["base"]))
    moved = {name for name, tensor in merged.items() if not torch.equal(tensor, base[name])}
    assert {name for name in moved if name.endswith(STATISTICS)} == {n for n in merged if n.endswith(STATISTICS)}
    assert not [name for name in moved if name.endswith("num_batches_tracked") or not name.startswith("vision_model.")]


def test_adarank_says_that_there_is_no_matrix(recipe: dict) -> None:
    with pytest.raises(RecipeError, match="no merged tensor is a matrix"):
        smelt.learn({**recipe, "merge": {"adarank": {"steps": 1, "batch": 4}}})
