"""Split GGUF models: any part opens all of them, and a part that is missing or lies is named."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

import smelt
from gguf_models import write_gguf
from smelt.errors import CorruptFile, RecipeError
from smelt.formats.gguf.source import GGUFSource
from smelt.formats.open import open_path
from smelt.formats.source import read_whole

ROWS = np.random.default_rng(0).standard_normal((6, 64), dtype=np.float32)
TENSORS = {"token_embd.weight": ROWS, "output_norm.weight": ROWS[0], "output.weight": ROWS * 2}


def split(folder: Path) -> list[Path]:
    write_gguf(folder / "m.gguf", "llama", TENSORS, {"block_count": 1}, split_max_tensors=1)
    return sorted(folder.glob("m-*.gguf"))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_any_part_opens_the_whole_model(tmp_path: Path, number: int) -> None:
    parts = split(tmp_path)
    assert [path.name for path in parts] == [f"m-0000{n}-of-00003.gguf" for n in (1, 2, 3)]
    source = GGUFSource(parts[number])
    assert list(source.files) == parts
    assert source.tensors.keys() == {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"}
    assert torch.equal(read_whole(source, "lm_head.weight"), torch.from_numpy(ROWS * 2))
    source.close()


def test_a_folder_of_parts_is_one_model_and_inspect_says_so(tmp_path: Path) -> None:
    split(tmp_path)
    assert len(open_path(tmp_path).tensors) == 3
    facts = smelt.inspect(tmp_path)
    assert (facts.format, len(facts.files), facts.parameters) == ("GGUF, 3 parts", 3, 2 * 384 + 64)


def test_a_folder_with_several_models_asks_which(tmp_path: Path) -> None:
    split(tmp_path)
    write_gguf(tmp_path / "other.gguf", "llama", TENSORS)
    with pytest.raises(RecipeError, match=r"holds 2 GGUF models; name the file of one, such as .*other\.gguf"):
        open_path(tmp_path)


def test_what_reads_pictures_for_a_model_is_no_model(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", "llama", TENSORS)
    write_gguf(tmp_path / "mmproj-m.gguf", "clip", {"v.weight": ROWS})
    assert len(open_path(tmp_path).tensors) == 3


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    parts = split(tmp_path)
    parts[1].unlink()
    with pytest.raises(CorruptFile, match=r"one of 3 parts of a model, and m-00002-of-00003\.gguf is missing"):
        GGUFSource(parts[0])


def test_a_part_under_another_name_is_refused(tmp_path: Path) -> None:
    parts = split(tmp_path)
    (tmp_path / "alone.gguf").write_bytes(parts[0].read_bytes())
    with pytest.raises(CorruptFile, match=r"alone\.gguf: says that it is one of 3 parts.*make it one of 1"):
        GGUFSource(tmp_path / "alone.gguf")
    parts[1].write_bytes(parts[2].read_bytes())
    with pytest.raises(CorruptFile, match=r"00002-of-00003\.gguf: says that it is part 2 counted from 0, not 1"):
        GGUFSource(parts[0])


def test_a_tensor_in_two_parts_is_refused(tmp_path: Path) -> None:
    for number in range(2):
        writer = gguf.GGUFWriter(tmp_path / f"m-0000{number + 1}-of-00002.gguf", "llama")
        writer.add_uint16("split.no", number)
        writer.add_uint16("split.count", 2)
        writer.add_tensor("output.weight", ROWS)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    with pytest.raises(CorruptFile, match=r"'output\.weight' stands in another part of this model too"):
        GGUFSource(tmp_path / "m-00001-of-00002.gguf")


def test_parts_that_hold_fewer_tensors_than_they_say_are_refused(tmp_path: Path) -> None:
    parts = split(tmp_path)
    write_gguf(tmp_path / "n.gguf", "llama", dict(list(TENSORS.items())[:2]), split_max_tensors=1)
    short = bytearray(parts[0].read_bytes())
    at = short.index(b"split.tensors.count") + len(b"split.tensors.count") + 4
    short[at] = 9
    parts[0].write_bytes(short)
    with pytest.raises(CorruptFile, match=r"says that the parts hold 9 tensors, but they hold 3"):
        GGUFSource(parts[0])
