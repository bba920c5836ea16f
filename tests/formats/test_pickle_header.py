"""What torch.save wrote is described without torch, and nothing in it runs."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import OrderedDict

import pytest
import torch

from smelt.errors import CorruptFile
from smelt.formats.pickle_header import read_pickle_header
from smelt.formats.source import TensorInfo

KINDS = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "I64": torch.int64, "I32": torch.int32,
    "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool, "C64": torch.complex64,
}  # fmt: skip


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("wrapped", [True, False])
def test_every_type_that_torch_saves_is_known(tmp_path, zipped, wrapped):
    state = OrderedDict((code, torch.zeros(2, 3).to(dtype)) for code, dtype in KINDS.items())
    state["parameter"] = torch.nn.Parameter(torch.zeros(4))
    torch.save({"state_dict": state} if wrapped else state, tmp_path / "m.bin", _use_new_zipfile_serialization=zipped)
    found = read_pickle_header(tmp_path / "m.bin")
    assert found.tensors == {**{c: TensorInfo(c, (2, 3)) for c in KINDS}, "parameter": TensorInfo("F32", (4,))}
    assert found.tied == {}


def test_types_that_have_no_storage_of_their_own(tmp_path):
    torch.save({"a": torch.zeros(2, dtype=torch.uint16), "b": torch.zeros(3, dtype=torch.uint32)}, tmp_path / "m.pt")
    found = read_pickle_header(tmp_path / "m.pt").tensors
    assert found == {"a": TensorInfo("U16", (2,)), "b": TensorInfo("U32", (3,))}


def test_two_names_of_one_tensor_are_tied_and_two_halves_of_one_storage_are_not(tmp_path):
    whole = torch.arange(8.0)
    table = {"embedding": whole, "head": whole, "left": whole[:4], "right": whole[4:]}
    torch.save(table, tmp_path / "m.bin")
    found = read_pickle_header(tmp_path / "m.bin")
    assert found.tied == {"head": "embedding"}
    assert list(found.tensors) == ["embedding", "left", "right"]


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_program_in_a_pickle_is_refused_and_does_not_run(tmp_path, zipped):
    mark = tmp_path / "ran"
    torch.save({"a": Evil(mark)}, tmp_path / "m.bin", _use_new_zipfile_serialization=zipped)
    with pytest.raises(CorruptFile, match=r"m.bin: cannot be read without running it \(it names (posix|nt).system"):
        read_pickle_header(tmp_path / "m.bin")
    assert not mark.exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "cannot be read without running it"),
        (b"PK\x03\x04 no zip", "cannot be read without running it"),
        (pickle.dumps([1, 2]), "cannot be read without running it"),
        (pickle.dumps(7) + pickle.dumps(8), "is not a file that torch.save wrote"),
    ],
)
def test_what_is_no_file_of_torch_is_one_error(tmp_path, content, says):
    (tmp_path / "m.bin").write_bytes(content)
    with pytest.raises(CorruptFile, match=says):
        read_pickle_header(tmp_path / "m.bin")


def test_what_is_no_table_of_tensors_is_said(tmp_path):
    torch.save({"epoch": 3}, tmp_path / "m.bin")
    with pytest.raises(CorruptFile, match="does not hold a plain table of tensors"):
        read_pickle_header(tmp_path / "m.bin")


def test_torch_is_not_loaded(tmp_path):
    torch.save({"a": torch.zeros(1)}, tmp_path / "m.bin")
    code = (
        "import sys; from pathlib import Path; from smelt.formats.pickle_header import read_pickle_header as read;"
        "print(read(Path(sys.argv[1])).tensors['a'].dtype, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "m.bin"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["F32", "False"]
