"""Scales (and zero points) of codes: read by rows of blocks, as float32.

They are stored as floats, as 8-bit floats, as powers of two (e8m0: a byte is the exponent plus 127), or as small whole
numbers packed into words. One number for the whole tensor may go over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from smelt.formats import dtype as dtypes
from smelt.formats.quantised.code_tables import BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.formats.quantised.settings import QuantisationSettings
    from smelt.formats.source import Source, TensorInfo

__all__ = ["NestedScales", "PackedZeros", "Scales", "StoredScales", "check_floats", "read_array", "read_whole_numbers"]


class Scales(Protocol):
    """A number for each block of codes."""

    @property
    def parts(self) -> Sequence[str]:
        """The stored tensors that they come from."""

    def rows(self, stored: Source, matrix: int, first: int, last: int) -> NDArray[np.float32]:
        """Those of the rows of blocks [first, last) of a matrix: [rows, columns]."""


@dataclass(frozen=True)
class StoredScales:
    """Scales that lie as they are used."""

    name: str
    grid: tuple[int, int]
    """Rows and columns of blocks in one matrix."""
    per_matrix: bool = True
    """Whether each matrix has its own; else all have the same."""
    exponents: bool = False
    """Bytes are exponents of two."""
    whole: str | None = None
    """A number for the whole tensor, or one for each matrix."""
    whole_is: Literal["factor", "divisor"] = "factor"

    @property
    def parts(self) -> Sequence[str]:
        return (self.name, *([self.whole] if self.whole else []))

    def rows(self, stored: Source, matrix: int, first: int, last: int) -> NDArray[np.float32]:
        rows, columns = self.grid
        begin = ((matrix * rows if self.per_matrix else 0) + first) * columns
        found = read_array(stored, self.name, begin, (last - first) * columns, exponents=self.exponents)
        if self.whole is not None:
            several = stored.tensors[self.whole].count > 1
            over = read_array(stored, self.whole, matrix if several else 0, 1)
            found = found * over if self.whole_is == "factor" else found / over
        found[np.isnan(found)] = np.nan  # all with the same bits
        return found.reshape(last - first, columns)


@dataclass(frozen=True)
class NestedScales:
    """Scales stored as codes, each a number of a table times the scale of a block of them, plus an offset."""

    name: str
    columns: int
    """In a row of blocks."""
    outer: str
    """The scale of each block of these codes."""
    table: str
    """256 numbers."""
    blocksize: int
    offset: float

    @property
    def parts(self) -> Sequence[str]:
        return (self.name, self.outer, self.table)

    def rows(self, stored: Source, matrix: int, first: int, last: int) -> NDArray[np.float32]:
        start, end = first * self.columns, last * self.columns
        codes = np.empty(end - start, np.uint8)
        stored.read_bytes(self.name, start, codes.data)
        begin = start // self.blocksize
        outer = read_array(stored, self.outer, begin, -(-end // self.blocksize) - begin)
        numbers = read_array(stored, self.table, 0, 256)[codes]
        over = np.repeat(outer, self.blocksize)[start - begin * self.blocksize :][: end - start]
        scales: NDArray[np.float32] = numbers * over + np.float32(self.offset)
        return scales.reshape(last - first, self.columns)


@dataclass(frozen=True)
class PackedZeros:
    """Zero points packed along the rows of blocks, from the lowest bits of a word up: [rows * bits / 32, columns]."""

    name: str
    grid: tuple[int, int]
    bits: int
    offset: int

    @property
    def parts(self) -> Sequence[str]:
        return (self.name,)

    def rows(self, stored: Source, matrix: int, first: int, last: int) -> NDArray[np.float32]:
        rows, columns = self.grid
        words = -(-rows * self.bits // 32)
        packed = np.empty(words * columns, np.uint32)
        stored.read_bytes(self.name, matrix * words * columns, packed.view(np.uint8).data)
        place = np.arange(first, last) * self.bits
        table = packed.reshape(words, columns).astype(np.uint64)
        both = table[place // 32] | table[np.minimum(place // 32 + 1, words - 1)] << np.uint64(32)
        codes = both >> (place % 32).astype(np.uint64)[:, None] & np.uint64((1 << self.bits) - 1)
        return codes.astype(np.float32) - np.float32(self.offset)


def read_array(stored: Source, name: str, start: int, count: int, *, exponents: bool = False) -> NDArray[np.float32]:
    """Elements of a stored tensor of numbers as float32."""
    code = stored.tensors[name].dtype
    raw = np.empty(count * dtypes.item_size(code), np.uint8)
    stored.read_bytes(name, start, raw.data)
    if exponents or code == "F8_E8M0":
        powers = np.ldexp(np.float32(1), raw.astype(np.int32) - 127).astype(np.float32)
        powers[raw == 255] = np.nan
        return powers
    if code in dtypes.NUMPY_FLOATS:
        return dtypes.to_float32(raw, code)
    if code in dtypes.FP8:
        return BYTES["e4m3" if code == "F8_E4M3" else "e5m2"][raw]
    return raw.view(_WHOLE[code]).astype(np.float32)


def read_whole_numbers(stored: Source, name: str) -> list[int]:
    """All of a small stored tensor of whole numbers."""
    info = stored.tensors[name]
    raw = np.empty(info.nbytes, np.uint8)
    stored.read_bytes(name, 0, raw.data)
    return [int(number) for number in raw.view(_WHOLE[info.dtype])]


def check_floats(name: str, info: TensorInfo, settings: QuantisationSettings) -> None:
    """Refuse scales that are no floats."""
    if info.dtype not in dtypes.FLOATS:
        raise settings.fault(f"{name!r} is {info.dtype}; scales are floating point numbers")


_WHOLE = {"I8": np.int8, "U8": np.uint8, "I16": np.int16, "I32": np.int32, "I64": np.int64, "F64": np.float64}
