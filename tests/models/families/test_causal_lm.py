"""Language models: read from any Source tensor by tensor, and a function of their weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from pico_llama import WORDS, write_llama, write_tokenizer
from smelt.errors import RecipeError
from smelt.models.families.causal_lm.batch import token_batch
from smelt.models.families.load import family_of, load

ROWS = [[1, 3, 10, 11, 2, 1, 4, 12, 13, 2], [1, 3, 20, 2, 1, 4, 30, 2]]
BEGINS = [7, 6]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("causal") / "base")


def test_a_loaded_model_scores_as_transformers_does(folder: Path) -> None:
    from transformers import AutoModelForCausalLM

    theirs = AutoModelForCausalLM.from_pretrained(folder).eval()
    ours = load(str(folder), "causal_lm")
    ids = torch.tensor([ROWS[0]])
    with torch.no_grad():
        assert torch.equal(ours.module(ids).logits, theirs(ids).logits)
    assert ours.tokenizer.decode(ROWS[1], skip_special_tokens=True) == "user w15 assistant w25"


def test_tied_weights_stay_one_tensor_and_untied_ones_do_not(folder: Path, tmp_path: Path) -> None:
    tied, untied = load(folder, "causal_lm").module, load(write_llama(tmp_path / "two", tied=False), "causal_lm").module
    assert tied.lm_head.weight is tied.model.embed_tokens.weight
    assert untied.lm_head.weight is not untied.model.embed_tokens.weight


def test_the_hash_is_over_numbers_whatever_they_came_in(folder: Path) -> None:
    loaded = load(folder, "causal_lm")
    again = load(loaded.module, "causal_lm", text_from=folder)
    state = load(load_file(folder / "model.safetensors"), "causal_lm", text_from=folder)
    assert loaded.hash == again.hash == state.hash
    assert loaded.identity == state.identity


def test_a_format_of_half_the_size_is_computed_in(folder: Path) -> None:
    half = load(folder, "causal_lm", dtype="bfloat16")
    assert {tensor.dtype for tensor in half.module.parameters()} == {torch.bfloat16}
    assert {tensor.dtype for tensor in half.module.buffers()} == {torch.float32}
    assert half.hash == load(folder, "causal_lm").hash


def test_what_is_wrong_with_a_model_is_said_all_at_once(folder: Path, tmp_path: Path) -> None:
    broken = write_llama(tmp_path / "broken")
    state = load_file(broken / "model.safetensors")
    del state["model.norm.weight"]
    state["model.layers.0.mlp.up_proj.weight"] = torch.zeros(3, 32)
    save_file({**state, "extra": torch.zeros(2)}, broken / "model.safetensors")
    with pytest.raises(RecipeError) as error:
        load(broken, "causal_lm")
    said = str(error.value)
    assert "'model.norm.weight' is missing" in said
    assert "'model.layers.0.mlp.up_proj.weight' is (3, 32), but its config says (48, 32)" in said
    assert "'extra' belongs to no LlamaForCausalLM" in said


def test_a_tokenizer_that_is_missing_or_too_large_is_refused(tmp_path: Path) -> None:
    model = write_llama(tmp_path / "model")
    write_tokenizer(model, [*WORDS, "more"])
    with pytest.raises(RecipeError, match="its tokenizer has 101 tokens, but the model has embeddings for 100"):
        load(model, "causal_lm")
    for file in model.glob("*token*"):
        file.unlink()
    with pytest.raises(RecipeError, match="has no tokenizer"):
        load(model, "causal_lm")


def test_a_model_that_writes_no_texts_is_refused(tmp_path: Path) -> None:
    model = write_llama(tmp_path / "model")
    (model / "config.json").write_text(json.dumps({"model_type": "vit"}))
    with pytest.raises(RecipeError, match="is a model of type 'vit', which is no causal language model"):
        load(model, "causal_lm")
    with pytest.raises(RecipeError, match=r"has no config.json"):
        load(load_file(model / "model.safetensors"), "causal_lm")


def test_weights_that_differ_are_not_tied_in_silence(tmp_path: Path) -> None:
    model = write_llama(tmp_path / "model")
    state = load_file(model / "model.safetensors")
    other = state["model.embed_tokens.weight"] + 1
    save_file({**state, "lm_head.weight": other}, model / "model.safetensors")
    with pytest.raises(RecipeError, match=r"differ, but config\.json ties them"):
        load(model, "causal_lm")


def test_a_model_is_known_by_its_config(folder: Path) -> None:
    assert family_of(folder).name == "causal_lm"
    assert family_of({"a": torch.zeros(1)}).name == "clip"


def test_scores_are_those_of_the_answers_tokens_with_or_without_company(folder: Path) -> None:
    loaded = load(folder, "causal_lm")
    network = loaded.network()
    together = network.logits({}, token_batch(ROWS, BEGINS))
    alone = [network.logits({}, token_batch([row], [begin])) for row, begin in zip(ROWS, BEGINS, strict=True)]
    assert together.shape == (5, 100)  # three tokens of the first answer, two of the second, ends of turns too
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        plain = loaded.module(torch.tensor([ROWS[1]])).logits[0, 5:7]
    torch.testing.assert_close(alone[1], plain, rtol=1e-4, atol=1e-5)


def test_gradients_at_other_weights_are_those_of_a_model_that_has_them(folder: Path) -> None:
    loaded = load(folder, "causal_lm")
    network, inputs = loaded.network(), token_batch(ROWS, BEGINS)
    moved = {key: (tensor + 0.1).requires_grad_() for key, tensor in network.weights().items()}
    for one in (network, network.replica()):
        loss = torch.nn.functional.cross_entropy(one.logits(moved, inputs), inputs.targets)
        found = torch.autograd.grad(loss, list(moved.values()))
        by_hand = load(folder, "causal_lm").module
        with torch.no_grad():
            for key in moved:
                by_hand.get_parameter(key).add_(0.1)
        own = [by_hand.get_parameter(key).requires_grad_() for key in moved]
        scores = by_hand(inputs.ids, attention_mask=inputs.mask.long()).logits[:, :-1][inputs.answers[:, 1:]]
        wanted = torch.autograd.grad(torch.nn.functional.cross_entropy(scores, inputs.targets), own)
        for got, right in zip(found, wanted, strict=True):
            torch.testing.assert_close(got, right, rtol=1e-3, atol=1e-6)


def test_embeddings_are_left_alone_unless_they_are_named(folder: Path) -> None:
    loaded = load(folder, "causal_lm")
    assert not any("embed" in key or "head" in key for key in loaded.network().keys)
    assert "model.norm.weight" in loaded.network().keys
    assert loaded.network(["model.embed_tokens.weight"]).keys == ("model.embed_tokens.weight",)
    with pytest.raises(RecipeError, match="no weight matches"):
        loaded.network(["visual.*"])


def test_texts_of_like_length_go_together() -> None:
    batch = token_batch([[1] * 8, [1] * 2, [1] * 7, [1] * 3], [1, 1, 1, 1])
    pieces = batch.pieces(tokens=16)
    assert [piece.lengths for piece in pieces] == [[2, 3], [7, 8]]
    assert [piece.ids.shape[1] for piece in pieces] == [3, 8]
    means = token_batch([[1, 5, 6], [1, 7]], [1, 1]).mean_each(torch.tensor([1.0, 3.0, 10.0]))
    assert means.tolist() == [2.0, 10.0]
