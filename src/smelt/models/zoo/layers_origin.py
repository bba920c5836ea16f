"""An origin of the kind `layers`: another model with some of its layers left out, and healed.

    {"kind": "layers", "from": "zoo:smollm2-135m-instruct", "layers": 30, "keep": [0, 1, 2, 27, 28, 29], "heal": "heal",
     "weights_sha256": "...", "parameters": 49552704, "bytes": 99105408}

The other model has so many `layers`; those that are kept come in their order and are numbered anew. `heal` is a folder
beside the note with a LoRA adapter as PEFT writes it, over the SHORTENED model: its changes are added in float32 and
the sum is rounded once. Tokenizer, chat template and config are the other model's, but for the number of layers. The
note is made by `layers_note`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from smelt.errors import CorruptFile, RecipeError, SmeltError
from smelt.formats.architecture.layout import Layout
from smelt.formats.folder_files import read_config, small_files, updated_config
from smelt.formats.lora.source import LoraSource
from smelt.formats.source import Source
from smelt.formats.views.renamed import Piece, RenamedSource
from smelt.models.zoo.origin import NOTE, ZooOrigin
from smelt.models.zoo.weights_file import write_weights

__all__ = ["LayersOrigin", "kept_names", "layers_note"]

_ADAPTER = ("adapter_config.json", "adapter_model.safetensors")


class LayersOrigin(ZooOrigin, populate_by_name=True):
    """Some layers of another model, and what was trained after the others had gone."""

    kind: Literal["layers"]
    source: Annotated[str, Field(alias="from")]
    layers: Annotated[int, Field(gt=0)]
    """How many the other model has."""
    keep: Annotated[list[int], Field(min_length=1)]
    heal: str | None = None
    """The name of the adapter's folder."""

    @field_validator("heal")
    @classmethod
    def _is_beside(cls, value: str | None) -> str | None:
        if value is not None and Path(value).name != value:
            raise ValueError(f"should be the name of a folder beside the note, got {value!r}")
        return value

    @model_validator(mode="after")
    def _layers_are_there(self) -> LayersOrigin:
        """Every layer that is kept is one of the other model's, and they keep their order."""
        for at, layer in enumerate(self.keep):
            if not 0 <= layer < self.layers:
                raise ValueError(f"keep: {self.source} has layers 0 to {self.layers - 1}, not {layer}")
            if layer in self.keep[:at]:
                raise ValueError(f"keep: layer {layer} is there twice")
        if self.keep != sorted(self.keep):
            raise ValueError("keep: layers stay in their order; list them so")
        return self

    @property
    def place(self) -> str:
        healed = ", then healed" if self.heal else ""
        return f"{self.layers - len(self.keep)} of {self.layers} layers of {self.source} left out{healed}"

    def key(self, folder: Path) -> str:
        return self.weights_sha256

    def make(self, folder: Path, out: Path) -> None:
        with self._opened(folder) as (source, stack):
            config = read_config(source.folder)
            if config is None:
                raise CorruptFile(f"zoo:{folder.name}: {self.source} has no config.json")
            with (out / "model.safetensors").open("wb") as file:
                found = write_weights({key: (source, key) for key in source.tensors}, file)
            others = small_files(source.folder)
        if found != self.weights_sha256:
            raise CorruptFile(
                f"zoo:{folder.name}: the layers of {self.source} make other numbers than they should "
                f"(SHA-256 {found}); install the zoo again"
            )
        for name, path in others.items():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, out / name)
        shorter = updated_config(config, dtype=None, layers={stack: self.keep})
        (out / "config.json").write_text(json.dumps(shorter, indent=2) + "\n", encoding="utf-8")

    @contextmanager
    def _opened(self, folder: Path) -> Iterator[tuple[Source, str]]:
        """The shortened model, healed, and what the names of its layers begin with."""
        healing = folder / self.heal if self.heal else None
        for file in [healing / name for name in _ADAPTER] if healing else ():
            if not file.is_file():
                raise CorruptFile(f"{folder / NOTE}: {self.heal}/{file.name} is not there; install the zoo again")
        source, stack, there = _open_other(folder, self.source)
        try:
            if there != self.layers:
                raise CorruptFile(f"{folder / NOTE}: {self.source} has {there} layers, not {self.layers}")
            source = _shortened(source, self.keep)
            if healing:
                source = LoraSource(source, healing)
            yield source, stack
        finally:
            source.close()


def kept_names(names: Iterable[str], keep: Sequence[int]) -> dict[str, str]:
    """What every tensor that stays is called, and what it was: the layers of the main stack are numbered anew."""
    names = list(names)
    stack, place = Layout.of(names).main_stack, {layer: at for at, layer in enumerate(keep)}
    found = {}
    for name in names:
        block = Layout.block(name)
        if block is None or block[0] != stack:
            found[name] = name
        elif block[1] in place:
            before = f"{stack}." if stack else ""
            found[f"{before}{place[block[1]]}.{block[2]}"] = name
    return found


def layers_note(folder: Path, source: str, keep: Sequence[int], heal: str | None = None) -> dict[str, Any]:
    """What `origin.json` says of a model that is made so in a folder, which has the adapter that heals it already."""
    other, _, layers = _open_other(folder, source)
    other.close()
    words: dict[str, Any] = {"kind": "layers", "from": source, "layers": layers, "keep": list(keep)}
    words |= {"heal": heal} if heal else {}
    sizes = {"weights_sha256": "", "parameters": 0, "bytes": 0}
    with LayersOrigin.model_validate(words | sizes)._opened(folder) as (made, _):
        sizes = {
            "weights_sha256": write_weights({key: (made, key) for key in made.tensors}),
            "parameters": sum(info.count for info in made.tensors.values()),
            "bytes": sum(info.nbytes for info in made.tensors.values()),
        }
    return words | sizes


def _open_other(folder: Path, ref: str) -> tuple[Source, str, int]:
    """The other model, what the names of its layers begin with, and how many these are."""
    from smelt.models.references import open_ref

    try:
        source = open_ref(ref, relative_to=folder)
    except SmeltError as error:
        raise RecipeError(f"zoo:{folder.name}: its layers are those of {ref}: {error}") from None
    layout = Layout.of(source.tensors)
    if layout.main_stack is None:
        source.close()
        raise RecipeError(f"zoo:{folder.name}: {ref} has no numbered layers (model.layers.0...) to leave out")
    return source, layout.main_stack, layout.stacks[layout.main_stack]


def _shortened(source: Source, keep: Sequence[int]) -> Source:
    pieces = {
        name: Piece(stored, 0, source.tensors[stored]) for name, stored in kept_names(source.tensors, keep).items()
    }
    view = RenamedSource(source, pieces)
    view.tied = {name: twin for name, twin in source.tied.items() if twin in pieces}
    return view
