from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from mixing_by_hand import clip_pool, tiny, tuned
from pico_clip import write_task
from smelt.errors import RecipeError
from smelt.mixing.classifier import load_mixed
from smelt.mixing.mix import mix
from smelt.mixing.network import mixed_network
from smelt.mixing.routing import routing, routing_of_streams, watch_gates
from smelt.models.families.network import ModuleNetwork
from smelt.tasks.examples import ArrayStream


def test_the_table_holds_mean_gates_by_task_expert_and_block() -> None:
    """Block 0 says (1, 3) to all, block 1 (2, 0) + 4 for the inputs of task b: means (1.5, 1.5) and (3.5, 1.5)."""
    mixed = mixed_network(
        ModuleNetwork(tiny()), {name: tuned(tiny(), seed) for seed, name in enumerate("xy", 1)}, routed="blocks.*.mlp"
    )
    gates = {"blocks.0.mlp": {"a": (1.0, 3.0), "b": (1.0, 3.0)}, "blocks.1.mlp": {"a": (2.0, 0.0), "b": (6.0, 0.0)}}
    streams = {name: ArrayStream(name, torch.randn(5, 4, 6), torch.zeros(5)) for name in "ab"}
    found = {}
    for task in "ab":
        with torch.no_grad():
            for name, router in mixed.routers.items():
                router.last.weight.zero_()
                router.last.bias.copy_(torch.tensor(gates[name][task]))
        found[task] = routing_of_streams(mixed, {task: streams[task]})
    assert found["a"]["columns"] == ["x", "y"]
    assert found["a"]["layers"] == ["blocks.0.mlp", "blocks.1.mlp"]
    assert found["a"]["by_layer"] == [[[1.0, 3.0]], [[2.0, 0.0]]]
    assert (found["a"]["matrix"], found["b"]["matrix"]) == ([[1.5, 1.5]], [[3.5, 1.5]])


def test_means_are_over_samples_and_not_over_batches() -> None:
    mixed = mixed_network(ModuleNetwork(tiny()), {"x": tuned(tiny(), 1)}, routed="blocks.*.mlp")
    parts = torch.randn(9, 4, 6).split([8, 1])
    with watch_gates(mixed.routers) as apart:
        for part in parts:
            mixed.logits(part, None)
    with watch_gates(mixed.routers) as whole:
        mixed.logits(torch.cat(parts), None)
    for name, gates in whole.means().items():
        assert apart.means()[name] == pytest.approx(gates, abs=1e-6)
    mixed.logits(parts[0], None)
    assert whole.samples == {"blocks.0.mlp": 9, "blocks.1.mlp": 9}


def test_nothing_watched_is_an_error() -> None:
    with watch_gates({}) as seen, pytest.raises(RecipeError, match="no picture went through the routers"):
        seen.means()


def test_a_saved_mixture_tells_how_it_routes_tasks(tmp_path: Path) -> None:
    task = write_task(tmp_path / "colours")
    done = mix({"pool": clip_pool(tmp_path / "models"), "merge": {"wemoe": {"steps": 0, "top": 1}}}, out=tmp_path / "m")
    table = routing(done.folder, task, limit=12)
    assert (table["rows"], table["columns"], table["split"], table["limit"]) == (["colours"], ["one", "two"], "val", 12)
    assert sum(table["matrix"][0]) == pytest.approx(0.3, abs=0.02)
    assert json.loads(json.dumps(table)) == table
    assert routing(load_mixed(done.folder), task, limit=12) == table
