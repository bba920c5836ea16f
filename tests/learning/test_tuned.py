"""The baseline: merged weights tuned on the same data."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import smelt
from checkpoints import read_weights, write_model
from learned_by_hand import moved, small, stream, work_with
from smelt.learning.learn import learn
from smelt.learning.tuned import tuned
from smelt.models.families.network import ModuleNetwork

MODELS = {"red": moved(small(), 1), "green": moved(small(), 2)}
STREAMS = {"red": stream("reds", 40, 1), "green": stream("greens", 30, 2)}


def test_it_starts_from_task_arithmetic(tmp_path: Path):
    work, _ = work_with(small(), MODELS, STREAMS, tmp_path)
    found = tuned(work, scale=0.4, lr=1e-30, steps=1, batch=4)
    expected = smelt.merge(MODELS, base=small(), method="task_arithmetic", scale=0.4)
    for key, tensor in found.weights.items():
        torch.testing.assert_close(tensor, expected[key], rtol=0, atol=1e-6)


@pytest.mark.parametrize("loss", ["entropy", "labels"])
def test_the_loss_falls(tmp_path: Path, loss):
    work, _ = work_with(small(), MODELS, STREAMS, tmp_path)
    trace = tuned(work, lr=0.02, steps=60, batch=16, loss=loss).trace
    assert sum(trace[-1]["loss"].values()) < sum(trace[0]["loss"].values()) - 0.2


def test_the_result_is_a_whole_model_that_merges_by_passing_through(tmp_path: Path):
    extra = {"unused.weight": torch.arange(3)}
    write_model(tmp_path / "base", {**small().state_dict(), **extra}, vocab__json="{}")
    for name, state in MODELS.items():
        write_model(tmp_path / name, {**state, **extra})
    found = learn(
        {name: str(tmp_path / name) for name in MODELS},
        base=str(tmp_path / "base"),
        method="tuned",
        network=ModuleNetwork(small()),
        streams=STREAMS,
        steps=3,
        batch=8,
        threads=1,
        out=tmp_path / "out",
    )
    assert (tmp_path / "out" / "model" / "vocab.json").exists()
    smelt.merge(tmp_path / "out" / "recipe.yaml", out=tmp_path / "merged")
    model, merged = read_weights(tmp_path / "out" / "model"), read_weights(tmp_path / "merged")
    assert model.keys() == merged.keys() == {*small().state_dict(), "unused.weight"}
    assert all(torch.equal(model[key], merged[key]) for key in model)
    assert not torch.equal(model["norm.weight"], small().state_dict()["norm.weight"])
    assert found.coefficients is None
    assert dict(found.recipe.pool.models) == {"tuned": str(tmp_path / "out" / "model")}
