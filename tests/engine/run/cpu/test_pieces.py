"""Samples: pieces at equal distances, read by the machine as by the source."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from smelt.engine.run.cpu.machine import SamplePieces
from smelt.errors import CorruptFile
from smelt.formats.open import open_path
from smelt.formats.source import MemorySource


def test_a_hundredth_of_a_block_in_pieces_of_four() -> None:
    """2,600 elements: six pieces of four at distances of 400, and two of the 200 that are left."""
    pieces = SamplePieces.of(0, 2600, 0.01, 4)
    assert (pieces.stride, pieces.length, pieces.many, pieces.last) == (400, 4, 6, 2)
    assert pieces.count == 26


def test_small_tensors_show_their_share_together() -> None:
    """Of a hundred tensors of 16 elements one in ten is wanted: 160, and none shows more than two of its own."""
    counts = [SamplePieces.of(0, 16, 0.1, 256, order).count for order in range(100)]
    assert abs(sum(counts) - 160) <= 2
    assert set(counts) == {1, 2}
    assert sum(SamplePieces.of(0, 2, 0.01, 256, order).count for order in range(1000)) in range(18, 23)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_files_and_memory_show_the_same(tmp_path: Path, dtype: torch.dtype) -> None:
    state = {"a": torch.ones(3, dtype=dtype), "w": torch.arange(130).to(dtype)}
    save_file(state, tmp_path / "model.safetensors")
    source, size = open_path(tmp_path / "model.safetensors"), state["w"].element_size()
    pieces = SamplePieces(5, 40, 3, 3, 2)
    for one in (source, MemorySource("state dict", state)):
        out = np.zeros(pieces.count * size, np.uint8)
        pieces.read(one, "w", out)
        found = torch.from_numpy(out).view(dtype).tolist()
        assert found == [5, 6, 7, 45, 46, 47, 85, 86, 87, 125, 126]
    source.close()


def test_a_file_that_ends_too_early_is_told_of(tmp_path: Path) -> None:
    save_file({"w": torch.arange(100, dtype=torch.float32)}, tmp_path / "model.safetensors")
    source = open_path(tmp_path / "model.safetensors")
    os.truncate(tmp_path / "model.safetensors", (tmp_path / "model.safetensors").stat().st_size - 4 * 30)
    with pytest.raises(CorruptFile, match="ended while 'w' was being read"):
        SamplePieces(0, 40, 3, 2, 3).read(source, "w", np.zeros(9 * 4, np.uint8))
    source.close()
