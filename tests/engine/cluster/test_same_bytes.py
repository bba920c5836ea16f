"""Whoever merges, and in whatever order answers come, the output is that of one process, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import smelt
import tiny_experts
from checkpoints import random_state, snapshot, write_model
from smelt.engine.cluster import driver
from smelt.engine.run.cpu import backend
from smelt.jobs.executor import InlineExecutor, WorkerAnswer
from smelt.jobs.local import LocalExecutor
from smelt.jobs.worker import perform
from smelt.methods import Stage, stages
from smelt.testing.made_up import save_made_up
from smelt.testing.pico import save
from smelt.testing.trial import block_size, pipeline_of, pool_for, variants

CONFIG = {"model_type": "pico", "num_hidden_layers": 2}
SHAPES = {f"layers.{n}.{part}.weight": (61, 67) for n in range(2) for part in ("up", "down")} | {"scale": ()}
STAGES = [stages[name] for name in sorted(stages)]


class LastFirst(InlineExecutor):
    """Several jobs at once in this process; the one that came last is answered first."""

    workers = 3

    def wait(self) -> WorkerAnswer:
        ticket, job = self._waiting.pop()
        return WorkerAnswer(ticket, perform(job.call, job.arguments))


class Lasting(LocalExecutor):
    """Worker processes that outlive a run, so that many merges load torch once."""

    def __init__(self) -> None:
        super().__init__(3)
        self.wanted = 3

    @property
    def workers(self) -> int:
        return self.wanted

    def start(self) -> None:
        """They are ready."""

    def stop(self) -> None:
        """They stay."""

    def end(self) -> None:
        super().stop()


@pytest.fixture(scope="module")
def team() -> Iterator[Lasting]:
    lasting = Lasting()
    yield lasting
    lasting.end()


@pytest.fixture(autouse=True)
def _small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit for every tensor, or piece of one that has several spans."""
    monkeypatch.setattr(driver, "unit_size", lambda bytes_in: 1)


def saved(stage: Stage, folder: Path) -> dict[str, Any]:
    """The words of a merge of small models by a stage, without what it makes of them."""
    pool = pool_for(stage).to(torch.bfloat16)
    words: dict[str, Any] = {"models": {name: str(save(one, folder / name)) for name, one in pool.models.items()}}
    if stage.statistics:
        words["statistics"] = save_made_up(stage.statistics, pool, folder / "statistics")
    return {**words, "base": str(save(pool.base, folder / "base")), "shard_size": "20KB"}


def merged(patch: pytest.MonkeyPatch, out: Path, words: dict[str, Any], **more: Any) -> dict[str, bytes]:
    """What a merge writes, by a process that has never seen the inputs."""
    patch.setenv("SMELT_CACHE", str(out.parent / f"cache of {out.parent.name}"))
    smelt.merge(**words, **more, out=out)
    assert [path.name for path in out.parent.iterdir() if not path.name.startswith("cache")] == [out.name]
    return snapshot(out)


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_every_stage_gives_the_same_bytes_by_one_two_and_three_workers(
    stage: Stage, team: Lasting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {**saved(stage, tmp_path), "method": pipeline_of(stage, {})}
    alone = merged(monkeypatch, tmp_path / "alone" / "out", words)
    for workers in (1, 2, 3):
        team.wanted = workers
        assert merged(monkeypatch, tmp_path / str(workers) / "out", words, executor=team) == alone


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_every_stage_gives_the_same_bytes_from_pieces_of_tensors_in_any_order(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, elements in (("_SPAN", 512), ("_AT_ONCE", 256)):
        monkeypatch.setattr(backend, name, elements)
    with block_size(128):
        for number, parameters in enumerate(({}, *variants(stage))):
            words = {**saved(stage, tmp_path / str(number)), "method": pipeline_of(stage, parameters)}
            alone = merged(monkeypatch, tmp_path / str(number) / "alone" / "out", words)
            assert merged(monkeypatch, tmp_path / str(number) / "many" / "out", words, executor=LastFirst()) == alone


@pytest.mark.parametrize(
    "kind", ["stacks of experts", "adapters", "one file", "a type of its own", "layers used twice"]
)
def test_other_forms_of_inputs_and_outputs_give_the_same_bytes(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "out"
    if kind == "stacks of experts":
        paths = [tiny_experts.saved(tiny_experts.made("Mixtral", seed), tmp_path / str(seed)) for seed in range(3)]
        words: dict[str, Any] = {"models": paths[1:], "base": paths[0], "method": "ties"}
    else:
        for seed, model in enumerate(("base", "cars", "birds")):
            write_model(tmp_path / model, random_state(seed, SHAPES), CONFIG)
        words = {"models": [str(tmp_path / "cars"), str(tmp_path / "birds")], "method": "average"}
    if kind == "adapters":
        words = {
            "models": [adapter(tmp_path, seed) for seed in (3, 4)],
            "base": str(tmp_path / "base"),
            "method": "ties",
        }
    elif kind == "one file":
        name = "out.safetensors"
    elif kind == "a type of its own":
        words |= {"dtype": "float16", "skip": "layers.1.*"}
    elif kind == "layers used twice":
        words |= {"method": "passthrough", "slices": [{"models": {"cars": [0, 2]}}, {"models": {"birds": [1, 2]}}]}
        words["models"] = {"cars": str(tmp_path / "cars"), "birds": str(tmp_path / "birds")}
    alone = tmp_path / "alone" / name
    many = tmp_path / "many" / name
    for out, more in ((alone, {}), (many, {"executor": LastFirst()})):
        monkeypatch.setenv("SMELT_CACHE", str(tmp_path / f"cache {out.parent.name}"))
        smelt.merge(**words, **more, out=out)
    assert snapshot(many.parent) == snapshot(alone.parent)


def adapter(folder: Path, seed: int) -> str:
    """A reference to a LoRA adapter over the base, of rank 2."""
    place = folder / f"adapter {seed}"
    place.mkdir()
    factors = random_state(seed, {"A": (2, 67), "B": (61, 2)})
    prefix = "base_model.model.layers.0.up"
    save_file(
        {f"{prefix}.lora_{name}.weight": one for name, one in factors.items()}, place / "adapter_model.safetensors"
    )
    words = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["up"]}
    (place / "adapter_config.json").write_text(json.dumps(words))
    return f"{folder / 'base'}+{place}"
