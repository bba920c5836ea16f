"""blocks.c against the gguf package: blocks of any bytes become the same numbers, to the last bit."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from smelt.formats.gguf import blocks
from smelt.formats.gguf.blocks import COMPILED, compiled_blocks, decode, knows
from smelt.formats.gguf.types import PLAIN, TYPES

NUMBERS = {kind.name: number for number, kind in TYPES.items()}


def random_blocks(name: str, count: int = 2000) -> np.ndarray:
    """Blocks of every possible scale: zeros, subnormal ones, infinities and what is no number among them."""
    return np.random.default_rng(0).integers(0, 256, (count, TYPES[NUMBERS[name]].nbytes), dtype=np.uint8)


def same_bits(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Whatever is no number is one in both; its bits mean nothing."""
    odd = np.isnan(theirs)
    return bool(np.array_equal(np.isnan(ours), odd)) and bool(
        np.array_equal(ours[~odd].view(np.uint32), theirs[~odd].view(np.uint32))
    )


@pytest.mark.skipif(compiled_blocks() is None, reason="blocks.c is not compiled")
@pytest.mark.parametrize("name", sorted(COMPILED))
@pytest.mark.parametrize("widest", [0, 8, 4])
def test_random_blocks_have_the_bits_of_the_gguf_package(name: str, widest: int) -> None:
    """With the widest vectors of this machine, with those of most machines, and with those of every machine."""
    raw, kind = random_blocks(name), TYPES[NUMBERS[name]]
    with np.errstate(all="ignore"):
        theirs = gguf.dequantize(raw, gguf.GGMLQuantizationType[name]).reshape(-1)
    ours = np.empty(len(raw) * kind.block, np.float32)
    library = compiled_blocks()
    assert library is not None
    assert library.smelt_gguf_blocks(NUMBERS[name], raw.ctypes.data, len(raw), ours.ctypes.data, widest) == 0
    assert same_bits(ours, theirs)


@pytest.mark.parametrize("name", ["Q4_0", "Q6_K", "TQ1_0", "IQ2_XXS"])
def test_without_the_compiled_part_the_package_does_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "compiled_blocks", lambda: None)
    raw = random_blocks(name, 50)
    with np.errstate(all="ignore"):
        theirs = gguf.dequantize(raw, gguf.GGMLQuantizationType[name]).reshape(-1)
    ours = np.empty(theirs.shape, np.float32)
    decode(NUMBERS[name], raw.reshape(-1), ours)
    assert same_bits(ours, theirs)


@pytest.mark.skipif(compiled_blocks() is None, reason="blocks.c is not compiled")
def test_the_library_says_that_it_does_not_know_a_type_and_writes_nothing() -> None:
    raw, out = np.zeros(64, np.uint8), np.ones(32, np.float32)
    library = compiled_blocks()
    assert library is not None
    assert library.smelt_gguf_blocks(NUMBERS["TQ1_0"], raw.ctypes.data, 1, out.ctypes.data, 0) == 1
    assert out.tolist() == [1] * 32


def test_every_quantised_type_that_the_package_can_undo_is_known() -> None:
    for number, kind in TYPES.items():
        if kind.name in PLAIN:
            continue
        try:
            gguf.dequantize(np.zeros((1, kind.nbytes), np.uint8), gguf.GGMLQuantizationType(number))
        except (NotImplementedError, ValueError):
            assert not knows(number)
        else:
            assert knows(number)
