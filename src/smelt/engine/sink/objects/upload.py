"""One file of an output on its way into a store: its parts, and what is hashed of them.

When a part has arrived, a note beside the output keeps its ETag and its share of the file's BLAKE3. A run that goes on
takes the parts that the store lists and that have a note of the same ETag; all others are made again.
"""

from __future__ import annotations

import base64
import hashlib
import json
import mmap
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from smelt.engine.plan.plan import Item
from smelt.engine.sink.objects.buffers import PartBuffers
from smelt.engine.sink.parts import FIRST_BYTES, PART_BYTES, cut_into_parts
from smelt.engine.sink.shards import Shard
from smelt.errors import CorruptFile, OutputError
from smelt.files.hashing.blake3 import DIGITS, TreeHash, blake3_of_bytes
from smelt.files.object_store.store import Part, UploadGone, content_of
from smelt.files.reading import parse_json
from smelt.formats import dtype as dtypes

if TYPE_CHECKING:
    from smelt.engine.sink.objects.output import ObjectOutput

__all__ = ["FileUpload", "OpenPart", "places_to_cut"]


class FileUpload:
    """One weights file. For any number of threads, but `expect`, `look_for_parts`, `complete` and `close`."""

    def __init__(
        self,
        output: ObjectOutput,
        shard: Shard,
        metadata: Mapping[str, str],
        buffers: PartBuffers,
        full: Callable[[FileUpload, int], None],
        uploads: Sequence[str] | None = None,
    ):
        """`uploads` are those of an earlier run; `full` is told of each part whose bytes are all there."""
        self.name = shard.name
        self._output, self._store, self._shard = output, output.store, shard
        self._key = output.place.inside(shard.name)
        head, self._offsets = shard.header(metadata)
        self._head_size = len(head)
        self.size = self._head_size + sum(info.nbytes for info in shard.tensors.values())
        cuts = places_to_cut([(self._offsets[key], info.nbytes) for key, info in shard.tensors.items()])
        self.parts = cut_into_parts(self.size, cuts, first=FIRST_BYTES, least=LEAST)
        self._ends = [end for _, end in self.parts]
        self._open = {number: OpenPart(end - start) for number, (start, end) in enumerate(self.parts, 1)}
        self._arrived: dict[int, Part] = {}
        self._starts: dict[str, int] = {}
        self._tree = TreeHash(self.size)
        self._buffers, self._full = buffers, full
        self._lock = Lock()
        self._uploads = list(uploads or ())
        self._upload: str | None = None
        self._has_front = self._by_others = self._is_ending = False

    def expect(self, item: Item, stored: str, first: int) -> None:
        """A merged tensor that this file holds: all of a stored one, or of its elements those from `first` on."""
        self._starts[item.key] = self._offsets[stored] + first * dtypes.item_size(item.info.dtype)

    def start(self, key: str) -> int:
        """Where a merged tensor begins in the file."""
        return self._starts[key]

    def is_in_first_part(self, key: str) -> bool:
        """Whether some of a merged tensor lies in the part that is sent last."""
        return self._starts[key] < self.parts[0][1]

    def has(self, key: str, size: int) -> bool:
        """Whether all of a merged tensor has arrived in an earlier run; one with no numbers comes with the header."""
        start = self._starts[key]
        missing = self._open.keys() - {1} if self._has_front else self._open.keys()
        return bool(size) and not any(number in missing for number in self._numbers(start, start + size))

    def look_for_parts(self) -> None:
        """Take what an earlier run has brought here; several uploads of one file are none that can be gone on with."""
        if not self._uploads:
            about = self._store.head(self._key) if self.name in self._output.published else None
            if about is not None and about.size == self.size:  # it was completed when the run was killed
                self._open.clear()
            return
        self._upload, *others = sorted(self._uploads)
        for other in others:
            self._store.abort(self._key, other)
        for number, part in self._store.list_parts(self._key, self._upload).items():
            packed = self._noted(part)
            if number in self._open and packed is not None and part.size == self._open[number].size:
                self._arrived[number] = part
                self._tree.join(packed)
                del self._open[number]
        front = self._store.head(self.front_key()) if 1 in self._open else None
        self._has_front = front is not None and front.size == DIGITS + self._front_size

    def to_bring(self) -> list[tuple[int, int, int]]:
        """Number, first byte and end of each part that is missing; of the first one only what is behind the header."""
        rest = [(number, *self.parts[number - 1]) for number in sorted(self._open) if number > 1]
        if 1 in self._open and self._front_size and not self._has_front:
            rest.insert(0, (1, self._head_size, self.parts[0][1]))
        return rest

    def words(self) -> dict[str, Any]:
        """What another process must know that brings parts of this file."""
        return {"key": self._key, "upload": self.upload_id(), "front": self.front_key(), "size": self.size}

    def front_key(self) -> str:
        """Where others leave what is behind the header in the first part: a hash, and the bytes. What a worker of
        another run or upload left is not taken for it.
        """
        whose = hashlib.sha256(f"{self._output.fingerprint} {self.upload_id()}".encode()).hexdigest()[:16]
        return self._output.beside(f"parts/{self.name}/1-{whose}")

    def take(self, part: Part, packed: bytes) -> None:
        """A part that another process has brought, and its share of the hash."""
        self._store.put(self._note(part.number), _encoded(part, packed))
        self._by_others = True
        self._tree.join(packed)
        self._arrived[part.number] = part
        del self._open[part.number]

    def take_front(self) -> None:
        """Another process has left what is behind the header."""
        self._has_front = True

    def write(self, view: memoryview, position: int) -> None:
        """These bytes of the file, from `position` on; every byte comes once."""
        for number in self._numbers(position, position + len(view)):
            part = self._open.get(number)
            if part is None or (number == 1 and self._has_front):  # an earlier run has brought it
                continue
            start, end = self.parts[number - 1]
            first, last = max(position, start), min(position + len(view), end)
            if part.put(view[first - position : last - position], first - start, self._room(number)):
                self._fill(number)

    def add_header(self, metadata: Mapping[str, str]) -> None:
        """The last that is missing of the first part."""
        head, _ = self._shard.header(metadata)
        assert len(head) == self._head_size, "tensors lie behind a header of this length"
        self._is_ending = True
        if self._has_front and 1 in self._open:
            front = self._front()
            self._has_front = False
            self.write(memoryview(front), self._head_size)
        self.write(memoryview(head), 0)

    def send(self, number: int) -> None:
        """Bring a full part, and note that it has arrived."""
        part = self._open[number]
        buffer = part.taken()
        try:
            with memoryview(buffer) as content:
                share = TreeHash(self.size)
                share.add(self.parts[number - 1][0], content)
                packed = share.packed()
                arrived = self._store.put_part(self._key, self.upload_id(), number, content)
        finally:
            self._buffers.give_back(buffer)
        self._store.put(self._note(number), _encoded(arrived, packed))
        self._tree.join(packed)
        self._arrived[number] = arrived
        del self._open[number]

    def complete(self) -> None:
        """Make the file of its parts, unless an earlier run has done so."""
        if self._upload is not None:
            self._complete(self._upload, self._arrived)
            self._upload = None
        about = self._store.head(self._key)
        if about is None or about.size != self.size:
            raise OutputError(f"{self._output.place}: {self.name} is not there as it was uploaded; run again")

    def _complete(self, upload: str, found: Mapping[int, Part]) -> None:
        """A part that two have brought goes by the ETag of the later, of the same bytes, where the store wants it."""
        numbers = range(1, len(self.parts) + 1)
        try:
            self._store.complete(self._key, upload, [found[number] for number in numbers])
        except UploadGone:
            raise
        except OutputError:
            there = self._store.list_parts(self._key, upload) if self._by_others else {}
            parts = [there.get(number, found[number]) for number in numbers]
            if any(part.size != found[part.number].size for part in parts) or parts == [found[one] for one in numbers]:
                raise
            self._store.complete(self._key, upload, parts)

    def digest(self) -> str:
        """The BLAKE3 of what was sent; of what no note tells, of what the store has now."""
        return self._tree.finish_by(lambda start, size: self._store.get(self._key, start, size))

    def close(self) -> None:
        for part in list(self._open.values()):
            if part.buffer is not None:
                self._buffers.give_back(part.taken(), left=False)

    def _fill(self, number: int) -> None:
        buffer = self._open[number].buffer
        assert buffer is not None
        self._buffers.leaves(buffer)
        self._full(self, number)

    def _room(self, number: int) -> Callable[[int], mmap.mmap]:
        return lambda size: self._buffers.new(size, stays=number == 1 and not self._is_ending)

    @property
    def _front_size(self) -> int:
        return self.parts[0][1] - self._head_size

    def _front(self) -> bytes:
        content = self._store.get(self.front_key())
        if content[:DIGITS].decode("ascii", "replace") != blake3_of_bytes(content[DIGITS:]):
            self._store.delete(self.front_key())
            raise OutputError(f"{self._output.place}: the first part of {self.name} is damaged; run again")
        return content[DIGITS:]

    def _numbers(self, start: int, end: int) -> range:
        """The parts with bytes between these places."""
        return range(bisect_right(self._ends, start) + 1, bisect_left(self._ends, end) + 2) if start < end else range(0)

    def upload_id(self) -> str:
        """Of the upload, which is begun when it is first needed."""
        with self._lock:
            if self._upload is None:
                self._upload = self._store.create_upload(self._key)
            return self._upload

    def _note(self, number: int) -> str:
        return self._output.beside(f"parts/{self.name}/{number}.part")

    def _noted(self, part: Part) -> bytes | None:
        """The share of the hash of a part that was brought; None where nobody noted that very one."""
        content = content_of(self._store, self._note(part.number))
        try:
            said: Any = parse_json(content or b"", "the note of a part")
            return base64.b64decode(said["hash"]) if said["etag"] == part.etag else None
        except (CorruptFile, KeyError, TypeError, ValueError):
            return None


class OpenPart:
    """A part of which bytes are missing, or that is being sent."""

    def __init__(self, size: int):
        self.size = self._missing = size
        self.buffer: mmap.mmap | None = None
        self._lock = Lock()

    def put(self, view: memoryview, offset: int, room: Callable[[int], mmap.mmap]) -> bool:
        """Whether the part is full now."""
        with self._lock:
            if self.buffer is None:
                self.buffer = room(self.size)
            buffer = self.buffer
        buffer[offset : offset + len(view)] = view
        with self._lock:
            self._missing -= len(view)
            return self._missing == 0

    def taken(self) -> mmap.mmap:
        buffer, self.buffer = self.buffer, None
        assert buffer is not None
        return buffer


LEAST = PART_BYTES
INSIDE = 1 << 23
"""Bytes of a tensor between two places where a file may be cut."""


def places_to_cut(tensors: Sequence[tuple[int, int]]) -> list[int]:
    """Where a file may be cut: where tensors (first byte, bytes) begin, and inside of large ones."""
    cuts = []
    for start, size in sorted(tensors):
        cuts += [start, *range(start + INSIDE, start + size, INSIDE)]
    return cuts


def _encoded(part: Part, packed: bytes) -> bytes:
    return json.dumps({"etag": part.etag, "hash": base64.b64encode(packed).decode()}).encode()
