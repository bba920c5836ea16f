"""Averages of a training run's checkpoints, by numbers that can be checked in the head."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

import smelt
from checkpoints import read_weights, state, write_model, write_yaml

NAME = "layers.0.mlp.bias"
"""Its numbers are 2 + the step's value."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Steps 100 to 500, whose numbers are 1 to 5 more than a plain state's."""
    for step in range(1, 6):
        write_model(tmp_path / "run" / f"checkpoint-{100 * step}", state(float(step)))
    return tmp_path / "run"


def found(folder: Path) -> float:
    return float(read_weights(folder)[NAME][0]) - 2


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({}, 3.0),
        ({"last": 3}, 4.0),
        ({"last": 2, "every": 2}, 4.0),
        ({"weights": "linear", "since": 300}, (1 * 3 + 2 * 4 + 3 * 5) / 6),
        ({"weights": "ema", "decay": 0.5, "last": 3}, (3 + 2 * 4 + 4 * 5) / 7),
    ],
)
def test_the_mean_of_a_window(run: Path, tmp_path: Path, words: dict[str, Any], expected: float) -> None:
    (done,) = smelt.average(run, out=tmp_path / "out", **words)
    assert found(tmp_path / "out") == pytest.approx(expected, rel=1e-6)
    assert sum(done.weights) == pytest.approx(1)


def test_a_sliding_window_gives_one_model_for_every_place(run: Path, tmp_path: Path) -> None:
    done = smelt.average(run, out=tmp_path / "out", last=3, each=True)
    assert [one.steps for one in done] == [(100, 200, 300), (200, 300, 400), (300, 400, 500)]
    assert [found(tmp_path / "out" / f"checkpoint-{n}") for n in (300, 400, 500)] == pytest.approx([2, 3, 4])


def test_the_command_says_what_was_averaged(run: Path, tmp_path: Path, cli: Any) -> None:
    ran = cli("average", run, "--from", 200, "--to", 400, "--every", 2, "-o", tmp_path / "out")
    assert (ran.code, "steps 200 (0.500), 400 (0.500)" in ran.out) == (0, True)
    (one,) = json.loads(cli("average", run, "--last", 2, "-o", tmp_path / "other", "--json").out)
    assert one["steps"] == [400, 500]


def test_a_recipe_may_name_its_models_by_a_pattern(run: Path, tmp_path: Path) -> None:
    recipe = write_yaml(tmp_path / "recipe.yaml", {"pool": {"models": "run/checkpoint-*"}, "merge": "average"})
    assert smelt.plan(recipe).models == [f"checkpoint-{100 * n}" for n in range(1, 6)]
    smelt.merge(recipe, out=tmp_path / "out")
    assert found(tmp_path / "out") == pytest.approx(3)
    with pytest.raises(smelt.RecipeError, match="'run/step-\\*' matches no folder"):
        smelt.plan(write_yaml(tmp_path / "wrong.yaml", {"pool": {"models": "run/step-*"}, "merge": "average"}))


def test_wrong_words_are_refused(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(smelt.RecipeError, match="its own average"):
        smelt.average(run, out=out, last=1)
    with pytest.raises(smelt.RecipeError, match="no way to weigh steps named 'exp'"):
        smelt.average(run, out=out, weights="exp")  # type: ignore[arg-type]
    with pytest.raises(smelt.RecipeError, match="decay: 2 is not between"):
        smelt.average(run, out=out, weights="ema", decay=2)
    with pytest.raises(smelt.RecipeError, match="how wide is the window"):
        smelt.average(run, out=out, each=True)
    with pytest.raises(smelt.RecipeError, match="say which with base=REF"):
        smelt.average(run, out=out, lora=2)
    write_model(run / "checkpoint-600", state(6.0, layers=3))
    with pytest.raises(smelt.IncompatibleModels, match=r"layers\.2"):
        smelt.average(run, out=out)


def test_adapters_are_averaged_as_changes_of_their_base(tmp_path: Path) -> None:
    """The mean of the products, not the product of the means: with B and -B the change vanishes."""
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "vocab_size": 64}
    config = LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2)
    base = tmp_path / "base"
    LlamaForCausalLM(config).save_pretrained(base)
    for step in (1, 2):
        torch.manual_seed(step)
        settings = LoraConfig(r=2, target_modules=["up_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
        model = get_peft_model(LlamaForCausalLM.from_pretrained(base), settings)
        model.save_pretrained(tmp_path / "run" / f"checkpoint-{step}")
    (done,) = smelt.average(tmp_path / "run", out=tmp_path / "adapter", lora=4, base=base)
    assert any("cut to rank 4" in note and "lost 0.0%" in note for note in done.summary.notes)
    smelt.average(tmp_path / "run", out=tmp_path / "whole")
    whole = AutoModelForCausalLM.from_pretrained(tmp_path / "whole")
    loaded = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), tmp_path / "adapter")
    tokens = torch.arange(10)[None]
    torch.testing.assert_close(loaded(tokens).logits, whole(tokens).logits, rtol=1e-4, atol=1e-5)
    assert json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())["task_type"] == "CAUSAL_LM"


def test_weights_of_a_decay_are_printed_before_anything_is_merged(run: Path, tmp_path: Path, cli: Any) -> None:
    ran = cli("average", run, "--last", 4, "--weights", "wsm-1-sqrt", "--plan")
    assert (ran.code, "steps 200 (0.500), 300 (0.207), 400 (0.159), 500 (0.134)" in ran.out) == (0, True)
    smelt.average(run, out=tmp_path / "out", last=4, weights="wsm-1-sqrt")
    expected = 0.5 * 2 + (2**0.5 - 1) / 2 * 3 + (3**0.5 - 2**0.5) / 2 * 4 + (2 - 3**0.5) / 2 * 5
    assert found(tmp_path / "out") == pytest.approx(expected, rel=1e-6)
    (planned,) = smelt.average(run, plan=True, weights="exponential", decay=0.5)
    assert (planned.summary, planned.weights[-1]) == (None, pytest.approx(16 / 31))
    with pytest.raises(smelt.RecipeError, match="where is the average written to"):
        smelt.average(run)
