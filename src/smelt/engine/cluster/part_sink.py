"""Where a worker's merged numbers go if the output lies in a store: into parts of an upload that the driver has begun.

A unit is some neighbouring parts of one file, which are sent when they are full. Bytes that the unit's tensors have
outside of them belong to others. A part may be brought twice (by a worker that was thought dead, or was late): it has
the same bytes, so it does not matter who is first. A run of something else has uploads of its own, so that nobody can
bring a part to the wrong one. Of a first part the front is missing, which is the driver's: it lies beside the output
until then.
"""

from __future__ import annotations

import base64
import errno
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from smelt.engine.plan.plan import Item
from smelt.engine.sink.objects.buffers import PartBuffers
from smelt.engine.sink.objects.sink import SENDERS, room_for_parts
from smelt.engine.sink.objects.upload import OpenPart
from smelt.engine.sink.sink import Sink
from smelt.errors import OutputError
from smelt.files.hashing.blake3 import TreeHash, blake3_of_bytes
from smelt.files.object_store.place import object_place
from smelt.files.object_store.store import UploadGone, open_store
from smelt.formats.dtype import item_size

__all__ = ["PartSink"]


class PartSink(Sink):
    """The parts of one unit after another; from any number of threads, but `begin`, `finish`, `drop` and `close`."""

    def __init__(self, place: str, memory: int | str | None):
        self._store = open_store(object_place(place))
        self.memory = room_for_parts(memory)
        self._senders = ThreadPoolExecutor(SENDERS, "smelt-upload")
        self._unit: _Unit | None = None

    def begin(self, file: Mapping[str, Any]) -> None:
        """The parts that a unit brings, as the driver words them (part_units.py)."""
        self._unit = _Unit(file, PartBuffers(self.memory))

    def write(self, item: Item, start: int, values: memoryview) -> None:
        unit = self._unit
        assert unit is not None, "a unit has begun"
        view = values.cast("B")
        position = unit.where[item.key] + start * item_size(item.info.dtype)
        for number, first, end in unit.touched(position, position + len(view)):
            low, high = max(position, first), min(position + len(view), end)
            part = unit.open[number]
            if part.put(view[low - position : high - position], low - first, unit.buffers.new):
                assert part.buffer is not None
                unit.buffers.leaves(part.buffer)
                unit.full.add(number)
                unit.sent.append(self._senders.submit(self._send, unit, number, first))
        for sent in unit.sent:
            if sent.done():
                sent.result()  # raises what went wrong, so that nobody merges on for nothing

    def done(self, item: Item) -> None:
        """Parts know by themselves when they are full."""

    def finish(self) -> list[list[Any]]:
        """Number, size, ETag and share of the file's hash of each part; all have arrived."""
        assert self._unit is not None, "a unit has begun"
        brought = [sent.result() for sent in list(self._unit.sent)]
        missing = self._unit.open.keys() - {number for number, *_ in brought}
        assert not missing, f"the pieces of a unit fill its parts, but not {missing}"
        return brought

    def drop(self) -> None:
        """Forget the unit; what is being sent is waited for."""
        unit, self._unit = self._unit, None
        if unit is None:
            return
        for sent in unit.sent:
            if not sent.cancel():
                sent.exception()
        for number, part in unit.open.items():
            if part.buffer is not None:
                unit.buffers.give_back(part.taken(), left=number in unit.full)

    def close(self) -> None:
        self.drop()
        self._senders.shutdown(wait=True, cancel_futures=True)

    def _send(self, unit: _Unit, number: int, first: int) -> list[Any]:
        buffer = unit.open[number].taken()
        try:
            with memoryview(buffer) as content:
                if number == 1:
                    front = bytes(content)
                    self._store.put(unit.front, blake3_of_bytes(front).encode() + front)
                    return [1, len(front), "", ""]
                share = TreeHash(unit.size)
                share.add(first, content)
                packed = base64.b64encode(share.packed()).decode()
                part = self._store.put_part(unit.key, unit.upload, number, content)
                return [number, part.size, part.etag, packed]
        except UploadGone:
            raise
        except OutputError as error:  # another worker, or a later moment, may have better luck
            raise OSError(errno.EIO, str(error)) from error
        finally:
            unit.buffers.give_back(buffer)


class _Unit:
    """Parts of a file that are being filled or sent."""

    def __init__(self, file: Mapping[str, Any], buffers: PartBuffers):
        self.key, self.upload, self.front, self.size = file["key"], file["upload"], file["front"], file["size"]
        self.where: Mapping[str, int] = file["where"]
        self.buffers = buffers
        self.parts: Sequence[tuple[int, int, int]] = sorted(
            (first, end, number) for number, first, end in file["parts"]
        )
        self.open = {number: OpenPart(end - first) for first, end, number in self.parts}
        self.full: set[int] = set()
        self.sent: list[Future[list[Any]]] = []

    def touched(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """Number, first byte and end of the parts that these bytes lie in."""
        found = []
        for first, last, number in self.parts[max(0, bisect_right(self.parts, (start,)) - 1) :]:
            if first >= end:
                break
            if last > start:
                found.append((number, first, last))
        return found
