"""A module holds a layer's experts in one tensor; it is filled from files of either layout."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from smelt.models.families.load_weights import load_weights
from smelt.models.families.model_input import ModelInput
from tiny_experts import KINDS, logits, made, saved, saved_as_module


@pytest.mark.parametrize("kind", KINDS)
def test_a_module_is_filled_from_both_layouts(tmp_path: Path, kind: str) -> None:
    model = made(kind, 1)
    hashes = set()
    for save, place in ((saved, "files"), (saved_as_module, "module")):
        other = made(kind, 2)
        given = ModelInput.open(save(model, tmp_path / place), "model")
        hashes.add(load_weights(other, given, "cpu", torch.float32).hash)
        given.close()
        assert torch.equal(logits(other), logits(model))
    assert len(hashes) == 1


def test_a_merged_state_dict_fills_it_too(tmp_path: Path) -> None:
    """Granite's files have other names than its module: a merge of files is one of such names."""
    import smelt

    folders = [saved(made("GraniteMoe", seed), tmp_path / str(seed)) for seed in (1, 2)]
    state = smelt.merge(folders)
    assert "model.layers.0.block_sparse_moe.input_linear.weight" in state
    smelt.merge(folders, out=tmp_path / "out")
    hashes = []
    for what in (state, str(tmp_path / "out")):
        given = ModelInput.open(what, "model")
        hashes.append(load_weights(made("GraniteMoe", 0), given, "cpu", torch.float32).hash)
    assert hashes[0] == hashes[1]
