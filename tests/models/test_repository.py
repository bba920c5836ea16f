"""Repositories of the Hub before they are fetched."""

import json

import pytest
import torch
from safetensors.torch import save

import smelt
from smelt.models.download import download, wanted_files
from smelt.models.references import open_ref
from smelt.models.repository import listing


def model(value):
    return {
        "config.json": json.dumps({"architectures": ["CLIPVisionModel"]}).encode(),
        "model.safetensors": save({"layers.0.mlp.weight": torch.full((256, 256), float(value))}),
        "flax_model.msgpack": b"x" * 999,
    }


def test_a_listing_has_sizes_and_what_is_not_in_the_cache(stand_in):
    files = model(1)
    stand_in.contents.add_model("list/model", files, gated=True)
    found = listing("model", "list/model")
    assert found.files == {path: len(content) for path, content in files.items()}
    assert (found.missing, found.gated, found.fault) == (found.files, True, None)


def test_what_was_fetched_is_no_longer_missing(stand_in):
    stand_in.contents.add_model("list/fetched", model(2))
    download("list/fetched")
    assert list(listing("model", "list/fetched").missing) == ["flax_model.msgpack"]


def test_a_name_that_is_not_there_has_a_fault_and_no_files(stand_in):
    found = listing("model", "list/none")
    assert found.files == {}
    assert "is not on the Hugging Face Hub" in found.fault


def test_the_files_that_would_be_fetched_are_those_that_are():
    names = ["config.json", "model.safetensors", "pytorch_model.bin", "flax_model.msgpack"]
    assert wanted_files(names) == ["config.json", "model.safetensors"]
    assert wanted_files(["config.json", "pytorch_model.bin", "tf_model.h5"]) == ["config.json", "pytorch_model.bin"]


def test_a_plan_reads_headers_of_the_hub_and_fetches_no_weights(stand_in):
    for name, value in (("base", 0.0), ("a", 1.0), ("b", 3.0)):
        stand_in.contents.add_model(f"headers/{name}", model(value))
    report = smelt.plan(["hf:headers/a", "hf:headers/b"], base="hf:headers/base", method="task_arithmetic")
    assert (report.tensors, report.parameters) == (1, 256 * 256)
    assert report.absent == ["base", "a", "b"]
    assert report.bytes_absent == 3 * 256 * 256 * 4
    assert stand_in.downloaded("headers/a") < 256 * 256 * 4


def test_only_headers_cannot_be_read(stand_in):
    stand_in.contents.add_model("headers/alone", model(5.0))
    source = open_ref("hf:headers/alone", shapes=True)
    with pytest.raises(smelt.RecipeError, match=r"hf:headers/alone: only its shapes are here"):
        source.read("layers.0.mlp.weight", 0, torch.empty(1))
