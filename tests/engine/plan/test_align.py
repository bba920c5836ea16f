"""Vocabularies brought onto the same rows, and the config and tokenizer that follow."""

import json

import pytest
import torch

import smelt
from checkpoints import read_weights, write_model
from smelt.errors import IncompatibleModels, RecipeError

EMBED = "model.embed_tokens.weight"


def model(root, name, value, tokens, pad=0, **config):
    """Each row holds `value` plus the place of its token in the alphabet."""
    rows = [value + ord(token) - ord("a") for token in tokens] + [-1.0] * pad
    table = torch.tensor(rows)[:, None].expand(-1, 2)
    tensors = {EMBED: table.contiguous(), "lm_head.weight": table + 0.5, "norm.weight": torch.full((2,), value)}
    announced = {"model_type": "pico", "vocab_size": len(rows), **config}
    vocabulary = json.dumps({token: number for number, token in enumerate(tokens)})
    spec = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": None, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": json.loads(vocabulary), "unk_token": "a"},
    }  # fmt: skip
    return write_model(root / name, tensors, announced, tokenizer__json=json.dumps(spec))


@pytest.fixture
def pool(tmp_path):
    return {
        "base": model(tmp_path, "base", 0.0, "abc"),
        "cars": model(tmp_path, "cars", 100.0, "acd"),
        "birds": model(tmp_path, "birds", 200.0, "bac"),
    }


def merged(tmp_path, pool, **words):
    pool = dict(pool)
    smelt.merge(pool, base=pool.pop("base"), out=tmp_path / "out", **words)
    weights = read_weights(tmp_path / "out")
    tokens = json.loads((tmp_path / "out" / "tokenizer.json").read_text())["model"]["vocab"]
    named = list(tokens.values())
    assert torch.equal(weights["lm_head.weight"][named], weights[EMBED][named] + 0.5)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["vocab_size"] == len(weights[EMBED])
    return {token: weights[EMBED][number, 0].item() for token, number in tokens.items()}


def test_other_tokens_under_the_same_ids_are_refused_by_default(tmp_path, pool):
    base = pool.pop("base")
    with pytest.raises(IncompatibleModels, match=r"id 1 is 'b' in base but 'c' in cars.*`vocab='base'`"):
        smelt.merge(pool, base=base, out=tmp_path / "out")


def test_base_keeps_the_bases_tokens_and_a_model_without_one_counts_as_unchanged(tmp_path, pool):
    # a: (100 + 200) / 2; b: cars lacks it, so the base's 1 and birds' 201; c: (102 + 202) / 2
    assert merged(tmp_path, pool, vocab="base") == {"a": 150, "b": 101, "c": 152}


def test_union_adds_the_tokens_of_the_others_behind(tmp_path, pool):
    # d: cars' 103 alone has it, so the others show the same row
    assert merged(tmp_path, pool, vocab="union") == {"a": 150, "b": 101, "c": 152, "d": 103}


def test_intersection_keeps_what_all_have(tmp_path, pool):
    assert merged(tmp_path, pool, vocab="intersection") == {"a": 150, "c": 152}


def test_a_models_name_chooses_its_tokens(tmp_path, pool):
    assert merged(tmp_path, pool, vocab="cars") == {"a": 150, "c": 152, "d": 103}


def test_rows_go_by_number(tmp_path, pool):
    assert merged(tmp_path, pool, vocab="rows")["a"] == (100 + 201) / 2


def test_a_multiple_pads_the_rows(tmp_path, pool):
    merged(tmp_path, pool, vocab="union", pad_vocab_to=8)
    assert read_weights(tmp_path / "out")[EMBED].shape == (8, 2)


def test_one_token_may_have_a_source_of_its_own(tmp_path, pool):
    rows = merged(tmp_path, pool, vocab="base", tokens={"a": {"source": "birds", "force": True}})
    assert rows == {"a": 200, "b": 101, "c": 152}


def test_the_other_tensors_are_merged_as_ever_and_the_change_is_noted(tmp_path, pool):
    pool = dict(pool)
    done = smelt.merge(pool, base=pool.pop("base"), out=tmp_path / "out", vocab="union")
    assert read_weights(tmp_path / "out")["norm.weight"].tolist() == [150, 150]
    assert any("4 rows (union)" in note for note in done.notes)


def test_a_policy_without_an_embedding_is_refused(two):
    base, cars, birds = two
    with pytest.raises(RecipeError, match=r"vocab: union.*embedding"):
        smelt.merge([cars, birds], base=base, vocab="union")


def test_an_embedding_that_is_skipped_is_copied_whatever_its_rows(tmp_path, pool):
    larger = model(tmp_path, "cars", 100.0, "acde")
    skip = [EMBED, "lm_head.weight"]
    smelt.merge([larger, pool["birds"]], base=pool["base"], skip=skip, out=tmp_path / "out")
    assert read_weights(tmp_path / "out")[EMBED][:, 0].tolist() == [0, 1, 2]
