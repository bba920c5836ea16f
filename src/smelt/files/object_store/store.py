"""What Smelt asks of an object store, and the stores that there are, by the scheme of their URLs.

A store is a client of one bucket. Every method may be called from any thread, tries again where that can help (with
longer and longer waits), and raises an OutputError with one line that says what the store said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from smelt.errors import OutputError, RecipeError, unknown
from smelt.files.object_store.place import ObjectPlace
from smelt.registry import Registry

__all__ = [
    "NEW",
    "NotAsExpected",
    "NotThere",
    "ObjectInfo",
    "ObjectStore",
    "Part",
    "StoreKind",
    "UploadGone",
    "content_of",
    "object_stores",
    "open_store",
]

NEW = ""
"""As `only_if`: nothing may be there yet."""


class NotAsExpected(OutputError):
    """An object is not the one any more that it had to be for being replaced."""


class NotThere(OutputError):
    """There is no such object."""


class UploadGone(OutputError):
    """There is no such upload: it was completed or aborted."""


class ObjectInfo(NamedTuple):
    """What a store says of an object."""

    key: str
    size: int
    etag: str
    age: float = 0.0
    """Seconds since it was written, by the store's own clock; only `head` says it."""


class Part(NamedTuple):
    """A part of an upload that has arrived."""

    number: int
    size: int
    etag: str


class ObjectStore(Protocol):
    """The objects of one bucket by their keys."""

    def put(self, key: str, content: bytes, *, only_if: str | None = None) -> str:
        """Write a small object; its ETag. With `only_if` it must have that ETag until then (`NEW`: not be there), else
        `NotAsExpected` is raised. A store that knows no such conditions writes without: read it back to be sure.
        """

    def get(self, key: str, start: int = 0, size: int | None = None) -> bytes:
        """Bytes of an object; raises `NotThere`."""

    def head(self, key: str) -> ObjectInfo | None:
        """What there is to say of an object; None where there is none."""

    def list_objects(self, prefix: str) -> Iterator[ObjectInfo]:
        """All objects whose keys begin so."""

    def delete(self, key: str) -> None:
        """Remove an object; it need not be there."""

    def create_upload(self, key: str) -> str:
        """Begin an upload in parts; its id."""

    def list_uploads(self, prefix: str) -> dict[str, list[str]]:
        """Ids of the uploads under way, by the keys that begin so."""

    def put_part(self, key: str, upload: str, number: int, content: memoryview) -> Part:
        """Bring a part, from 1 on; one of that number is replaced. What arrived is compared with what was sent."""

    def list_parts(self, key: str, upload: str) -> dict[int, Part]:
        """The parts that have arrived, by number."""

    def complete(self, key: str, upload: str, parts: Sequence[Part]) -> None:
        """Make the object of all of its parts. It is there from now on, and the upload is not."""

    def abort(self, key: str, upload: str) -> None:
        """Forget an upload and its parts; it need not be there."""


class StoreKind(Protocol):
    """How the stores of a scheme are opened."""

    def open(self, place: ObjectPlace) -> ObjectStore:
        """The client of a place's bucket, which nobody has spoken to yet; a MissingExtra says what to install."""


_HERE = "smelt.files.object_store"

object_stores: Registry[StoreKind] = Registry(
    "smelt.object_stores",
    own=lambda: {"s3": f"{_HERE}.s3", "gs": f"{_HERE}.s3", "az": f"{_HERE}.azure"},
    home=lambda kind: type(kind).__module__,
)
"""Every kind of store by the scheme of its URLs."""


def open_store(place: ObjectPlace) -> ObjectStore:
    """The client of a place's bucket."""
    kind = object_stores.own(place.scheme) or object_stores.get(place.scheme)
    if kind is None:
        raise RecipeError(unknown("object store", place.scheme, list(object_stores)))
    return kind.open(place)


def content_of(store: ObjectStore, key: str) -> bytes | None:
    """All of an object; None where there is none."""
    try:
        return store.get(key)
    except NotThere:
        return None
