"""The manifest holds what a folder is made of and from, in one order."""

import json

from blake3 import blake3

import smelt
from smelt.engine.sink.provenance import encode_manifest


def test_it_holds_recipe_parents_hashes_and_versions(tmp_path, two):
    base, cars, birds = two
    out = tmp_path / "out"
    smelt.merge({"cars": cars, "birds": birds}, base=base, method="ties", out=out)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["smelt"] == smelt.__version__
    assert manifest["stages"] == ["ties"]
    assert manifest["recipe"]["pool"]["models"]["cars"] == str(two[1])
    assert manifest["recipe_hash"] == smelt.Recipe.parse(manifest["recipe"]).hash
    digest = blake3((two[1] / "model.safetensors").read_bytes()).hexdigest()
    assert manifest["parents"]["cars"]["files"] == {"model.safetensors": {"blake3": digest}}
    weights = (out / "model.safetensors").read_bytes()
    assert manifest["files"]["model.safetensors"] == {"blake3": blake3(weights).hexdigest(), "bytes": len(weights)}
    assert set(manifest["parents"]) == {"base", "cars", "birds"}


def test_files_stand_in_order_whatever_the_order_they_came_in():
    one, two = {"a": ("1", 1), "b": ("2", 2)}, {"b": ("2", 2), "a": ("1", 1)}
    assert encode_manifest({}, one) == encode_manifest({}, two)
