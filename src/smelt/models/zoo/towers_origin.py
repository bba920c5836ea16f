"""An origin of the kind `towers`: a model of which some parts are other models', and only the rest lies here.

    {"kind": "towers", "config": "config.json", "weights": "part.safetensors",
     "towers": {"model.vision_tower.": {"from": "zoo:clip-tiny", "prefix": "vision_model."}},
     "weights_sha256": "...", "parameters": 3210432, "bytes": 9876543}

Every tensor of the other model that begins with `prefix` is there under the tower's name instead, in the format that it
has. All other files of the folder (tokenizer, processor, chat template) are copied. The note is made by
`weights_hash`, which says what `weights_sha256` has to be.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Annotated, Literal

from pydantic import Field

from smelt.errors import CorruptFile, RecipeError, SmeltError
from smelt.files.schema import Strict
from smelt.formats.safetensors import FileSource
from smelt.formats.source import Source, TensorInfo
from smelt.models.zoo.origin import NOTE, ZooOrigin
from smelt.models.zoo.weights_file import write_weights

__all__ = ["Tower", "TowersOrigin", "weights_hash"]


class Tower(Strict, populate_by_name=True):
    """A part that is another model's."""

    source: Annotated[str, Field(alias="from")]
    prefix: str = ""


class TowersOrigin(ZooOrigin):
    """A file with part of the weights, and where the rest is."""

    kind: Literal["towers"]
    config: str = "config.json"
    weights: str
    towers: Annotated[dict[str, Tower], Field(min_length=1)]

    @property
    def place(self) -> str:
        return f"with parts of {', '.join(dict.fromkeys(tower.source for tower in self.towers.values()))}"

    def key(self, folder: Path) -> str:
        digest = hashlib.sha256(self.weights_sha256.encode())
        for file in self._small_files(folder):
            digest.update(f"\0{file.name}\0".encode() + file.read_bytes())
        return digest.hexdigest()

    def make(self, folder: Path, out: Path) -> None:
        part = folder / self.weights
        for file in (part, folder / self.config):
            if not file.is_file():
                raise CorruptFile(f"{folder / NOTE}: {file.name} is not there; install the zoo again")
        with (out / "model.safetensors").open("wb") as whole:
            found = _write(folder.name, part, self.towers, whole)
        if found != self.weights_sha256:
            raise CorruptFile(
                f"zoo:{folder.name}: {self.weights} and its towers ({self.place.removeprefix('with parts of ')}) "
                f"make other numbers than they should (SHA-256 {found}); install the zoo again"
            )
        for file in self._small_files(folder):
            shutil.copyfile(file, out / ("config.json" if file.name == self.config else file.name))

    def tensors(self, folder: Path) -> dict[str, TensorInfo]:
        """Every tensor of the whole model, from headers."""
        with ExitStack() as stack:
            found = _tensors(folder.name, folder / self.weights, self.towers, stack)
            return {key: source.tensors[stored] for key, source, stored in found}

    def _small_files(self, folder: Path) -> list[Path]:
        """Everything but note, card and weights, the config last: where it is, all is."""
        others = (NOTE, self.weights, "README.md")
        files = [file for file in folder.iterdir() if file.is_file() and file.name not in others]
        return sorted(files, key=lambda file: (file.name == self.config, file.name))


def weights_hash(part: Path, towers: Mapping[str, Tower]) -> str:
    """What `weights_sha256` of a note with these weights and towers is."""
    return _write(part.parent.name, part, towers)


def _write(name: str, part: Path, towers: Mapping[str, Tower], file: IO[bytes] | None = None) -> str:
    """All tensors in the order of their names; gives the file's SHA-256."""
    with ExitStack() as stack:
        places: dict[str, tuple[Source, str]] = {}
        for key, source, stored in _tensors(name, part, towers, stack):
            if key in places:
                raise CorruptFile(f"zoo:{name}: {key!r} is both in {part.name} and in a tower")
            places[key] = source, stored
        return write_weights(places, file)


def _tensors(name: str, part: Path, towers: Mapping[str, Tower], stack: ExitStack) -> Iterator[tuple[str, Source, str]]:
    """The name of every tensor in the whole model, and where it stands."""
    from smelt.models.references import open_ref

    own = FileSource(str(part), [part])
    stack.callback(own.close)
    yield from ((key, own, key) for key in own.tensors)
    for place, tower in towers.items():
        try:
            source = open_ref(tower.source, relative_to=part.parent)
        except SmeltError as error:
            raise RecipeError(f"zoo:{name}: its {place}* are those of {tower.source}: {error}") from None
        stack.callback(source.close)
        keys = [key for key in source.tensors if key.startswith(tower.prefix)]
        if not keys:
            raise CorruptFile(f"zoo:{name}: {tower.source} has no tensors that begin with {tower.prefix!r}")
        yield from ((place + key.removeprefix(tower.prefix), source, key) for key in keys)
