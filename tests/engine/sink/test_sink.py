"""The folder appears when it is complete, laid out in shards that loaders know. Deaths are in tests/attacks."""

import json

import pytest
import torch
from safetensors import safe_open

import smelt
from checkpoints import read_weights, state, write_model
from smelt.engine.plan.plan import Item
from smelt.engine.sink.output import check_output
from smelt.engine.sink.shards import index_files, lay_out
from smelt.errors import OutputError
from smelt.formats.source import TensorInfo


def items(*counts):
    return [Item(f"t{n}", n, TensorInfo("F32", (count,)), 0.0, None) for n, count in enumerate(counts)]


def test_one_shard_has_the_plain_name():
    assert [shard.name for shard in lay_out(items(1, 2, 3), 1000)] == ["model.safetensors"]


def test_a_new_shard_begins_where_the_next_tensor_would_make_the_last_too_large():
    shards = lay_out(items(5, 5, 4, 30, 1, 1), 40)
    assert [list(shard.tensors) for shard in shards] == [["t0", "t1"], ["t2"], ["t3"], ["t4", "t5"]]
    assert shards[0].name == "model-00001-of-00004.safetensors"


def test_the_index_gives_every_tensors_shard_and_the_sum_of_bytes():
    index = json.loads(index_files(lay_out(items(5, 5, 5), 20))["model.safetensors.index.json"])
    assert index["metadata"]["total_size"] == 60
    assert index["weight_map"] == {f"t{n}": f"model-{n + 1:05d}-of-00003.safetensors" for n in range(3)}


def test_shards_hold_the_same_numbers_as_one_file(tmp_path, two):
    models = list(two[1:])
    smelt.merge(models, out=tmp_path / "one")
    smelt.merge(models, out=tmp_path / "many", shard_size="60B")
    one, many = read_weights(tmp_path / "one"), read_weights(tmp_path / "many")
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 2
    assert (tmp_path / "many" / "model.safetensors.index.json").exists()
    assert not (tmp_path / "one" / "model.safetensors.index.json").exists()
    assert one.keys() == many.keys()
    assert all(torch.equal(one[key], many[key]) for key in one)


def test_the_file_carries_the_recipe(tmp_path, two):
    smelt.merge(list(two[1:]), out=tmp_path / "out", seed=7)
    with safe_open(tmp_path / "out" / "model.safetensors", "pt") as file:
        metadata = file.metadata()
    assert metadata["format"] == "pt"
    recipe = smelt.Recipe.parse(json.loads(metadata["recipe"]))
    assert recipe.seed == 7
    assert metadata["recipe_hash"] == recipe.hash


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_disk_equals_memory_in_every_type(tmp_path, dtype):
    models = [write_model(tmp_path / name, state(value, dtype=dtype)) for name, value in (("a", 1.0), ("b", 2.5))]
    smelt.merge(models, out=tmp_path / "out")
    disk, memory = read_weights(tmp_path / "out"), smelt.merge(models)
    assert all(disk[key].dtype == dtype and torch.equal(disk[key], memory[key]) for key in memory)


def test_tied_names_share_one_tensor_in_memory():
    def model(value):
        shared = torch.full((2, 2), value)
        return {"embed.weight": shared, "head.weight": shared}

    merged = smelt.merge({"a": model(1.0), "b": model(3.0)})
    assert merged["head.weight"] is merged["embed.weight"]
    assert merged["head.weight"].tolist() == [[2, 2], [2, 2]]


def test_an_output_is_checked_before_any_work(tmp_path):
    check_output(tmp_path / "new", [], force=False, needed=0)
    check_output(tmp_path / "a" / "b", [tmp_path / "a" / "c"], force=False, needed=0)
    with pytest.raises(OutputError, match="holds an input"):
        check_output(tmp_path, [tmp_path / "a" / "b" / "model.safetensors"], force=True, needed=0)
    with pytest.raises(OutputError, match="has only"):
        check_output(tmp_path / "new", [], force=False, needed=10**18)
