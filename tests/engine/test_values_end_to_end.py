"""Values that vary, parts and slices, through a whole merge: what a reader of the recipe expects is what comes out."""

from __future__ import annotations

import json

import pytest
import torch

import smelt
from checkpoints import read_weights, write_model


def layers(value: float, count: int = 3, **more: torch.Tensor) -> dict[str, torch.Tensor]:
    return {f"layers.{n}.w": torch.full((2, 2), value) for n in range(count)} | more


A, B = layers(0.0), layers(8.0)


def test_a_bare_list_runs_over_depth():
    """The scale is 0, 1/2 and 1 over three layers."""
    merged = smelt.merge({"b": B}, base=A, method="task_arithmetic", scale=[0, 1])
    assert [float(merged[f"layers.{n}.w"][0, 0]) for n in range(3)] == [0, 4, 8]


def test_a_scale_may_vary_over_depth_although_the_trim_ranks_over_the_model():
    merged = smelt.merge({"b": B}, base=A, method="ties", density=1.0, scale={"depth": [0, 1]})
    assert [float(merged[f"layers.{n}.w"][0, 0]) for n in range(3)] == [0, 4, 8]
    with pytest.raises(smelt.RecipeError, match="density cannot vary"):
        smelt.merge({"b": B}, base=A, method="ties", density={"depth": [0.1, 1]})


def test_a_list_per_model_follows_the_pool_also_where_a_part_lists_the_models_otherwise():
    """Weights 1 and 3 of 0 and 8 make 6, in the part as elsewhere."""
    recipe = {"merge": [("average", {"weights": [1, 3]})], "parts": [{"keys": "layers.1.*", "models": ["b", "a"]}]}
    merged = smelt.merge({"a": A, "b": B}, method=recipe["merge"], parts=recipe["parts"])
    assert {float(tensor[0, 0]) for tensor in merged.values()} == {6.0}


def test_a_part_need_not_give_values_for_models_it_does_not_merge():
    part = {"keys": "layers.1.*", "models": ["a", "b"], "merge": {"average": {"weights": {"a": 1, "b": 3}}}}
    merged = smelt.merge({"a": A, "b": B, "c": layers(100.0)}, method="average", parts=[part])
    assert float(merged["layers.1.w"][0, 0]) == 6.0
    assert float(merged["layers.0.w"][0, 0]) == 36.0


def test_a_bias_that_only_the_second_model_of_a_slice_has_is_not_lost():
    more = {"layers.0.bias": torch.ones(2)}
    slices = [{"models": {"a": [0, 2], "b": [0, 2]}}]
    with pytest.raises(smelt.IncompatibleModels, match=r"b has 'layers\.0\.bias'"):
        smelt.merge({"a": A, "b": {**B, **more}}, method="average", slices=slices)


def test_a_part_with_slices_must_hold_its_whole_stack():
    wide = {f"layers.{n}.{part}.w": torch.zeros(2, 2) for n in range(3) for part in ("mlp", "attn")}
    part = {"keys": "*.mlp.*", "slices": [{"models": {"a": [0, 2]}}]}
    with pytest.raises(smelt.RecipeError, match="must hold all of layers"):
        smelt.merge({"a": wide}, method="passthrough", parts=[part])


def test_codes_are_not_averaged_with_numbers():
    codes = {name: torch.full((2, 2), 100, dtype=torch.int8) for name in A}
    with pytest.raises(smelt.IncompatibleModels, match="codes and numbers"):
        smelt.merge({"a": codes}, base=A, method="average")


def test_numbers_beside_a_config_that_speaks_of_codes_are_numbers(tmp_path):
    """As a merged QLoRA leaves them: the config still says how the base was quantised."""
    config = {"model_type": "pico", "quantization_config": {"quant_method": "gptq"}}
    models = {name: str(write_model(tmp_path / name, state, config)) for name, state in (("a", A), ("b", B))}
    smelt.merge(models, method="average", out=tmp_path / "out")
    merged = read_weights(tmp_path / "out")
    assert all(torch.equal(merged[key], (A[key] + B[key]) / 2) for key in merged)
    assert "quantization_config" not in json.loads((tmp_path / "out" / "config.json").read_text())


def test_weights_that_cancel_out_are_refused_by_the_plan():
    with pytest.raises(smelt.RecipeError, match="sum to zero"):
        smelt.plan({"a": A, "b": B}, method="average", weights=[1, -1])


def test_the_order_of_models_in_a_slice_is_part_of_the_recipe():
    def recipe(*names):
        models = {name: [0, 2] for name in names}
        pool = {"models": {"a": "x", "b": "y"}}
        return smelt.Recipe.parse({"pool": pool, "merge": "slerp", "slices": [{"models": models}]})

    assert recipe("a", "b").hash != recipe("b", "a").hash


def test_resuming_does_not_take_a_damaged_output_for_a_finished_one(tmp_path):
    models = [str(write_model(tmp_path / name, state)) for name, state in (("a", A), ("b", B))]
    smelt.merge(models, out=tmp_path / "out")
    assert smelt.merge(models, out=tmp_path / "out", resume=True).resumed == 3
    (tmp_path / "out" / "model.safetensors").unlink()
    with pytest.raises(smelt.OutputError, match="already exists"):
        smelt.merge(models, out=tmp_path / "out", resume=True)
    smelt.merge(models, out=tmp_path / "out", resume=True, force=True)
    assert smelt.verify(tmp_path / "out").ok


@pytest.mark.parametrize(
    ("stack", "section"), [("vision_model.layers", "vision_config"), ("text_model.layers", "text_config")]
)
def test_slicing_one_tower_changes_that_towers_layers(tmp_path, stack, section):
    tensors = {f"{tower}.layers.{n}.w": torch.ones(2, 2) for tower in ("vision_model", "text_model") for n in range(3)}
    config = {"text_config": {"num_hidden_layers": 3}, "vision_config": {"num_hidden_layers": 3}, "model_type": "clip"}
    model = write_model(tmp_path / "a", tensors, config)
    part = {"keys": f"{stack}.*", "slices": [{"models": {"a": [0, 2]}}, {"models": {"a": [1, 3]}}]}
    smelt.merge({"a": str(model)}, method="passthrough", parts=[part], out=tmp_path / "out")
    found = json.loads((tmp_path / "out" / "config.json").read_text())
    assert {name: found[name]["num_hidden_layers"] for name in ("text_config", "vision_config")} == {
        "text_config": 3,
        "vision_config": 3,
        section: 4,
    }
