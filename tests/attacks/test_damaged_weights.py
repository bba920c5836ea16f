"""Truncated, lying and garbage weights are refused before any work, and the message names the file."""

import json
import struct

import pytest
import torch
from safetensors.torch import save_file

import smelt
from checkpoints import random_state, snapshot, state, write_model
from smelt.errors import CorruptFile, SmeltError

ONE = {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}


def packed(header, data=b"\0" * 8, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(**changes):
    return {"w": {**ONE["w"], **changes}}


def two_of(first, second, data):
    table = {"a": {"dtype": "F32", "shape": [2], "data_offsets": first}}
    return packed({**table, "b": {"dtype": "F32", "shape": [2], "data_offsets": second}}, data)


DAMAGED = {
    "empty file": b"",
    "three bytes": b"abc",
    "only a length": struct.pack("<Q", 10),
    "garbage": bytes(range(256)) * 4,
    "a web page": b"<!DOCTYPE html><html><body>404 not found</body></html>",
    "a git lfs pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
    "header length beyond the file": packed(ONE, length=5000),
    "header length of exabytes": packed(ONE, length=2**63),
    "header length one short": packed(ONE, length=len(json.dumps(ONE)) - 1),
    "header length zero": packed(b"", b""),
    "header that is no JSON": packed(b"{not json"),
    "header that is no text": packed(b"\xff\xfe\xfd\xfc"),
    "header that is a list": packed(b"[1, 2]"),
    "header that is a number": packed(b"12"),
    "header nested without end": packed(b'{"a":' * 40000 + b"1" + b"}" * 40000),
    "duplicate names": packed(f'{{"w": {json.dumps(ONE["w"])}, "w": {json.dumps(ONE["w"])}}}'.encode()),
    "entry that is a number": packed({"w": 3}),
    "entry that is null": packed({"w": None}),
    "entry without a shape": packed({"w": {"dtype": "F32", "data_offsets": [0, 8]}}),
    "entry without offsets": packed({"w": {"dtype": "F32", "shape": [2]}}),
    "three offsets": packed(entry(data_offsets=[0, 4, 8])),
    "offsets that are words": packed(entry(data_offsets=["0", "8"])),
    "offsets the wrong way round": packed(entry(data_offsets=[8, 0])),
    "negative offsets": packed(entry(data_offsets=[-8, 0])),
    "negative shape": packed(entry(shape=[-2])),
    "two negative sizes": packed(entry(shape=[-1, -2])),
    "fractional shape": packed(entry(shape=[2.0])),
    "boolean shape": packed(entry(shape=[True, 2])),
    "shape that is a word": packed(entry(shape="2")),
    "shape that is null": packed(entry(shape=None)),
    "shape that is a table": packed(entry(shape={"2": 1})),
    "too large a shape": packed(entry(shape=[2**40, 2**40])),
    "shape and bytes that disagree": packed(entry(shape=[3])),
    "unknown type": packed(entry(dtype="F99")),
    "type that is a number": packed(entry(dtype=32)),
    "type that is a list": packed(entry(dtype=["F32"])),
    "type that is null": packed(entry(dtype=None)),
    "overlap": two_of([0, 8], [4, 12], b"\0" * 12),
    "the same bytes twice": two_of([0, 8], [0, 8], b"\0" * 8),
    "gap": two_of([0, 8], [12, 20], b"\0" * 20),
    "gap at the start": packed(entry(data_offsets=[8, 16]), b"\0" * 16),
    "data cut off": packed(ONE, b"\0" * 7),
    "no data": packed(ONE, b""),
    "bytes after the last tensor": packed(ONE, b"\0" * 9),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_refused_and_named(tmp_path, two, cli, damage):
    _base, cars, birds = two
    (birds / "model.safetensors").write_bytes(DAMAGED[damage])
    before = snapshot(tmp_path)
    ran = cli("merge", "--model", cars, "--model", birds, "-o", tmp_path / "out")
    assert ran.code == 2
    assert str(birds / "model.safetensors") in ran.err
    assert str(cars) not in ran.err
    assert "Traceback" not in ran.err
    assert snapshot(tmp_path) == before
    with pytest.raises(SmeltError, match=r"birds/model\.safetensors"):
        smelt.plan([cars, birds])


def test_a_file_cut_anywhere_is_refused(tmp_path, two):
    _base, cars, birds = two
    whole = (birds / "model.safetensors").read_bytes()
    for cut in [*range(0, 64, 7), len(whole) // 2, len(whole) - 1]:
        (birds / "model.safetensors").write_bytes(whole[:cut])
        with pytest.raises(SmeltError, match=r"birds/model\.safetensors"):
            smelt.merge([cars, birds], out=tmp_path / "out")


def test_all_damaged_models_are_named_at_once(tmp_path, two):
    base, cars, birds = two
    (birds / "model.safetensors").write_bytes(b"")
    (cars / "model.safetensors").write_bytes(b"")
    with pytest.raises(SmeltError) as caught:
        smelt.merge([cars, birds], base=base, out=tmp_path / "out")
    assert str(birds) in str(caught.value)
    assert str(cars) in str(caught.value)


def test_a_header_without_tensors_is_refused(tmp_path, two):
    _base, cars, birds = two
    (birds / "model.safetensors").write_bytes(packed({}, b""))
    with pytest.raises(SmeltError, match="birds"):
        smelt.merge([cars, birds], out=tmp_path / "out")


def test_weights_that_shrink_while_they_are_read_are_refused(two):
    from smelt.formats.open import open_path

    _base, _cars, birds = two
    source = open_path(birds)
    path = birds / "model.safetensors"
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size - 4)
    last = list(source.tensors)[-1]
    with pytest.raises(CorruptFile, match=rf"birds/model\.safetensors: ended while '{last}'.*has changed"):
        source.read(last, 0, torch.empty(source.tensors[last].count))


def shard(folder, count=2):
    """The model of `folder` in shards with an index, as transformers writes them."""
    tensors = state(3.0)
    (folder / "model.safetensors").unlink()
    names = [f"model-{n + 1:05d}-of-{count:05d}.safetensors" for n in range(count)]
    places = {key: names[number % count] for number, key in enumerate(tensors)}
    for name in names:
        save_file({key: tensors[key] for key in tensors if places[key] == name}, folder / name)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return index, places, names


def test_shards_with_an_index_are_read(two):
    _base, cars, birds = two
    shard(birds)
    assert smelt.merge([cars, birds])["head.weight"][0, 0] == 7  # (6 + 8) / 2


def test_shards_without_an_index_are_read(two):
    _base, cars, birds = two
    shard(birds, 3)[0].unlink()
    assert smelt.merge([cars, birds])["head.weight"][0, 0] == 7


def refused(two, *words):
    _base, cars, birds = two
    with pytest.raises(SmeltError) as caught:
        smelt.merge([cars, birds], out=birds.parent / "out")
    assert caught.value.exit_code == 2
    for word in (str(birds), *words):
        assert word in str(caught.value)
    assert not (birds.parent / "out").exists()


def test_an_index_that_names_a_missing_shard_is_refused(two):
    _, _, names = shard(two[2])
    (two[2] / names[1]).unlink()
    refused(two, names[1])


def test_a_missing_shard_of_a_set_without_index_is_refused(two):
    index, _, names = shard(two[2], 3)
    index.unlink()
    (two[2] / names[1]).unlink()
    refused(two, "2 of 3")


def test_a_stale_index_beside_a_single_file_is_refused(two):
    shard(two[2])
    write_model(two[2], state(3.0))
    refused(two, "model.safetensors.index.json", "stale")


def test_two_sets_of_shards_are_refused(two):
    index, _, _names = shard(two[2])
    index.unlink()
    save_file(random_state(0, {"w": (2,)}), two[2] / "model-00001-of-00001.safetensors")
    refused(two, "several sets")


def test_a_tensor_in_two_shards_is_refused(two):
    _index, _places, names = shard(two[2])
    save_file(state(3.0), two[2] / names[0])
    refused(two, names[1])


def test_an_index_that_lists_a_tensor_no_shard_holds_is_refused(two):
    index, places, names = shard(two[2])
    index.write_text(json.dumps({"weight_map": {**places, "ghost": names[0]}}))
    refused(two, "'ghost'", "index.json")


def test_an_index_that_forgets_a_tensor_is_refused(two):
    index, places, _names = shard(two[2])
    del places["head.weight"]
    index.write_text(json.dumps({"weight_map": places}))
    refused(two, "'head.weight'", "index.json")


@pytest.mark.parametrize("places", [None, {}, [], 3, {"w": 3}, {"w": ["a"]}, {"w": None}])
def test_an_index_without_places_is_refused(two, places):
    shard(two[2])[0].write_text(json.dumps({"weight_map": places}))
    refused(two, "model.safetensors.index.json")


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "3", "null"])
def test_a_garbage_index_is_refused(two, content):
    shard(two[2])[0].write_text(content)
    refused(two, "model.safetensors.index.json")


def test_a_folder_without_weights_is_refused(two):
    (two[2] / "model.safetensors").unlink()
    refused(two, "no model weights")


def test_a_folder_where_the_weights_should_be_is_refused(two):
    (two[2] / "model.safetensors").unlink()
    (two[2] / "model.safetensors").mkdir()
    refused(two, "model.safetensors")


def test_a_model_that_is_not_there_is_refused_with_the_way_to_the_hub(tmp_path, two, cli):
    ran = cli("merge", "--model", two[1], "--model", tmp_path / "brids", "-o", tmp_path / "out")
    assert ran.code == 2
    assert f"no model at '{tmp_path / 'brids'}'" in ran.err
    assert "hf:" in ran.err


def test_a_file_of_another_kind_is_refused(tmp_path, two, cli):
    (tmp_path / "model.onnx").write_bytes(b"x")
    ran = cli("merge", "--model", two[1], "--model", tmp_path / "model.onnx", "-o", tmp_path / "out")
    assert (ran.code, "model.onnx: not a model" in ran.err) == (2, True)
