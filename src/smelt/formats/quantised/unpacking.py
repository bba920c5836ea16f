"""Packed codes as rows of codes: unpack.c where it is compiled, the same in numpy where it is not."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.system.process import native_library

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["codes_of", "in_awq_order", "library", "turned_awq", "turned_words"]

_PLACES = (0, 4, 1, 5, 2, 6, 3, 7)
"""Where in a word of AWQ's the code of each of its eight columns lies."""


@cache
def library() -> ctypes.CDLL | None:
    """The compiled functions, where they are there."""
    found = native_library(Path(__file__).parent, "_unpack")
    if found is not None:
        for function in (found.smelt_turn_words, found.smelt_turn_awq):
            function.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
            function.restype = None
    return found


def turned_words(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """A matrix turned."""
    native = library()
    if native is None:
        return np.array(words.T, order="C")  # a copy also where it would be a view
    out = np.empty(words.shape[::-1], np.uint32)
    native.smelt_turn_words(words.ctypes.data, *words.shape, out.ctypes.data)
    return out


def turned_awq(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """[in, out / 8] as AWQ packs it becomes [out, in / 8] with codes from the lowest bits up; `in` is some eights."""
    rows, columns = words.shape
    native = library()
    if native is None:
        codes = in_awq_order(codes_of(words, 4)).T
        return np.ascontiguousarray(codes[:, ::2] | codes[:, 1::2] << 4).view(np.uint32)
    out = np.empty((columns * 8, rows // 8), np.uint32)
    native.smelt_turn_awq(words.ctypes.data, rows, columns, out.ctypes.data)
    return out


def in_awq_order(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Codes of four bits as they follow each other in AWQ's words, in the order of their columns."""
    return codes.reshape(len(codes), -1, 8)[:, :, _PLACES].reshape(codes.shape)


def codes_of(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint8]:
    """Rows of words as rows of codes, a byte for each. They follow each other from the lowest bits of a word up."""
    raw = np.ascontiguousarray(words).view(np.uint8)
    if bits == 8:
        return raw
    if bits != 3:
        return np.take(_table(8, bits), raw).view(np.uint8).reshape(len(words), -1)
    # Three bytes are eight codes: two times twelve bits.
    first, second, third = raw.reshape(len(words), -1, 3).astype(np.uint16).transpose(2, 0, 1)
    pairs = np.stack([first | (second & 15) << 8, second >> 4 | third << 4], axis=-1)
    return np.take(_table(12, bits), pairs).view(np.uint8).reshape(len(words), -1)


@cache
def _table(width: int, bits: int) -> NDArray[Any]:
    """The codes in every number of so many bits, a byte for each, as one number: two codes or four."""
    shifts = np.arange(0, width, bits)
    codes = (np.arange(1 << width)[:, None] >> shifts & (1 << bits) - 1).astype(np.uint8)
    return codes.view(f"u{len(shifts)}")[:, 0]
