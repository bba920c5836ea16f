"""Headers that Smelt writes are those the safetensors library reads, and the other way round."""

import json
import struct

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load, save_file

from smelt.errors import CorruptFile
from smelt.formats.safetensors import encode_header, read_header
from smelt.formats.source import TensorInfo


def test_a_tensor_knows_its_elements_and_bytes():
    assert (TensorInfo("BF16", (3, 5)).count, TensorInfo("BF16", (3, 5)).nbytes) == (15, 30)
    assert (TensorInfo("F64", ()).count, TensorInfo("F64", ()).nbytes) == (1, 8)
    assert TensorInfo("I8", (0, 7)).nbytes == 0


def test_a_header_by_the_library_is_read(tmp_path):
    save_file({"a": torch.ones(2, 3), "b": torch.ones(4, dtype=torch.bfloat16)}, tmp_path / "x.safetensors", {"k": "v"})
    header = read_header(tmp_path / "x.safetensors")
    assert header.tensors == {"a": TensorInfo("F32", (2, 3)), "b": TensorInfo("BF16", (4,))}
    assert header.metadata == {"k": "v"}
    data = (tmp_path / "x.safetensors").read_bytes()
    at = header.offsets["a"]
    assert struct.unpack("<6f", data[at : at + 24]) == (1,) * 6


def test_a_written_header_is_read_by_the_library(tmp_path):
    infos = {"é/x": TensorInfo("F32", (2,)), "scalar": TensorInfo("I64", ()), "none": TensorInfo("F16", (0, 3))}
    head, starts = encode_header(infos, {"format": "pt"})
    data = head + struct.pack("<ff", 1.5, 2.5) + struct.pack("<q", 7)
    loaded = load(data)
    assert loaded["é/x"].tolist() == [1.5, 2.5]
    assert loaded["scalar"].item() == 7
    assert loaded["none"].shape == (0, 3)
    assert starts == {"é/x": len(head), "scalar": len(head) + 8, "none": len(head) + 16}
    (tmp_path / "x.safetensors").write_bytes(data)
    with safe_open(tmp_path / "x.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}
    assert read_header(tmp_path / "x.safetensors").tensors == infos


def test_data_begins_at_a_multiple_of_eight_bytes():
    for length in range(1, 20):
        assert len(encode_header({"n" * length: TensorInfo("F32", (1,))}, {})[0]) % 8 == 0


def test_the_same_header_gives_the_same_bytes():
    infos = {"b": TensorInfo("F32", (1,)), "a": TensorInfo("F32", (2,))}
    assert encode_header(infos, {"x": "y"}) == encode_header(dict(infos), {"x": "y"})
    assert list(encode_header(infos, {})[1]) == ["b", "a"], "tensors lie in the given order"


def test_metadata_alone_makes_no_tensor(tmp_path):
    text = json.dumps({"__metadata__": {"a": "b"}}).encode()
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    header = read_header(tmp_path / "x.safetensors")
    assert (header.tensors, header.metadata) == ({}, {"a": "b"})


def test_a_cut_file_says_how_much_is_there(tmp_path):
    save_file({"a": torch.ones(100)}, tmp_path / "x.safetensors")
    whole = (tmp_path / "x.safetensors").read_bytes()
    (tmp_path / "x.safetensors").write_bytes(whole[:-40])
    with pytest.raises(CorruptFile, match="400 bytes of tensors are announced but only 360 are there"):
        read_header(tmp_path / "x.safetensors")
