"""Models that do not fit are refused with the cause first: what they differ in, three examples, and how many more."""

from __future__ import annotations

import json

import pytest
import torch

import smelt
from checkpoints import write_model
from smelt.errors import IncompatibleModels


def model(path, *, width=4, layers=2, vocabulary=6, kind="llama", config=True):
    """Two tensors of the vocabulary, and three for every layer."""
    state = {
        "model.embed_tokens.weight": torch.ones(vocabulary, width),
        "lm_head.weight": torch.ones(vocabulary, width),
    }
    for layer in range(layers):
        state |= {
            f"model.layers.{layer}.mlp.up_proj.weight": torch.ones(8, width),
            f"model.layers.{layer}.mlp.down_proj.weight": torch.ones(width, 8),
            f"model.layers.{layer}.norm.weight": torch.ones(width),
        }
    write_model(path, state)
    content = {"model_type": kind, "hidden_size": width, "num_hidden_layers": layers, "vocab_size": vocabulary}
    (path / "config.json").unlink(missing_ok=True)
    if config:
        (path / "config.json").write_text(json.dumps(content))
    return str(path)


@pytest.fixture
def refused(tmp_path, cli):
    def run(**differs):
        base, cars, birds = model(tmp_path / "b"), model(tmp_path / "cars"), model(tmp_path / "birds", **differs)
        ran = cli("merge", "-m", "ties", "--base", base, "--model", cars, "--model", birds, "-o", tmp_path / "out")
        assert ran.code == 2
        return ran.err.splitlines()

    return run


def test_another_size_is_told_once_with_three_examples(refused):
    assert refused(width=6) == [
        "smelt: hidden_size 4 (base, cars) and 6 (birds): these cannot be merged",
        "  - 'lm_head.weight' is (6, 4) in base, cars but (6, 6) in birds",
        "  - 'model.embed_tokens.weight' is (6, 4) in base, cars but (6, 6) in birds",
        "  - 'model.layers.0.mlp.down_proj.weight' is (4, 8) in base, cars but (6, 8) in birds",
        "  - and 5 more",
    ]


def test_without_configs_the_shapes_tell_it(refused):
    assert (
        refused(width=6, config=False)[0] == "smelt: hidden_size 4 (base, cars) and 6 (birds): these cannot be merged"
    )


def test_another_number_of_layers_points_to_slices(refused):
    said = refused(layers=3)
    assert said[0] == (
        "smelt: num_hidden_layers 2 (base, cars) and 3 (birds): these cannot be merged; a recipe's `slices` takes "
        "layers from each"
    )
    assert said[1].startswith("  - birds has 'model.layers.2.mlp.down_proj.weight'")


def test_another_family_is_the_cause_of_all_else(refused):
    said = refused(kind="qwen2", width=6, layers=3)
    assert said[0] == "smelt: model_type llama (base, cars) and qwen2 (birds): these cannot be merged"


def test_another_vocabulary_alone_can_be_aligned(refused):
    said = refused(vocabulary=9)
    assert said[0] == (
        "smelt: vocab_size 6 (base, cars) and 9 (birds): these cannot be merged; `--set vocab=base` aligns them by "
        "token, if their tokenizers lie beside the weights"
    )
    assert len(said) == 3


def test_a_vocabulary_and_a_size_are_told_as_the_size(refused):
    assert refused(vocabulary=9, width=6)[0].startswith("smelt: hidden_size 4 (base, cars) and 6 (birds): these")


def test_python_has_every_fault_and_the_cause_apart(tmp_path):
    cars, birds = model(tmp_path / "cars"), model(tmp_path / "birds", width=6)
    with pytest.raises(IncompatibleModels) as refused:
        smelt.merge([cars, birds])
    assert refused.value.causes == ("hidden_size 4 (cars) and 6 (birds)",)
    assert len(refused.value.faults) == 8


def test_smelt_models_tells_the_same_cause(tmp_path, cli):
    ran = cli("models", "--model", model(tmp_path / "cars"), "--model", model(tmp_path / "birds", width=6))
    assert ran.code == 1
    assert ran.err.startswith("smelt: hidden_size 4 (cars) and 6 (birds): these cannot be merged\n")
