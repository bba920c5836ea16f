"""What trained Localize-and-Stitch needs: by hand, as the plan says it, as tensors that are alive, and where it is not
there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import smelt
from live_bytes import LiveBytes
from pico_llama import pairs, write_llama
from smelt.errors import RecipeError
from smelt.learning.block_passes import BlockwiseObjective
from smelt.learning.differentiable_merge import MergedObjective
from smelt.learning.localize import _Masked
from smelt.learning.localize_memory import localize_needs
from smelt.learning.one_change import OneChange
from smelt.learning.parallel_passes import Passes
from smelt.learning.task_vectors import TaskVectors
from smelt.models.families.causal_lm.network import CausalNetwork
from smelt.models.families.load import load
from smelt.models.families.network import LiveWeights
from smelt.models.references import open_ref
from smelt.models.weightless import known_sizes
from smelt.optimise.loop import optimise
from smelt.tasks.language.examples import LanguageExamples, encoded

TINY = {
    "model.embed_tokens.weight": (10, 4),
    **{f"model.layers.{n}.mlp.up_proj.weight": (6, 4) for n in range(2)},
    **{f"model.layers.{n}.input_layernorm.weight": (4,) for n in range(2)},
    "model.norm.weight": (4,),
    "lm_head.weight": (10, 4),
}
"""P = 140 numbers, of which M = 60 have a mask; two blocks of 28, the largest tensor 24. V = 10, w = 4, s = 4 + 6."""


def test_the_whole_model_at_once_is_28_bytes_a_masked_number() -> None:
    needs = localize_needs(TINY, step_by="model", tokens=3, batch=2)
    assert needs.bytes_weights == 4 * 140
    assert needs.bytes_statistics == (4 + 4 + 8 + 4 + 4) * 60  # merged, scores, moments, gradient, change
    scores, checkpoints, activations, gradient = 16 * 6 * 10, 4 * 6 * 4 * 2, 8 * 6 * 10, 8 * 24
    assert needs.bytes_work == scores + checkpoints + activations + gradient == 1824
    assert needs.total == needs.device == 3824
    assert (needs.disk, needs.scratch) == (60, 12 * 60)


def test_block_by_block_scores_and_moments_are_in_main_memory() -> None:
    needs = localize_needs(TINY, step_by="block", tokens=3, batch=2, device="cuda")
    assert needs.bytes_weights == 4 * (140 - 56) + 2 * 56  # the blocks as they are stored
    assert needs.bytes_statistics == 12 * 60 + 2 * 60  # beside them the model
    checkpoints, scores, block = 4 * 6 * 4 * 2, 16 * 6 * 10, 8 * 28 + 12 * 24 + 8 * 6 * 10
    assert needs.bytes_work == checkpoints + max(scores, block) == 192 + 992
    assert needs.total - needs.device == 12 * 60
    assert needs.device == 448 + 120 + 1184
    here = localize_needs(TINY, step_by="block", tokens=3, batch=2, device="cpu")
    assert here.total == here.device == needs.total


def test_what_is_stored_in_float32_or_rounded_or_on_disk_counts_as_that() -> None:
    def device(**words: Any) -> int:
        return localize_needs(TINY, step_by="block", tokens=3, batch=2, device="cuda", **words).device

    assert device(base_bytes=4) - device() == 2 * 56
    assert device(model_bytes=4) - device() == 2 * 60
    assert device(model_bytes=4, delta_dtype="bfloat16") == device()
    assert device() - device(deltas="disk") == 2 * 60
    some = localize_needs(TINY, step_by="model", tokens=3, batch=2, masked=["model.norm.weight"])
    assert some.bytes_statistics == 24 * 4


def test_a_batch_goes_through_in_parts_and_its_checkpoints_stay() -> None:
    one, four = (localize_needs(TINY, step_by="block", tokens=4096, batch=batch, device="cuda") for batch in (1, 4))
    assert four.bytes_work - one.bytes_work == 3 * 4096 * 4 * 4 * 2
    one, four = (localize_needs(TINY, step_by="model", tokens=8192, batch=batch, device="cuda") for batch in (1, 4))
    assert four == one  # a text that fills a part goes through alone, and nothing of it stays
    two = localize_needs(TINY, step_by="model", tokens=4096, batch=2, device="cuda")
    assert two.bytes_work == one.bytes_work


def test_eight_billion_numbers_are_learned_about_in_80_gb() -> None:
    """Llama-3.1-8B: P = 8,030,261,248, two tables of 525,336,576, 32 blocks of 218,112,000 and a norm of 4,096."""
    shapes = dict(known_sizes()["llama-3.1-8b"].shapes())
    needs = localize_needs(shapes, step_by="block", tokens=512, device="cuda")
    blocks = 32 * 218_112_000
    masked = blocks + 4096
    tables, stored, model = 4 * (2 * 525_336_576 + 4096), 2 * blocks, 2 * masked
    checkpoints, scores = 4 * (32 * 512) * 4096 * 32, 16 * 4096 * 128_256
    assert needs.device == tables + stored + model + checkpoints + scores == 49_116_372_992
    assert needs.total - needs.device == 12 * masked == 83_755_057_152
    assert needs.device / 8_030_261_248 < 6.2  # bytes a number
    assert localize_needs(shapes, step_by="model", tokens=512, device="cuda").device > 200e9
    small = localize_needs(dict(known_sizes()["llama-3.2-3b"].shapes()), step_by="block", tokens=512, device="cuda")
    assert small.device < 30e9


def test_the_plan_says_which_way_fits_and_what_the_other_takes() -> None:
    models = {"maths": "shape:llama-3.1-8b", "coding": "shape:llama-3.1-8b"}
    words: Any = {"base": "shape:llama-3.1-8b", "method": "localize"}
    (auto,), (block,), (model,) = (
        smelt.plan(models, **words, **more).looking for more in ({}, {"step_by": "block"}, {"step_by": "model"})
    )
    assert (block.device, block.main) == (49_116_372_992, 83_755_057_152)
    assert auto == block
    assert f"with `step_by: model` {model.device / 1e9:.1f} GB" in auto.note
    assert "49.1 GB where it computes (one GPU), 83.8 GB of main memory" in str(auto)
    assert auto.disk == 2 * 6_979_588_096 + 12 * 6_979_588_096  # two masks, and the state of one run
    (few,) = smelt.plan(models, **words, batch=8).looking
    assert auto.device - few.device == 4 * (24 * 512) * 4096 * 32


@pytest.fixture(scope="module")
def middling(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two Llamas of a million numbers in bfloat16."""
    place = tmp_path_factory.mktemp("middling")
    words: Any = {"hidden_size": 128, "intermediate_size": 448, "num_hidden_layers": 4, "num_attention_heads": 4}
    for name, change in (("base", 0.0), ("a", 0.1)):
        write_llama(place / f"{name}-32", change=change, tied=False, max_position_embeddings=256, **words)
        smelt.merge({"m": str(place / f"{name}-32")}, method="passthrough", dtype="bfloat16", out=place / name)
    return {name: place / name for name in ("base", "a")}


@pytest.mark.parametrize(("tokens", "batch"), [(16, 4), (128, 12)])
@pytest.mark.parametrize("way", ["model", "block"])
def test_tensors_that_are_alive_take_what_the_estimate_says(
    middling: dict[str, Path], way: Any, tokens: int, batch: int
) -> None:
    """To a tenth: what is counted are all storages at every operation of two steps, not what the system gives."""
    model = load(middling["base"], "causal_lm")
    module, network = model.module, CausalNetwork(model.module, "cpu")
    draw = torch.Generator().manual_seed(0)
    texts = [(torch.randint(5, 100, (tokens,), generator=draw).tolist(), 1) for _ in range(batch)]
    streams = {"a": LanguageExamples("a", "train", texts)}
    shapes = {name: tuple(tensor.shape) for name, tensor in module.named_parameters()}
    source = open_ref(str(middling["a"]))
    base, passes = LiveWeights(module, network.keys), Passes(network, 1)

    def most() -> int:
        with LiveBytes(module.parameters()) as live:
            change: Any = OneChange(base, "a", source) if way == "block" else TaskVectors(base, {"a": source})
            merge = _Masked(change, 0.1, 1.0, by_block=way == "block")
            objective = (BlockwiseObjective if way == "block" else MergedObjective)(merge, passes, "labels")
            optimise(objective, streams, steps=2, lr=0.1, batch=batch)
        return live.most

    if way == "block":
        with network.narrowed():
            found = most()
    else:
        found = most()
    source.close()
    needs = localize_needs(shapes, step_by=way, tokens=tokens, batch=batch)
    assert found == pytest.approx(needs.total, rel=0.1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("talkers")
    return {name: write_llama(place / name, change=change) for name, change in (("base", 0), ("a", 0.1))}


LONGEST = 13


def learned(folders: dict[str, Path], **words: Any) -> Any:
    base = load(folders["base"], "causal_lm")
    texts = [encoded(base.tokenizer, *pair, chat=True) for pair in pairs(8)]
    streams = {"a": LanguageExamples("talk", "train", texts)}
    assert streams["a"].longest == LONGEST
    how: Any = {"base": str(folders["base"]), "method": "localize", "streams": streams, "steps": 1, "batch": 4}
    return smelt.learn({"a": str(folders["a"])}, **{**how, **words})


def wanted(folders: dict[str, Path], **words: Any) -> dict[str, int]:
    source = open_ref(str(folders["base"]))
    shapes = {name: info.shape for name, info in source.tensors.items()}
    source.close()
    how: Any = {"base_bytes": 4, "model_bytes": 4, **words}
    return {way: localize_needs(shapes, step_by=way, **how).total for way in ("model", "block")}  # type: ignore[arg-type]


def test_too_little_memory_is_refused_with_the_bytes_before_anything_is_loaded(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("loaded")

    monkeypatch.setattr("smelt.learning.context._load", fail)
    words = r"localize needs about [\d,]+ bytes on cpu for one model at a time, and there are 100,000; try a smaller"
    with pytest.raises(RecipeError, match=words):
        learned(folders, memory="100kB")
    enough = wanted(folders, tokens=1, batch=1)["block"]
    with pytest.raises(RecipeError, match=rf"and there are {enough:,}; `step_by: block` needs {enough:,}$"):
        learned(folders, memory=enough, step_by="model")


def test_the_way_that_fits_is_taken(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    from smelt.learning import localize as module

    ways: list[bool] = []

    class Seen(module._Masked):
        def __init__(self, *given: Any, by_block: bool = False):
            ways.append(by_block)
            super().__init__(*given, by_block=by_block)

    monkeypatch.setattr(module, "_Masked", Seen)
    needs = wanted(folders, tokens=LONGEST, batch=4)
    assert needs["block"] < needs["model"]
    learned(folders, memory=needs["model"], seed=1)
    learned(folders, memory=needs["block"], seed=2)
    assert ways == [False, True]


def test_a_learner_that_does_not_count_its_memory_says_so(folders: dict[str, Path]) -> None:
    with pytest.raises(RecipeError, match="adamerging does not count the memory that it takes; leave `memory` out"):
        learned(folders, memory="8GB", method="adamerging")
