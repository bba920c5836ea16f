"""Codes and scales in, numbers out: dequantise.c where it is compiled, the same in numpy where it is not.

Both give the same bits. A number is `(code - zero) * scale * factor` in float32, rounded once to what is offered.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from smelt.formats import dtype as dtypes
from smelt.formats.quantised.code_tables import BYTES, NIBBLES
from smelt.system.process import native_library

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["COLUMNS_AT_ONCE", "CodeKind", "Codes", "dequantise", "dequantise_turned", "library"]

CodeKind: TypeAlias = Literal["int8", "uint8", "centred8", "e4m3", "e5m2", "int4", "uint4", "e2m1", "nf4", "fp4"]
"""What a code stands for; those of four bits lie two in a byte."""
_FORMATS = {"BF16": 0, "F16": 1, "F32": 2}
_KINDS = {"int8": 0, "uint8": 1, "e4m3": 2, "e5m2": 3, "centred8": 4}
_PAIRS, _LOW_FIRST = 5, {"int4": 6, "e2m1": 7}
"""Codes of four bits: by a table, or by arithmetic where the lower half of a byte comes first."""
COLUMNS_AT_ONCE = 64
"""At most so many columns are turned in one call."""


@dataclass(frozen=True)
class Codes:
    """Whole rows of codes with the scales that belong to them."""

    codes: NDArray[np.uint8]
    """[rows * columns], or half as many bytes."""
    kind: CodeKind
    columns: int
    scales: NDArray[np.float32]
    """[rows of blocks, blocks in a row]; the first row of blocks holds the first given row of codes."""
    block: tuple[int, int]
    """Rows and columns that share a scale."""
    zeros: NDArray[np.float32] | None = None
    """Subtracted from codes; as many as scales."""
    group_of: NDArray[np.int32] | None = None
    """The block of each column, where columns are not in the order of the blocks."""
    high_first: bool = False
    """Whether the first of two codes in a byte is its upper half."""
    first_row: int = 0
    """Of the first given row within its block."""
    factor: float = 1.0
    """Goes over all of them, after the scales."""

    @property
    def rows(self) -> int:
        per_byte = 2 if self.kind in NIBBLES else 1
        return self.codes.size * per_byte // self.columns


class _Arguments(ctypes.Structure):
    """`Codes` in dequantise.c."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("codes", "pairs", "scales", "zeros", "group_of")),
        *((name, ctypes.c_int64) for name in ("cols", "scale_cols", "block_rows", "block_cols", "first_row")),
        ("kind", ctypes.c_int32),
        ("format", ctypes.c_int32),
        ("factor", ctypes.c_float),
    ]


@cache
def library() -> ctypes.CDLL | None:
    """The compiled functions, where they are there."""
    found = native_library(Path(__file__).parent, "_dequantise")
    if found is not None:
        number, pointer = ctypes.c_int64, ctypes.c_void_p
        found.smelt_dequantise.argtypes = [pointer, number, number, pointer]
        found.smelt_dequantise_turned.argtypes = [pointer, number, number, number, pointer]
        found.smelt_dequantise.restype = found.smelt_dequantise_turned.restype = None
    return found


def dequantise(codes: Codes, start: int, count: int, dtype: str, out: NDArray[np.uint8]) -> None:
    """The numbers [start, start + count), counted from the first given row on, as bytes of `dtype`."""
    native = library()
    if native is not None:
        native.smelt_dequantise(ctypes.byref(_arguments(codes, dtype)), start, count, out.ctypes.data)
        return
    first, last = start // codes.columns, -(-(start + count) // codes.columns)
    numbers = _numbers(codes, first, last).reshape(-1)[start - first * codes.columns :][:count]
    out[:] = _rounded(numbers, dtype)


def dequantise_turned(codes: Codes, first: int, count: int, dtype: str, out: NDArray[np.uint8]) -> None:
    """The columns [first, first + count) of all given rows, as bytes of a matrix [columns, rows]."""
    native = library()
    if native is None:
        out[:] = _rounded(_numbers(codes, 0, codes.rows)[:, first : first + count].T.reshape(-1), dtype)
        return
    given, width = ctypes.byref(_arguments(codes, dtype)), codes.rows * dtypes.item_size(dtype)
    for done in range(0, count, COLUMNS_AT_ONCE):
        length = min(COLUMNS_AT_ONCE, count - done)
        native.smelt_dequantise_turned(given, codes.rows, first + done, length, out.ctypes.data + done * width)


def _arguments(codes: Codes, dtype: str) -> _Arguments:
    """Addresses; the arrays live as long as `codes`."""

    def address(array: NDArray[np.float32] | NDArray[np.int32] | NDArray[np.uint8] | None) -> int | None:
        return None if array is None else array.ctypes.data

    pairs = _pairs(codes.kind, codes.high_first) if codes.kind in NIBBLES else None
    return _Arguments(
        address(codes.codes), address(pairs), address(codes.scales), address(codes.zeros), address(codes.group_of),
        codes.columns, codes.scales.shape[1], *codes.block, codes.first_row,
        _kind(codes), _FORMATS[dtype], codes.factor,
    )  # fmt: skip


def _kind(codes: Codes) -> int:
    if codes.kind in _KINDS:
        return _KINDS[codes.kind]
    return _PAIRS if codes.high_first else _LOW_FIRST.get(codes.kind, _PAIRS)


@cache
def _pairs(kind: CodeKind, high_first: bool) -> NDArray[np.float32]:
    """The two numbers of each byte of nibbles: [256, 2]."""
    low, high = np.arange(256) & 15, np.arange(256) >> 4
    order = (high, low) if high_first else (low, high)
    return np.ascontiguousarray(np.stack([NIBBLES[kind][half] for half in order], axis=1))


def _numbers(codes: Codes, first: int, last: int) -> NDArray[np.float32]:
    """The rows [first, last) in float32, scaled."""
    rows, columns = last - first, codes.columns
    if codes.kind in NIBBLES:
        begin, end = first * columns, last * columns
        pairs = _pairs(codes.kind, codes.high_first)[codes.codes[begin // 2 : -(-end // 2)]].reshape(-1)
        found = pairs[begin % 2 :][: end - begin].reshape(rows, columns)
    else:
        found = BYTES[codes.kind][codes.codes[first * columns : last * columns]].reshape(rows, columns)
    places = (np.arange(first, last) + codes.first_row) // codes.block[0]
    group_of = codes.group_of if codes.group_of is not None else np.arange(columns) // codes.block[1]
    if codes.zeros is not None:
        found = found - codes.zeros[places[:, None], group_of]
    scaled: NDArray[np.float32] = found * codes.scales[places[:, None], group_of] * np.float32(codes.factor)
    return scaled


def _rounded(numbers: NDArray[np.float32], dtype: str) -> NDArray[np.uint8]:
    """Numbers as bytes of a format, to the nearest, to the even one of two."""
    if dtype == "F32":
        return np.ascontiguousarray(numbers).view(np.uint8)
    if dtype == "F16":
        with np.errstate(over="ignore"):
            return numbers.astype(np.float16).view(np.uint8)
    bits = np.ascontiguousarray(numbers).view(np.uint32)
    up = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(numbers), bits >> 16 | 0x40, up).astype(np.uint16).view(np.uint8)
