"""Tied weights stay tied: the stored copy of a head is left out, one that differs is kept and told of."""

import pytest
import torch

import smelt
from checkpoints import read_weights, write_model
from smelt.formats.open import open_path
from smelt.formats.views.view import without_tied_copy

EMBED, HEAD = "model.embed_tokens.weight", "lm_head.weight"


def model(folder, value=1.0, head=None, tie=True, **config):
    rows = torch.arange(8.0).view(4, 2) * value
    tensors = {EMBED: rows, "norm.weight": torch.ones(2)}
    if head is not None:
        tensors[HEAD] = rows.clone() + head
    return write_model(folder, tensors, {"vocab_size": 4, "tie_word_embeddings": tie, **config})


def test_a_copy_of_the_embedding_is_left_out(tmp_path):
    source, notes = without_tied_copy(open_path(model(tmp_path, head=0.0)))
    assert sorted(source.tensors) == [EMBED, "norm.weight"]
    assert (source.tied, notes) == ({HEAD: EMBED}, [])
    out = torch.empty(8)
    source.read(EMBED, 0, out)
    assert out.tolist() == list(map(float, range(8)))


def test_a_head_that_differs_stays_and_is_told_of(tmp_path):
    source, notes = without_tied_copy(open_path(model(tmp_path, head=0.5)))
    assert HEAD in source.tensors
    assert len(notes) == 1
    assert HEAD in notes[0]


def test_an_untied_model_is_left_alone_even_if_the_numbers_agree(tmp_path):
    source, notes = without_tied_copy(open_path(model(tmp_path, head=0.0, tie=False)))
    assert (HEAD in source.tensors, notes) == (True, [])


def test_the_config_of_the_text_part_counts(tmp_path):
    folder = model(tmp_path, head=0.0)
    (folder / "config.json").write_text('{"text_config": {"tie_word_embeddings": true, "vocab_size": 4}}')
    assert HEAD not in without_tied_copy(open_path(folder))[0].tensors


@pytest.mark.parametrize(("first", "second"), [(0.0, None), (None, 0.0), (0.0, 0.0), (None, None)])
def test_models_merge_whether_they_store_the_copy_or_not(tmp_path, first, second):
    folders = [model(tmp_path / "a", 1.0, head=first), model(tmp_path / "b", 3.0, head=second)]
    smelt.merge(folders, out=tmp_path / "out")
    merged = read_weights(tmp_path / "out")
    assert sorted(merged) == [EMBED, "norm.weight"]
    assert merged[EMBED].view(-1).tolist() == [2.0 * n for n in range(8)]


def test_a_tied_model_and_one_with_a_head_of_its_own_are_refused(tmp_path):
    folders = {"a": model(tmp_path / "a", head=None), "b": model(tmp_path / "b", head=5.0)}
    with pytest.raises(smelt.IncompatibleModels, match=HEAD):
        smelt.merge(folders, out=tmp_path / "out")
