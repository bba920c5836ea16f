"""The hash of a recipe stands for what it makes: two recipes that make different models never share one."""

import json

import torch
from safetensors import safe_open

import smelt
from checkpoints import write_model


def recipe(tmp_path, *order):
    return {"pool": {"models": {n: str(tmp_path / n) for n in order}}, "merge": {"average": {"weights": [1, 3]}}}


def test_other_weights_by_order_are_another_recipe(tmp_path):
    for name, value in (("a", 0.0), ("b", 4.0)):
        write_model(tmp_path / name, {"w": torch.full((1,), value)}, None)
    one, other = recipe(tmp_path, "a", "b"), recipe(tmp_path, "b", "a")
    assert (smelt.merge(one)["w"].item(), smelt.merge(other)["w"].item()) == (3.0, 1.0)
    assert smelt.Recipe.parse(one).hash != smelt.Recipe.parse(other).hash


def test_the_recipe_inside_the_weights_file_makes_the_same_model_again(tmp_path):
    for name, value in (("b", 0.0), ("a", 4.0)):
        write_model(tmp_path / name, {"w": torch.full((1,), value)}, None)
    smelt.merge(recipe(tmp_path, "b", "a"), out=tmp_path / "out")
    with safe_open(tmp_path / "out" / "model.safetensors", "pt") as file:
        again = smelt.merge(json.loads(file.metadata()["recipe"]))
        assert torch.equal(again["w"], file.get_tensor("w"))
