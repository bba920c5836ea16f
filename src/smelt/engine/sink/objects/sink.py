"""Weights files as objects: parts are filled by whoever merges, in any order, and sent while the merge goes on.

A part is a run of whole tensors, or a piece of a large one (parts.py). The first part of a file has its header, which
holds the hashes of the inputs, so that it is sent last; it is a small one, and its tensors are merged last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from smelt.engine.plan.plan import Item, Plan
from smelt.engine.sink.objects.buffers import PartBuffers
from smelt.engine.sink.objects.upload import FileUpload
from smelt.engine.sink.parts import PART_BYTES
from smelt.engine.sink.shards import index_files
from smelt.engine.sink.sink import Sink
from smelt.files.object_store.store import Part
from smelt.formats import dtype as dtypes
from smelt.recipe.schema import parse_size

if TYPE_CHECKING:
    from pathlib import Path

    from smelt.engine.sink.objects.output import ObjectOutput

__all__ = ["SENDERS", "ObjectSink", "room_for_parts"]

_USUAL = 8 * PART_BYTES
SENDERS = 8
"""Threads that send parts; they mostly wait."""


def room_for_parts(memory: int | str | None) -> int:
    """Bytes of memory for parts; of a limit, a third."""
    return _USUAL if memory is None else min(_USUAL, parse_size(memory) // 3)


class ObjectSink(Sink):
    """The shards of a model, as uploads that are completed at the end."""

    def __init__(self, output: ObjectOutput, plan: Plan, metadata: Mapping[str, str], memory: int | str | None):
        """Of `memory`, if there is a limit, a third is for parts."""
        self.memory = room_for_parts(memory)
        self.buffers = PartBuffers(self.memory)
        self._output = output
        self._shards = output.shards(plan)
        self._senders = ThreadPoolExecutor(SENDERS, "smelt-upload")
        self._sent: list[Future[None]] = []
        self._failed: Future[None] | None = None
        uploads = output.uploads() if output.resumes else {}
        home = {key: number for number, shard in enumerate(self._shards) for key in shard.tensors}
        self._home = {key: home[stored] for key, (stored, _) in plan.places.items()}
        self._files = [
            FileUpload(output, shard, metadata, self.buffers, self._send, uploads.get(output.place.inside(shard.name)))
            for shard in self._shards
        ]
        for item in plan.items:
            self._files[self._home[item.key]].expect(item, *plan.places[item.key])
        if output.resumes:
            list(self._senders.map(FileUpload.look_for_parts, self._files))
        output.finished = {
            item.key for item in plan.items if self._files[self._home[item.key]].has(item.key, item.info.nbytes)
        }

    def write(self, item: Item, start: int, values: memoryview) -> None:
        if self._failed is not None:
            self._failed.result()  # raises what went wrong, so that nobody merges on for nothing
        file = self._files[self._home[item.key]]
        file.write(values.cast("B"), file.start(item.key) + start * dtypes.item_size(item.info.dtype))

    def file_of(self, item: Item) -> FileUpload:
        """The file that holds a merged tensor."""
        return self._files[self._home[item.key]]

    @property
    def uploads(self) -> Sequence[FileUpload]:
        """All files, for those who have others bring their parts."""
        return self._files

    def take(self, file: FileUpload, parts: Sequence[tuple[Part, bytes]]) -> None:
        """Parts that another process has brought, and their shares of the hash; of the first, whose ETag is empty, what
        is behind the header.
        """
        if self._failed is not None:
            self._failed.result()
        for part, packed in parts:
            if part.etag:
                self._submit(file.take, part, packed)
            else:
                file.take_front()

    def in_good_order(self, items: Sequence[Item]) -> Sequence[Item]:
        """File after file from the front on, so that few parts are open at once; what waits for the headers last."""

        def place(item: Item) -> tuple[bool, int, int]:
            file = self._files[self._home[item.key]]
            return file.is_in_first_part(item.key), self._home[item.key], file.start(item.key)

        return sorted(items, key=place)

    def done(self, item: Item) -> None:
        """Parts know by themselves when they are full."""
        return

    def files(self) -> dict[str, bytes | Path]:
        """The index, where there are several shards."""
        return dict(index_files(self._shards))

    def complete(self, metadata: Mapping[str, str]) -> dict[str, tuple[str, int]]:
        """Send the headers, wait until everything has arrived, and only then make the files visible; name -> (BLAKE3,
        bytes) of each.
        """
        for file in self._files:
            file.add_header(metadata)
        for sent in self._sent:
            sent.result()
        self._output.publish([shard.name for shard in self._shards])
        list(self._senders.map(FileUpload.complete, self._files))
        digests = list(self._senders.map(FileUpload.digest, self._files))
        return {file.name: (digest, file.size) for file, digest in zip(self._files, digests, strict=True)}

    def close(self) -> None:
        """Wait for what is being sent; what nobody began to send is not."""
        self._senders.shutdown(wait=True, cancel_futures=True)
        for file in self._files:
            file.close()

    def _send(self, file: FileUpload, number: int) -> None:
        self._submit(file.send, number)

    def _submit(self, work: Callable[..., None], *words: Any) -> None:
        sent = self._senders.submit(work, *words)
        sent.add_done_callback(self._look_at)
        self._sent.append(sent)

    def _look_at(self, sent: Future[None]) -> None:
        if not sent.cancelled() and sent.exception() is not None:
            self._failed = sent
