"""How one tensor is worked out of stored codes and scales: a `Coding` fills any run of it, from any thread.

`ScaledCodes` is nearly all of them: codes in rows, and a grid of scales of which each serves a block of codes. A new
kind of quantisation is, as a rule, a function that finds its tensors and describes them by this (scheme.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from smelt.errors import CorruptFile
from smelt.formats import dtype as dtypes
from smelt.formats.quantised.code_tables import NIBBLES
from smelt.formats.quantised.kernels import COLUMNS_AT_ONCE, CodeKind, Codes, dequantise, dequantise_turned
from smelt.formats.quantised.scales import Scales

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.formats.quantised.workspace import Workspace
    from smelt.formats.source import Source, TensorInfo

__all__ = ["Coding", "ScaledCodes"]

_SHOWN = {"e4m3": "float8 e4m3", "e5m2": "float8 e5m2", "e2m1": "float4 e2m1", "centred8": "int8"}


class Coding(Protocol):
    """How a tensor is stored."""

    @property
    def info(self) -> TensorInfo:
        """The tensor as it is offered."""

    @property
    def how(self) -> str:
        """The way in which it is stored, in a few words: `float8 e4m3, a scale for 128 by 128`."""

    @property
    def parts(self) -> Sequence[str]:
        """The stored tensors that it is worked out of, and which are not offered themselves."""

    def fill(self, stored: Source, start: int, out: NDArray[np.uint8], work: Workspace) -> None:
        """The numbers from `start` on, as bytes of the offered dtype. The same bits whatever run they are part of."""


@dataclass(frozen=True)
class ScaledCodes:
    """Matrices of codes, one after the other, each with a grid of scales."""

    info: TensorInfo
    codes: str
    kind: CodeKind
    rows: int
    """Of each matrix."""
    columns: int
    scales: Scales
    block: tuple[int, int]
    """Rows and columns that share a scale."""
    zeros: Scales | None = None
    order: str | None = None
    """The stored tensor that has the block of each column, where columns are not in order."""
    high_first: bool = False
    turned: bool = False
    """Whether each matrix is offered as [columns, rows]."""
    factor: float = 1.0
    """Goes over all of it, after the scales."""
    unused: tuple[str, ...] = ()
    """Stored tensors that belong to it and change no number: scales of activations, shapes."""
    format: str = ""
    """What it is called where that says more than the kind of its codes."""
    shared: str = ""
    """What shares a scale, where the block does not say it."""

    @property
    def how(self) -> str:
        order = ", columns in an order of their own" if self.order else ""
        return f"{self.format or _SHOWN.get(self.kind, self.kind)}, a scale for {self.shared or self._share()}{order}"

    @property
    def parts(self) -> Sequence[str]:
        zeros = self.zeros.parts if self.zeros is not None else ()
        return (self.codes, *self.scales.parts, *zeros, *([self.order] if self.order else []), *self.unused)

    def fill(self, stored: Source, start: int, out: NDArray[np.uint8], work: Workspace) -> None:
        size, whole = dtypes.item_size(self.info.dtype), self.rows * self.columns
        done, count = 0, len(out) // size
        while done < count:
            matrix, first = divmod(start + done, whole)
            length = min(whole - first, count - done)
            part = out[done * size : (done + length) * size]
            (self._fill_turned if self.turned else self._fill)(stored, matrix, first, length, part, work)
            done += length

    def _share(self) -> str:
        """What shares a scale, in words."""
        high, wide = self.block
        if wide < self.columns:
            return f"{wide}" if high == 1 else f"{high} by {wide}"
        return "each row" if high == 1 else "each tensor" if high >= self.rows else f"{high} rows"

    def _fill(
        self, stored: Source, matrix: int, start: int, count: int, out: NDArray[np.uint8], work: Workspace
    ) -> None:
        """From the rows of codes that cover the run."""
        first, last = start // self.columns, -(-(start + count) // self.columns)
        codes = self._rows(stored, matrix, first, last, work)
        dequantise(codes, start - first * self.columns, count, self.info.dtype, out)

    def _fill_turned(
        self, stored: Source, matrix: int, start: int, count: int, out: NDArray[np.uint8], work: Workspace
    ) -> None:
        """From all codes of a matrix, which are kept for a while: each row of the result needs some of every row."""
        codes = work.kept((self.codes, matrix), lambda: self._rows(stored, matrix, 0, self.rows, None))
        size = dtypes.item_size(self.info.dtype)
        first, last = start // self.rows, -(-(start + count) // self.rows)
        for at in range(first, last, COLUMNS_AT_ONCE):
            length = min(COLUMNS_AT_ONCE, last - at)
            begin, end = max(start, at * self.rows), min(start + count, (at + length) * self.rows)
            there = out[(begin - start) * size : (end - start) * size]
            if end - begin == length * self.rows:
                dequantise_turned(codes, at, length, self.info.dtype, there)
            else:
                whole = work.buffer("turned", length * self.rows * size)
                dequantise_turned(codes, at, length, self.info.dtype, whole)
                there[:] = whole[(begin - at * self.rows) * size :][: len(there)]

    def _rows(self, stored: Source, matrix: int, first: int, last: int, work: Workspace | None) -> Codes:
        """The rows [first, last) of a matrix; into a thread's own memory, or to be kept."""
        per_byte = 2 if self.kind in NIBBLES else 1
        begin, end = ((matrix * self.rows + row) * self.columns // per_byte for row in (first, last))
        raw = np.empty(end - begin, np.uint8) if work is None else work.buffer("codes", end - begin)
        there = stored.tensors[self.codes]
        stored.read_bytes(self.codes, begin // dtypes.item_size(there.dtype), raw[: there.nbytes - begin].data)
        high = self.block[0]
        blocks = first // high, -(-last // high)
        scales = self.scales.rows(stored, matrix, *blocks)
        return Codes(
            raw,
            self.kind,
            self.columns,
            scales,
            self.block,
            self.zeros.rows(stored, matrix, *blocks) if self.zeros is not None else None,
            self._group_of(stored, work, scales.shape[1]),
            self.high_first,
            first % high,
            self.factor,
        )

    def _group_of(self, stored: Source, work: Workspace | None, groups: int) -> NDArray[np.int32] | None:
        if self.order is None:
            return None
        name = self.order

        def read() -> NDArray[np.int32]:
            found = np.empty(self.columns, np.int32)
            stored.read_bytes(name, 0, found.view(np.uint8).data)
            wrong = found[(found < 0) | (found >= groups)]
            if len(wrong):
                raise CorruptFile(
                    f"{stored.label}: {name!r} names the group {wrong[0]} of {groups}; the file is damaged"
                )
            return found

        return read() if work is None else work.kept((name, 0), read)
