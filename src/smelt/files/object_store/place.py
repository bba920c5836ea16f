"""Places in object stores: `s3://bucket/some/name`, `gs://bucket/some/name`, `az://container/some/name`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from smelt.errors import RecipeError, shortened
from smelt.files.writing import url_scheme

__all__ = ["ObjectPlace", "object_place"]


@dataclass(frozen=True)
class ObjectPlace:
    """A place below which objects lie, as files do in a folder."""

    scheme: str
    bucket: str
    key: str
    """Without a slash at either end."""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.key}"

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """What the name ends with, from its last full stop on."""
        return Path(self.name).suffix

    def holds(self, ref: str) -> bool:
        """Whether a reference to a model, or one of those that are joined in it, leads in here."""
        return any(f"{one.rstrip('/')}/".startswith(f"{self}/") for one in ref.split("+"))

    def inside(self, name: str) -> str:
        """The key of what is called so in here."""
        return f"{self.key}/{name}"

    def beside(self, name: str) -> str:
        """The key of a neighbour of this name."""
        above = self.key.rpartition("/")[0]
        return f"{above}/{name}" if above else name


def object_place(text: str | Path) -> ObjectPlace:
    """Read such a place. A Path is taken too, though it has lost one of the slashes."""
    said = str(text)
    scheme = url_scheme(said)
    bucket, _, key = said.partition(":")[2].lstrip("/").partition("/")
    key = key.strip("/")
    if scheme is None or not bucket or not key or any(part in ("", ".", "..") for part in key.split("/")):
        raise RecipeError(f"{shortened(said)}: a place in an object store is written s3://bucket/some/name")
    return ObjectPlace(scheme, bucket, key)
