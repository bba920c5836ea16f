"""Files that the machine reads and writes by itself: the bytes that Python would, and its words when it cannot."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from blake3 import blake3
from numpy.typing import NDArray
from safetensors.torch import save_file

from smelt.engine.run.cpu.machine import ProgramRun, library
from smelt.engine.run.cpu.program import Program
from smelt.errors import CorruptFile
from smelt.files.hashing.blake3 import TreeHash, compiled_blake3
from smelt.files.positioned import FilePlace
from smelt.formats.open import open_path
from smelt.formats.source import Source

pytestmark = pytest.mark.skipif(library() is None, reason="the vector machine was not compiled")


def written(folder: Path, count: int) -> Path:
    save_file({"a": torch.full((3,), 7.0), "w": torch.arange(count, dtype=torch.float32)}, folder / "model.safetensors")
    return folder / "model.safetensors"


def place(source: Source, tree: int = 0) -> FilePlace:
    """Where the tensor `w` of a source begins."""
    found = source.stored_at("w")
    assert found is not None
    return FilePlace(*found, tree)


def test_a_tensor_is_where_the_source_says(tmp_path: Path) -> None:
    source = open_path(written(tmp_path, 5))
    found = place(source)
    assert np.frombuffer(os.pread(found.descriptor, 20, found.position), np.float32).tolist() == [0, 1, 2, 3, 4]
    source.close()


def test_pieces_of_a_file_are_run_one_after_the_other(tmp_path: Path) -> None:
    """2,500 numbers in pieces of 1,024: the last one is short. All are doubled."""
    source = open_path(written(tmp_path, 2500))
    found = place(source)
    program = Program()
    program.store(program.scale(program.load(0), 2.0))
    out = np.zeros(2500, np.float32)
    room = np.zeros(4 * 1024, np.uint8)
    assert ProgramRun(program, ["F32"], "F32").feed_files([found], [room], 1024, 2500, out.view(np.uint8)) == 0
    assert out.tolist() == [2.0 * number for number in range(2500)]
    source.close()


def test_what_ends_too_early_is_not_run(tmp_path: Path) -> None:
    source = open_path(written(tmp_path, 2500))
    found = place(source)
    os.truncate(tmp_path / "model.safetensors", found.position + 4 * 2000)
    program = Program()
    program.coarse(program.load(0))
    room = np.zeros(4 * 1024, np.uint8)
    assert ProgramRun(program, ["F32"]).feed_files([found], [room], 1024, 2500) == 3
    with pytest.raises(CorruptFile, match="ended while 'w' was being read"):
        source.read_bytes("w", 0, memoryview(bytearray(4 * 2500)))
    source.close()


def doubled() -> ProgramRun:
    program = Program()
    program.store(program.scale(program.load(0), 2.0))
    return ProgramRun(program, ["F32"], "F32")


def rooms() -> tuple[list[NDArray[np.uint8]], NDArray[np.uint8]]:
    """For a piece of 1,024 numbers that is read, and for one that is written."""
    return [np.zeros(4 * 1024, np.uint8)], np.zeros(4 * 1024, np.uint8)


def test_results_are_written_by_the_machine_where_they_belong(tmp_path: Path) -> None:
    """2,500 numbers, doubled, behind seven bytes of another kind; `out` has room for a piece of 1,024 alone."""
    source = open_path(written(tmp_path, 2500))
    (tmp_path / "to").write_bytes(b"seven: ")
    with open(tmp_path / "to", "r+b") as to:
        buffers, out = rooms()
        assert doubled().feed_files([place(source)], buffers, 1024, 2500, out, FilePlace(to.fileno(), 7)) == 0
    made = (tmp_path / "to").read_bytes()
    assert made[:7] == b"seven: "
    assert np.frombuffer(made[7:], np.float32).tolist() == [2.0 * number for number in range(2500)]
    source.close()


@pytest.mark.skipif(compiled_blake3() is None, reason="BLAKE3 was not compiled")
def test_what_the_machine_reads_and_writes_is_hashed_there(tmp_path: Path) -> None:
    """Nobody reads it again: the files are taken away before their digests are asked for."""
    weights = written(tmp_path, 2500)
    source, whole = open_path(weights), weights.read_bytes()
    read, made = TreeHash(len(whole)), TreeHash(10_000)
    assert read.address is not None
    assert made.address is not None
    with open(tmp_path / "to", "w+b") as to:
        buffers, out = rooms()
        place_to = FilePlace(to.fileno(), 0, made.address)
        assert doubled().feed_files([place(source, read.address)], buffers, 1024, 2500, out, place_to) == 0
    assert list(read.gaps()) == [(0, len(whole) - 10_000)], "the header, and a tensor that was not asked for"
    read.add(0, whole[:-10_000])
    digest = blake3((tmp_path / "to").read_bytes()).hexdigest()
    (tmp_path / "to").write_bytes(b"")
    weights.write_bytes(b"")
    assert read.finish(weights) == blake3(whole).hexdigest()
    assert made.finish(tmp_path / "to") == digest
    source.close()


def test_a_file_that_cannot_be_written_is_an_error_of_the_system(tmp_path: Path) -> None:
    source = open_path(written(tmp_path, 2500))
    (tmp_path / "to").write_bytes(b"kept")
    buffers, out = rooms()
    with open(tmp_path / "to", "rb") as to:
        where = FilePlace(to.fileno(), 0)
        with pytest.raises(OSError, match=os.strerror(errno.EBADF)) as caught:
            doubled().feed_files([place(source)], buffers, 1024, 2500, out, where)
    assert caught.value.errno == errno.EBADF
    assert (tmp_path / "to").read_bytes() == b"kept"
    source.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_disk_is_told_by_its_number(tmp_path: Path) -> None:
    source = open_path(written(tmp_path, 2500))
    buffers, out = rooms()
    with open("/dev/full", "wb") as to:
        where = FilePlace(to.fileno(), 0)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as caught:
            doubled().feed_files([place(source)], buffers, 1024, 2500, out, where)
    assert caught.value.errno == errno.ENOSPC
    source.close()


def test_an_input_that_ends_is_told_before_what_would_have_been_written(tmp_path: Path) -> None:
    """2,000 of 2,500 numbers are there: one piece of 1,024 is written, the second is not."""
    source = open_path(written(tmp_path, 2500))
    os.truncate(tmp_path / "model.safetensors", place(source).position + 4 * 2000)
    with open(tmp_path / "to", "w+b") as to:
        buffers, out = rooms()
        assert doubled().feed_files([place(source)], buffers, 1024, 2500, out, FilePlace(to.fileno(), 0)) == 3
    assert (tmp_path / "to").stat().st_size == 4 * 1024
    source.close()
