"""A matrix whose codes are packed as [in, out], with scales and zero points [groups, out]: it is offered as [out, in].

All its codes are turned when the first of them is asked for, and kept for a while (`Workspace`): four bits each, or a
byte for each of two or three bits. Numbers are made of them row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smelt.formats.quantised.kernels import CodeKind, Codes, dequantise
from smelt.formats.quantised.scales import read_array
from smelt.formats.quantised.unpacking import codes_of, in_awq_order, turned_awq, turned_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.formats.quantised.workspace import Workspace
    from smelt.formats.source import Source, TensorInfo

__all__ = ["PackedColumns"]

_KINDS: dict[int, CodeKind] = {4: "int4"}
"""Codes of other widths are bytes, and whole numbers from 0 on."""
_TAKEN = {4: 8}
"""What a kind takes from its codes, and from zero points as well."""


@dataclass(frozen=True, eq=False)
class PackedColumns:
    """One matrix."""

    info: TensorInfo
    codes: str
    zeros: str
    scales: str
    bits: int
    group: int
    """Consecutive inputs that share a scale."""
    groups: int
    format: str
    """What it is called."""
    added: int = 0
    """To stored zero points."""
    interleaved: bool = False
    """Whether words go along the outputs, in AWQ's order; else along the inputs, which have words of their own."""
    group_of: NDArray[np.int32] | None = None
    """The group of each input, where they are in an order of their own."""
    unused: tuple[str, ...] = ()

    @property
    def how(self) -> str:
        shared = f"{self.group}" if self.groups > 1 else "each row"
        order = ", columns in an order of their own" if self.group_of is not None else ""
        return f"{self.format}, {self.bits} bits, a scale for {shared}{order}"

    @property
    def parts(self) -> Sequence[str]:
        return (self.codes, self.zeros, self.scales, *self.unused)

    def fill(self, stored: Source, start: int, out: NDArray[np.uint8], work: Workspace) -> None:
        codes = work.kept(self.codes, lambda: self._turned(stored, work))
        dequantise(codes, start, len(out) // (self.info.nbytes // self.info.count), self.info.dtype, out)

    def _turned(self, stored: Source, work: Workspace) -> Codes:
        words = self._words(stored, self.codes, work)
        turned = turned_awq(words) if self.interleaved else turned_words(words)
        codes = turned.view(np.uint8) if self.bits in (4, 8) else codes_of(turned, self.bits)
        scales = read_array(stored, self.scales, 0, self.groups * self.info.shape[0])
        return Codes(
            codes.reshape(-1),
            _KINDS.get(self.bits, "uint8"),
            self.info.shape[1],
            _turned_floats(scales.reshape(self.groups, -1)),
            (1, self.group),
            self._zeros(stored, work),
            self.group_of,
        )

    def _zeros(self, stored: Source, work: Workspace) -> NDArray[np.float32] | None:
        """As many as scales; one that is stored as the highest code, because one was taken from 0, becomes 0 again.

        None where there is nothing to subtract: symmetric codes have half of their range as their zero point.
        """
        codes = codes_of(self._words(stored, self.zeros, work), self.bits)
        if self.interleaved:
            codes = in_awq_order(codes)
        zeros = (codes[:, : self.info.shape[0]] + np.uint8(self.added)) & np.uint8((1 << self.bits) - 1)
        numbers = zeros.astype(np.float32) - np.float32(_TAKEN.get(self.bits, 0))
        return _turned_floats(numbers) if numbers.any() else None

    def _words(self, stored: Source, name: str, work: Workspace) -> NDArray[np.uint32]:
        """A stored matrix, in memory that the thread uses again."""
        info = stored.tensors[name]
        raw = work.buffer("words", info.nbytes)
        stored.read_bytes(name, 0, raw.data)
        return raw.view(np.uint32).reshape(info.shape)


def _turned_floats(numbers: NDArray[np.float32]) -> NDArray[np.float32]:
    return turned_words(np.ascontiguousarray(numbers).view(np.uint32)).view(np.float32)
