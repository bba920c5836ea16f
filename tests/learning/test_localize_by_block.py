"""Localize-and-Stitch block by block: the same masks as the whole model at once, in a part of the memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import smelt
from learned_by_hand import moved, small, work_with
from learned_by_hand import stream as numbers
from pico_llama import pairs, write_llama
from smelt.errors import RecipeError
from smelt.formats.source import MemorySource
from smelt.formats.statistics import open_statistics
from smelt.learning import parallel_passes
from smelt.learning.block_passes import BlockwiseObjective
from smelt.learning.differentiable_merge import MergedObjective
from smelt.learning.learn import Learned, learn
from smelt.learning.localize import _Masked, localize
from smelt.learning.one_change import OneChange
from smelt.learning.parallel_passes import Passes
from smelt.learning.task_vectors import TaskVectors
from smelt.models.families.causal_lm.family import CausalLM
from smelt.models.families.load import load
from smelt.models.families.network import LiveWeights
from smelt.ops.narrow import narrow
from smelt.tasks.language.examples import LanguageExamples, encoded


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("talkers")
    made = {name: write_llama(place / name, change=change) for name, change in (("base", 0), ("a", 0.1), ("b", 0.2))}
    for name, change in (("half-base", 0), ("half-a", 0.1)):
        made[name] = write_llama(place / name, change=change, tied=False)
        smelt.merge({"m": str(made[name])}, method="passthrough", dtype="bfloat16", out=place / f"{name}-16")
        made[name] = place / f"{name}-16"
    return {**made, "caches": place / "caches"}


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a batch goes through in several parts, of three texts or so."""
    monkeypatch.setitem(parallel_passes.TOKENS, "cpu", 32)


def stream(model: CausalLM, offset: int = 0, count: int = 12) -> LanguageExamples:
    texts = [encoded(model.tokenizer, *pair, chat=True) for pair in pairs(count, offset)]
    return LanguageExamples(f"talk{offset}", "train", texts)


def masks(found: Learned) -> dict[str, dict[str, torch.Tensor]]:
    kept = {}
    for name, place in found.recipe.statistics.items():
        source = open_statistics(place)
        kept[name] = {key: torch.empty(info.count) for key, info in source.tensors.items()}
        for key, flat in kept[name].items():
            source.read(key, 0, flat)
        source.close()
    return kept


def both_ways(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, base: str = "base", names: str = "a b", **words: Any
) -> list[Learned]:
    """Each with a cache of its own: `step_by` changes no number, so it is no part of a result's name."""
    model = load(folders[base], "causal_lm")
    models = {name: str(folders[name]) for name in names.split()}
    streams = {name: stream(model, 40 * number) for number, name in enumerate(models)}
    how: Any = {"base": str(folders[base]), "method": "localize", "streams": streams, **words}
    found = []
    for way in ("model", "block"):
        monkeypatch.setenv("SMELT_CACHE", str(folders["caches"] / f"{way} {words} {base}"))
        how |= {"steps": 5, "batch": 10, "density": 0.2, "lr": 0.5, "threads": 1, "step_by": way}
        found.append(learn(models, **how))
    return found


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(
    "words",
    [
        {},
        {"base": "half-base", "names": "half-a"},
        {"include": ["*"]},
        {"skip": ["model.layers.1.mlp.*", "model.norm.weight"]},
        {"deltas": "disk", "loss": "entropy"},
        {"delta_dtype": "bfloat16"},
    ],
    ids=["float32", "bfloat16", "embeddings too", "some are left out", "on disk", "rounded changes"],
)
def test_masks_and_losses_have_the_same_bytes_either_way(folders, monkeypatch, words: dict[str, Any]) -> None:
    whole, parts = both_ways(folders, monkeypatch, **words)
    assert not whole.cached
    assert not parts.cached
    assert [line["loss"] for line in parts.trace] == [line["loss"] for line in whole.trace]
    ours, theirs = masks(parts), masks(whole)
    for name, own in theirs.items():
        assert all(torch.equal(ours[name][key], mask) for key, mask in own.items())
        assert 0 < sum(float(mask.sum()) for mask in own.values()) < sum(mask.numel() for mask in own.values())


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Two threads of torch may divide a sum differently from call to call."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_every_gradient_is_given_once_and_has_the_same_bytes(folders: dict[str, Path]) -> None:
    model = load(folders["base"], "causal_lm")
    network = model.network()
    batches = {"a": stream(model).batch(range(12))}
    source = MemorySource("a", dict(load(folders["a"], "causal_lm").module.state_dict()))
    deltas = TaskVectors(network.weights(), {"a": source})
    passes = Passes(network, 1)
    assert len(passes.parts(batches)) > 2
    whole, losses = MergedObjective(_Masked(deltas, 0.3, 1.0), passes, "labels").gradients(batches)
    with network.narrowed():
        change = OneChange(LiveWeights(network.module, network.keys), "a", source)
        merge = _Masked(change, 0.3, 1.0, by_block=True)
        groups, same = BlockwiseObjective(merge, passes, "labels").grouped_gradients(batches)
        given = [dict(one) for one in groups]
    assert same == losses
    assert [len(one) for one in given] == [9, 9, 1]  # two blocks, then the last norm
    assert sorted(key for one in given for key in one) == sorted(whole)
    assert all(torch.equal(gradient, whole[key]) for one in given for key, gradient in one.items())


def test_the_base_is_as_it_was_when_it_ends(folders: dict[str, Path]) -> None:
    model = load(folders["half-base"], "causal_lm")
    network = model.network()
    before = {name: tensor.clone() for name, tensor in model.module.named_parameters()}
    with network.narrowed():
        kinds = {name: tensor.dtype for name, tensor in model.module.named_parameters()}
        assert kinds["model.layers.0.mlp.up_proj.weight"] == torch.bfloat16
        assert kinds["lm_head.weight"] == kinds["model.norm.weight"] == torch.float32  # they compute as they are
    after = dict(model.module.named_parameters())
    assert all(
        torch.equal(after[name], tensor) and after[name].dtype == tensor.dtype for name, tensor in before.items()
    )


def test_only_numbers_that_lose_nothing_are_kept_in_half_the_room() -> None:
    assert narrow(torch.tensor([1.0, 1.0078125, 2.0**127])).dtype == torch.bfloat16  # 1 + 2^-7
    assert narrow(torch.tensor([1.0, 1.0009765625])).dtype == torch.float16  # 1 + 2^-10
    for wide in ([1.0, 1.0001], [1.0, float("nan")], [1.0009765625, 2.0**127]):
        assert narrow(torch.tensor(wide)).dtype == torch.float32


def test_a_network_without_blocks_is_refused(tmp_path: Path) -> None:
    work, _ = work_with(small(), {"a": moved(small(), 1)}, {"a": numbers("a")}, tmp_path)
    with pytest.raises(RecipeError, match=r"`step_by: block` is for language models .* write `step_by: model`"):
        localize(work, steps=1, batch=4, step_by="block")


@pytest.mark.parametrize("way", ["model", "block"])
def test_a_run_goes_on_with_the_models_that_have_no_mask_yet(folders, tmp_path: Path, monkeypatch, way: str) -> None:
    """Interrupted after the first model; its mask is there and its state, as large as three models, is not."""
    from smelt.learning import learner as loop

    model = load(folders["base"], "causal_lm")
    streams = {"a": stream(model), "b": stream(model, 40)}
    models = {name: str(folders[name]) for name in ("a", "b")}
    how: Any = {"base": str(folders["base"]), "method": "localize", "streams": streams, "threads": 1}
    how |= {"steps": 3, "batch": 6, "step_by": way, "seed": 11 + len(way)}
    plain, runs = loop.optimise, []

    def optimise(*given: Any, **words: Any) -> Any:
        runs.append(words["folder"])
        if len(runs) == 2:
            raise KeyboardInterrupt
        return plain(*given, **words)

    monkeypatch.setattr(loop, "optimise", optimise)
    with pytest.raises(KeyboardInterrupt):
        smelt.learn(models, **how)
    partial = runs[0].parent
    assert (partial / "statistics" / "0" / "statistics.json").is_file()
    assert not (runs[0] / "state.safetensors").exists()
    found = smelt.learn(models, **how)
    assert [place.name for place in runs] == ["run-0", "run-1", "run-1"]
    assert [(line["model"], line["step"]) for line in found.trace] == [(m, s) for m in "ab" for s in range(3)]
    assert set(found.recipe.statistics) == {"a", "b"}
