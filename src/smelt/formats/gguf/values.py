"""The numbers of a GGUF model's stored tensors: runs, rows in any order, and columns of matrices.

Whatever is asked for, the blocks that cover it are read and decoded, and no more than some 100,000 numbers at a time. A
plain type keeps its numbers as they are; a quantised one gives float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.formats.gguf.blocks import decode
from smelt.formats.gguf.parts import GGUFParts
from smelt.formats.gguf.types import PLAIN, TYPES, GGUFType

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["StoredValues", "offered", "storage"]

_PIECE = 1 << 17
"""Numbers that are decoded at once: their blocks stay in the second cache."""
_NUMPY = {"F64": "f8", "F32": "f4", "F16": "f2", "BF16": "u2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1"}


def offered(kind: GGUFType) -> str:
    """The number format in which a type is read: its own, or F32, which holds integers times scales exactly."""
    return kind.name if kind.name in PLAIN else "F32"


def storage(dtype: str) -> np.dtype[Any]:
    """How numpy holds numbers of such a format; bfloat16, which it does not know, as 16 bits."""
    return np.dtype(_NUMPY[dtype])


class StoredValues:
    """Reads from the open files of a model. For any number of threads."""

    def __init__(self, parts: GGUFParts):
        self._parts = parts

    def kind(self, name: str) -> GGUFType:
        return TYPES[self._parts.tensors[name].type]

    def shape(self, name: str) -> tuple[int, ...]:
        return self._parts.tensors[name].shape

    def run(self, name: str, start: int, out: NDArray[Any]) -> None:
        """Fill `out` with the elements from `start` on."""
        kind = self.kind(name)
        if kind.block == 1:
            self._parts.fill(name, start * kind.nbytes, out.view(np.uint8).data)
            return
        done = 0
        while done < len(out):
            skip = (start + done) % kind.block
            count = min(len(out) - done, _PIECE - skip)
            first, last = (start + done) // kind.block, -(-(start + done + count) // kind.block)
            raw = np.empty((last - first) * kind.nbytes, np.uint8)
            self._parts.fill(name, first * kind.nbytes, raw.data)
            self._decode(name, raw, skip, out[done : done + count])
            done += count

    def rows(self, name: str, rows: NDArray[np.int64], width: int) -> NDArray[Any]:
        """Rows in the given order, one after the other. What lies between the first and the last of them is read."""
        kind, first = self.kind(name), int(rows.min())
        size = width // kind.block * kind.nbytes
        raw = np.empty((int(rows.max()) + 1 - first, size), np.uint8)
        self._parts.fill(name, first * size, raw.reshape(-1).data)
        return self._decoded(name, raw[rows - first].reshape(-1))

    def columns(self, name: str, number: int, first: int, last: int) -> NDArray[Any]:
        """Columns [rows, last - first] of one matrix of a stack. All of that matrix is read, and these are decoded."""
        kind, (rows, width) = self.kind(name), self.shape(name)[-2:]
        raw = np.empty((rows, width // kind.block, kind.nbytes), np.uint8)
        self._parts.fill(name, number * raw.nbytes, raw.reshape(-1).data)
        begin, end = first // kind.block, -(-last // kind.block)
        values = self._decoded(name, np.ascontiguousarray(raw[:, begin:end]).reshape(-1)).reshape(rows, -1)
        return values[:, first - begin * kind.block : last - begin * kind.block]

    def some(self, name: str, start: int, count: int) -> NDArray[Any]:
        """The elements from `start` on."""
        out = np.empty(count, storage(offered(self.kind(name))))
        self.run(name, start, out)
        return out

    def _decoded(self, name: str, raw: NDArray[np.uint8]) -> NDArray[Any]:
        kind = self.kind(name)
        out = np.empty(len(raw) // kind.nbytes * kind.block, storage(offered(kind)))
        if kind.block == 1:
            return raw.view(out.dtype)
        self._decode(name, raw, 0, out)
        return out

    def _decode(self, name: str, raw: NDArray[np.uint8], skip: int, out: NDArray[np.float32]) -> None:
        """Blocks into `out`, without the first `skip` numbers and those after its end."""
        type_, kind = self._parts.tensors[name].type, self.kind(name)
        whole = len(raw) // kind.nbytes * kind.block
        if skip == 0 and whole == len(out) and out.flags.c_contiguous:
            decode(type_, raw, out)
            return
        room = np.empty(whole, np.float32)
        decode(type_, raw, room)
        out[:] = room[skip : skip + len(out)]
