"""Sources give any run of elements of any tensor, converted to the buffer's type, from several threads at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from safetensors.torch import save_file

from smelt.errors import CorruptFile
from smelt.formats.safetensors import FileSource
from smelt.formats.source import MemorySource, TensorInfo

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]


def filled(source, key, start, count, dtype=torch.float32):
    out = torch.full((count,), -99.0).to(dtype)
    source.read(key, start, out)
    return out


@pytest.fixture(params=["file", "memory"])
def make(request, tmp_path):
    def source(tensors):
        if request.param == "memory":
            return MemorySource("state dict", tensors)
        save_file(tensors, tmp_path / "x.safetensors")
        return FileSource("x", [tmp_path / "x.safetensors"])

    return source


def test_headers_come_first(make):
    source = make({"a": torch.ones(2, 3, dtype=torch.bfloat16), "n": torch.tensor(3)})
    assert source.tensors == {"a": TensorInfo("BF16", (2, 3)), "n": TensorInfo("I64", ())}


@pytest.mark.parametrize(("start", "count"), [(0, 12), (0, 1), (5, 4), (11, 1), (3, 0)])
def test_any_run_of_elements_can_be_read(make, start, count):
    source = make({"other": torch.zeros(7), "a": torch.arange(12.0).view(3, 4)})
    assert filled(source, "a", start, count).tolist() == list(map(float, range(start, start + count)))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("wanted", [torch.float32, torch.float64, torch.bfloat16])
def test_numbers_are_converted_to_the_buffers_type(make, dtype, wanted):
    values = torch.tensor([0.0, 1.0, -2.0, 0.5, 24.0]).to(dtype)
    read = filled(make({"a": values}), "a", 0, 5, wanted)
    assert read.dtype == wanted
    assert torch.equal(read, values.to(wanted))


def test_integers_and_flags_are_read_as_they_are(make):
    source = make({"i": torch.tensor([1, 2**40]), "b": torch.tensor([True, False])})
    assert filled(source, "i", 0, 2, torch.int64).tolist() == [1, 2**40]
    assert filled(source, "b", 0, 2, torch.bool).tolist() == [True, False]


def test_a_read_fills_a_part_of_a_larger_buffer(make):
    buffer = torch.full((3, 4), -1.0)
    make({"a": torch.arange(6.0)}).read("a", 1, buffer[1])
    assert buffer.tolist() == [[-1] * 4, [1, 2, 3, 4], [-1] * 4]


def test_threads_do_not_disturb_each_other(make):
    source = make({f"t{n}": torch.full((5000,), float(n)).to(torch.bfloat16) for n in range(8)})

    def right(n):
        return all((filled(source, f"t{n}", 17, 4000) == n).all() for _ in range(30))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(right, range(8)))


def test_several_files_are_one_model(tmp_path):
    save_file({"a": torch.ones(2)}, tmp_path / "1.safetensors")
    save_file({"b": torch.ones(3) * 2}, tmp_path / "2.safetensors")
    source = FileSource("x", [tmp_path / "1.safetensors", tmp_path / "2.safetensors"])
    assert sorted(source.tensors) == ["a", "b"]
    assert filled(source, "b", 0, 3).tolist() == [2, 2, 2]
    source.close()


def test_a_name_in_two_files_is_refused(tmp_path):
    for name in ("1", "2"):
        save_file({"a": torch.ones(2)}, tmp_path / f"{name}.safetensors")
    with pytest.raises(CorruptFile, match=r"2\.safetensors.*'a' stands in another file"):
        FileSource("x", [tmp_path / "1.safetensors", tmp_path / "2.safetensors"])


def test_names_that_share_a_tensor_in_memory_are_tied():
    shared = torch.ones(2, 3)
    source = MemorySource("x", {"embed": shared, "head": shared, "other": torch.ones(2, 3)})
    assert source.tied == {"head": "embed"}
    assert sorted(source.tensors) == ["embed", "other"]


def test_parts_of_one_storage_are_not_tied():
    whole = torch.arange(6.0)
    source = MemorySource("x", {"a": whole[:3], "b": whole[3:], "c": whole.view(2, 3), "d": whole.view(2, 3).t()})
    assert source.tied == {}
    assert filled(source, "d", 0, 6).tolist() == [0, 3, 1, 4, 2, 5]


def test_empty_tensors_are_never_tied():
    assert MemorySource("x", {"a": torch.ones(0), "b": torch.ones(0)}).tied == {}


def test_closing_twice_is_harmless(tmp_path):
    save_file({"a": torch.ones(2)}, tmp_path / "1.safetensors")
    source = FileSource("x", [tmp_path / "1.safetensors"])
    source.close()
    source.close()
