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

_KINDS: dict[int, CodeKind] = {4: "uint4"}
"""Codes of other widths are bytes."""


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
        codes = work.kept(self.codes, lambda: self._turned(stored))
        dequantise(codes, start, len(out) // (self.info.nbytes // self.info.count), self.info.dtype, out)

    def _turned(self, stored: Source) -> Codes:
        words = self._words(stored, self.codes)
        turned = turned_awq(words) if self.interleaved else turned_words(words)
        if self.bits not in (4, 8):
            turned = codes_of(turned, self.bits)
        scales = read_array(stored, self.scales, 0, self.groups * self.info.shape[0])
        return Codes(
            turned.view(np.uint8).reshape(-1),
            _KINDS.get(self.bits, "uint8"),
            self.info.shape[1],
            np.ascontiguousarray(scales.reshape(self.groups, -1).T),
            (1, self.group),
            self._zeros(stored),
            self.group_of,
        )

    def _zeros(self, stored: Source) -> NDArray[np.float32]:
        """As many as scales; one that is stored as the highest code, because one was taken from 0, becomes 0 again."""
        codes = codes_of(self._words(stored, self.zeros), self.bits)
        if self.interleaved:
            codes = in_awq_order(codes)
        numbers = (codes[:, : self.info.shape[0]] + np.uint8(self.added)) & np.uint8((1 << self.bits) - 1)
        return np.ascontiguousarray(numbers.T.astype(np.float32))

    def _words(self, stored: Source, name: str) -> NDArray[np.uint32]:
        words = np.empty(stored.tensors[name].shape, np.uint32)
        stored.read_bytes(name, 0, words.reshape(-1).view(np.uint8).data)
        return words
