"""Learning on language models: the loss of an example is the mean over its answer's tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import smelt
from checkpoints import read_weights
from pico_llama import pairs, write_llama
from smelt.learning.parallel_passes import Passes
from smelt.models.families.causal_lm.family import CausalLM
from smelt.models.families.load import load
from smelt.optimise.losses import LOSSES
from smelt.tasks.language.examples import LanguageExamples, encoded


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("talkers")
    return {name: write_llama(place / name, change=change) for name, change in (("base", 0), ("a", 0.1), ("b", 0.2))}


def stream(model: CausalLM, offset: int = 0, count: int = 8) -> LanguageExamples:
    texts = [encoded(model.tokenizer, *pair, chat=True) for pair in pairs(count, offset)]
    return LanguageExamples(f"talk{offset}", "train", texts)


@pytest.mark.parametrize("loss", ["labels", "entropy"])
def test_the_loss_is_the_mean_over_texts_of_the_mean_over_tokens(folders: dict[str, Path], loss: str) -> None:
    model = load(folders["base"], "causal_lm")
    network, batch = model.network(), stream(model).batch(range(8))
    weights = network.weights()
    with Passes(network, threads=2) as passes:
        gradients, losses = passes.back(
            weights, {"talk": batch}, LOSSES[loss], lambda key, found, into: into[key].add_(found), weights
        )
    own = [model.module.get_parameter(key).requires_grad_() for key in weights]
    each = []
    for row, mask, answers in zip(batch.inputs.ids, batch.inputs.mask, batch.inputs.answers, strict=True):
        scores = model.module(row[mask][None]).logits[0, :-1][answers[mask][1:]]
        log_p = scores.log_softmax(dim=-1)
        tokens = log_p.gather(1, row[answers][:, None]) if loss == "labels" else (log_p.exp() * log_p).sum(dim=-1)
        each.append(-tokens.mean())
    wanted = torch.stack(each).mean()
    assert losses["talk"] == pytest.approx(wanted.item(), rel=1e-5)
    for key, right in zip(weights, torch.autograd.grad(wanted, own), strict=True):
        torch.testing.assert_close(gradients[key], right, rtol=1e-3, atol=1e-6)


def test_masks_are_learned_that_lower_the_loss_and_stitched(folders: dict[str, Path], tmp_path: Path) -> None:
    base = load(folders["base"], "causal_lm")
    streams = {"a": stream(base), "b": stream(base, 40)}
    models = {name: str(folders[name]) for name in ("a", "b")}
    words = {"steps": 12, "batch": 8, "density": 0.2, "l1": 0.0, "lr": 0.5}
    found = smelt.learn(models, base=str(folders["base"]), method="localize", streams=streams, **words)
    for name in models:
        losses = [line["loss"][name] for line in found.trace if line["model"] == name]
        assert losses[-1] < losses[0]
    assert (found.budget.images, found.budget.labels) == (16, 16)
    smelt.merge(found.recipe, out=tmp_path / "merged")
    merged, before = read_weights(tmp_path / "merged"), read_weights(folders["base"])
    assert torch.equal(merged["model.embed_tokens.weight"], before["model.embed_tokens.weight"])
    changed = merged["model.layers.0.mlp.up_proj.weight"] != before["model.layers.0.mlp.up_proj.weight"]
    assert 0 < changed.float().mean() < 0.45  # at most two masks of a fifth each


def test_coefficients_are_learned_from_texts_without_answers(folders: dict[str, Path]) -> None:
    base = load(folders["base"], "causal_lm")
    streams = {"a": stream(base), "b": stream(base, 40)}
    models = {name: str(folders[name]) for name in ("a", "b")}
    words = {"steps": 5, "batch": 4, "level": "task", "lr": 0.05}
    found = smelt.learn(models, base=str(folders["base"]), method="adamerging", streams=streams, **words)
    assert found.budget.labels == 0
    assert sum(found.trace[-1]["loss"].values()) < sum(found.trace[0]["loss"].values())
