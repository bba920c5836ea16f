"""A model of the zoo as its headers have it; one that does not lie there whole is not unpacked only to be looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from smelt.errors import CorruptFile
from smelt.files.reading import read_json_table
from smelt.formats.architecture.layout import Layout
from smelt.formats.folder_files import updated_config
from smelt.inspection.model_facts import TensorFacts
from smelt.inspection.stored_model import StoredModel
from smelt.models.zoo.layers_origin import LayersOrigin, kept_names
from smelt.models.zoo.origin import ZooOrigin
from smelt.models.zoo.package_origin import PackageOrigin
from smelt.models.zoo.towers_origin import TowersOrigin

__all__ = ["read_origin"]


def read_origin(
    folder: Path, gguf: Callable[[Path], StoredModel], other: Callable[[str, Path], StoredModel]
) -> StoredModel:
    """What will be made of the note in a folder. `gguf` reads such a file, `other` a reference seen from the folder."""
    origin = ZooOrigin.load(folder)
    notes = (f"not unpacked yet: {origin.bytes / 1e6:,.1f} MB of safetensors will be made when it is first used",)
    if isinstance(origin, PackageOrigin):
        packed = origin.packed_file(folder.name)
        if not packed.is_file():
            raise CorruptFile(
                f"{packed}: is not the file of {origin.package} {origin.version}; install the package again"
            )
        return replace(gguf(packed), path=packed, notes=notes)
    if isinstance(origin, LayersOrigin):
        return replace(_shortened(origin, other(origin.source, folder)), card=folder, notes=notes)
    assert isinstance(origin, TowersOrigin)
    infos = origin.tensors(folder)
    return StoredModel(
        f"safetensors, {origin.place}",
        tuple(TensorFacts(key, info.dtype, info.shape, info.nbytes) for key, info in infos.items()),
        (folder / origin.weights,),
        path=folder,
        folder=folder,
        config=read_json_table(folder / origin.config),
        notes=notes,
    )


def _shortened(origin: LayersOrigin, other: StoredModel) -> StoredModel:
    """The other model as it is stored, without what is left out of it."""
    facts = {one.name: one for one in other.tensors}
    kept = kept_names(facts, origin.keep)
    stack = str(Layout.of(facts).main_stack)
    return replace(
        other,
        format=f"{other.format}, {origin.place}",
        tensors=tuple(replace(facts[stored], name=name) for name, stored in kept.items()),
        config=updated_config(other.config, dtype=None, layers={stack: origin.keep}),
    )
