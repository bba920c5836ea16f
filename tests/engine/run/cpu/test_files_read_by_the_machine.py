"""Files that the machine reads by itself: bytes as `read_bytes` gives them, and its words when they are gone."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from smelt.engine.run.cpu.machine import ProgramRun, library
from smelt.engine.run.cpu.program import Program
from smelt.errors import CorruptFile
from smelt.formats.open import open_path

pytestmark = pytest.mark.skipif(library() is None, reason="the vector machine was not compiled")


def written(folder: Path, count: int) -> Path:
    save_file({"a": torch.full((3,), 7.0), "w": torch.arange(count, dtype=torch.float32)}, folder / "model.safetensors")
    return folder / "model.safetensors"


def test_a_tensor_is_where_the_source_says(tmp_path: Path) -> None:
    source = open_path(written(tmp_path, 5))
    found = source.stored_at("w")
    assert found is not None
    assert np.frombuffer(os.pread(found[0], 20, found[1]), np.float32).tolist() == [0, 1, 2, 3, 4]
    source.close()


def test_pieces_of_a_file_are_run_one_after_the_other(tmp_path: Path) -> None:
    """2,500 numbers in pieces of 1,024: the last one is short. All are doubled."""
    source = open_path(written(tmp_path, 2500))
    found = source.stored_at("w")
    assert found is not None
    program = Program()
    program.store(program.scale(program.load(0), 2.0))
    out = np.zeros(2500, np.float32)
    room = np.zeros(4 * 1024, np.uint8)
    assert ProgramRun(program, ["F32"], "F32").feed_files([found], [room], 1024, 2500, out.view(np.uint8)) == 0
    assert out.tolist() == [2.0 * number for number in range(2500)]
    source.close()


def test_what_ends_too_early_is_not_run(tmp_path: Path) -> None:
    source = open_path(written(tmp_path, 2500))
    found = source.stored_at("w")
    assert found is not None
    os.truncate(tmp_path / "model.safetensors", found[1] + 4 * 2000)
    program = Program()
    program.coarse(program.load(0))
    room = np.zeros(4 * 1024, np.uint8)
    assert ProgramRun(program, ["F32"]).feed_files([found], [room], 1024, 2500) == 3
    with pytest.raises(CorruptFile, match="ended while 'w' was being read"):
        source.read_bytes("w", 0, memoryview(bytearray(4 * 2500)))
    source.close()
