"""Config and tokenizer come from the base, else from the first model, never from whichever was opened first."""

import json
import os
import subprocess
import sys

import pytest

import smelt
from checkpoints import CONFIG, snapshot, state, write_model
from smelt.errors import IncompatibleModels, RecipeError


def models(root, **configs):
    return {
        name: write_model(root / name, state(number), config, tokenizer_config__json=json.dumps({"of": name}))
        for number, (name, config) in enumerate(configs.items())
    }


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


def tokenizer_of(folder):
    return json.loads((folder / "tokenizer_config.json").read_text())["of"]


def test_they_come_from_the_base_where_there_is_one(tmp_path):
    pool = models(tmp_path, **{name: {**CONFIG, "_name_or_path": name} for name in ("cars", "birds", "base")})
    base = pool.pop("base")
    smelt.merge(pool, base=base, out=tmp_path / "out")
    assert config_of(tmp_path / "out")["_name_or_path"] == "base"
    assert tokenizer_of(tmp_path / "out") == "base"


@pytest.mark.parametrize("first", ["cars", "birds"])
def test_they_come_from_the_first_model_where_there_is_no_base(tmp_path, first):
    pool = models(tmp_path, **{name: {**CONFIG, "_name_or_path": name} for name in ("cars", "birds")})
    order = sorted(pool, key=lambda name: name != first)
    smelt.merge({name: pool[name] for name in order}, out=tmp_path / "out")
    assert config_of(tmp_path / "out")["_name_or_path"] == first
    assert tokenizer_of(tmp_path / "out") == first


@pytest.mark.slow
def test_the_choice_does_not_depend_on_the_hash_seed(tmp_path):
    pool = models(tmp_path, **{name: {**CONFIG, "_name_or_path": name} for name in ("c", "a", "b")})
    for seed in ("0", "1", "2"):
        out = tmp_path / f"out{seed}"
        words = [word for path in pool.values() for word in ("--model", str(path))]
        command = [sys.executable, "-c", "from smelt.cli import main; main()", "merge", *words, "-o", str(out)]
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, check=True)
        assert config_of(out)["_name_or_path"] == "c"


@pytest.mark.parametrize("key", ["rope_theta", "hidden_act", "rms_norm_eps", "num_attention_heads"])
def test_configs_that_compute_differently_are_refused(tmp_path, key):
    pool = models(tmp_path, cars={**CONFIG, key: 1}, birds={**CONFIG, key: 2})
    before = snapshot(tmp_path)
    with pytest.raises(IncompatibleModels, match=f"{key} is 1 in cars but 2 in birds.*`config=NAME`") as caught:
        smelt.merge(pool, out=tmp_path / "out")
    assert caught.value.exit_code == 2
    assert snapshot(tmp_path) == before


def test_all_differences_are_listed_nested_ones_too(tmp_path):
    inner = {"text_config": {"rope_theta": 1.0, "vocab_size": 4}, "hidden_act": "gelu"}
    other = {"text_config": {"rope_theta": 2.0, "vocab_size": 5}, "hidden_act": "silu"}
    pool = models(tmp_path, cars=inner, birds=other)
    with pytest.raises(IncompatibleModels) as caught:
        smelt.merge(pool, out=tmp_path / "out")
    assert len(caught.value.faults) == 2
    assert "text_config.rope_theta" in str(caught.value)


def test_scaled_positions_are_not_merged_with_unscaled_ones(tmp_path):
    scaling = {"rope_type": "llama3", "factor": 8.0}
    pool = models(tmp_path, cars={**CONFIG, "rope_scaling": None}, birds={**CONFIG, "rope_scaling": scaling})
    with pytest.raises(IncompatibleModels, match="rope_scaling"):
        smelt.merge(pool, out=tmp_path / "out")


def test_the_recipe_may_choose_whose_config_the_output_gets(tmp_path):
    pool = models(tmp_path, cars={**CONFIG, "rope_theta": 1.0}, birds={**CONFIG, "rope_theta": 2.0})
    smelt.merge(pool, out=tmp_path / "out", config="birds")
    assert config_of(tmp_path / "out")["rope_theta"] == 2.0
    assert tokenizer_of(tmp_path / "out") == "birds"


def test_a_chosen_model_that_is_not_there_is_refused(tmp_path):
    pool = models(tmp_path, cars=CONFIG, birds=CONFIG)
    with pytest.raises(RecipeError, match=r"'bird'.*did you mean 'birds'"):
        smelt.merge(pool, out=tmp_path / "out", config="bird")


def test_names_versions_and_training_settings_may_differ(tmp_path):
    pool = models(
        tmp_path,
        cars={**CONFIG, "transformers_version": "4.1", "_name_or_path": "x", "use_cache": True},
        birds={**CONFIG, "transformers_version": "5.1", "_name_or_path": "y", "use_cache": False},
    )
    assert smelt.merge(pool, out=tmp_path / "out").tensors == 6


def test_the_config_says_the_dtype_that_the_weights_have(tmp_path):
    import torch

    cars = write_model(tmp_path / "cars", state(1, dtype=torch.float32), {**CONFIG, "dtype": "float32"})
    birds = write_model(tmp_path / "birds", state(2, dtype=torch.bfloat16), {**CONFIG, "dtype": "bfloat16"})
    smelt.merge([cars, birds], out=tmp_path / "out", config="birds")
    assert config_of(tmp_path / "out")["dtype"] == "float32", "the weights are stored like the first model's"


def test_a_damaged_config_is_refused_and_named(tmp_path, two):
    base, cars, birds = two
    (cars / "config.json").write_text('{"hidden_size": ')
    with pytest.raises(smelt.CorruptFile, match=r"cars/config\.json"):
        smelt.merge([cars, birds], base=base, out=tmp_path / "out")
