"""The public call: `smelt.inspect(model)` -> what its headers say. The command `smelt inspect` is this function."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smelt.files.identity import file_identity
from smelt.files.remote.address import shown
from smelt.files.remote.mounts import mount_name, reading_from_afar
from smelt.formats.architecture.layout import Layout
from smelt.formats.quantised.unread import codes_and_scales
from smelt.formats.source import MemorySource, TensorInfo
from smelt.inspection import small_files
from smelt.inspection.headers import read_model, read_source
from smelt.inspection.mixture_facts import mixture_of
from smelt.inspection.model_facts import DtypeFacts, FileFacts, ModelFacts, PartFacts, QuantisedFacts
from smelt.inspection.open_model import in_memory
from smelt.inspection.stored_model import StoredModel
from smelt.recipe.model_parts import part_of, parts_in

__all__ = ["inspect"]


def inspect(model: str | Path | Any) -> ModelFacts:
    """What a model is, from its headers and small files; no number of it is read, and no code of it is run.

    `model` is a reference as everywhere (a folder, a file, zoo:name, hf:org/name, BASE+ADAPTER), or a state dict or
    module. A pickle needs no permission here, since it is described without being run.
    """
    with reading_from_afar():
        return _facts(model, _stored(model))


def _facts(model: str | Path | Any, stored: StoredModel) -> ModelFacts:
    tied, note_on_ties = (stored.tied, None) if stored.tied else small_files.tied_of(stored.tensors, stored.config)
    vocabulary, note_on_rows = small_files.vocabulary_of(stored.tensors, {} if stored.adapter else stored.config)
    architectures = stored.config.get("architectures")
    notes = (*stored.notes, note_on_ties, note_on_rows)
    return ModelFacts(
        model=shown(str(model)) if isinstance(model, str | Path) else stored.format,
        format=stored.format,
        path=mount_name(stored.path) if stored.path else None,
        family=str(stored.config["model_type"]) if stored.config.get("model_type") else None,
        architecture=str(architectures[0]) if isinstance(architectures, list) and architectures else None,
        parameters=sum(one.parameters for one in stored.tensors),
        dtypes=_dtypes(stored),
        files=tuple(FileFacts(path.name, file_identity(path).size) for path in stored.files),
        sizes=small_files.sizes_of(stored.config) or ({} if stored.parts else _depth(stored)),
        parts=stored.parts or _parts(stored),
        vocabulary=vocabulary,
        tokenizer=stored.tokenizer or small_files.tokenizer_of(stored.folder),
        chat_template=stored.chat_template or _has_template(stored.folder),
        tied=tied,
        quantised=stored.quantised or _quantised(stored),
        licence=stored.licence or small_files.licence_of(stored.card or stored.folder),
        adapter=stored.adapter,
        pack=stored.pack,
        experts=stored.experts,
        mixture=None if stored.adapter or stored.experts else mixture_of(_infos(stored), stored.config),
        made=small_files.provenance_of(stored.folder),
        tensors=stored.tensors,
        notes=tuple(note for note in notes if note),
    )


def _stored(model: Any) -> StoredModel:
    if isinstance(model, str | Path):
        return read_model(str(model))
    source = in_memory(model)
    return read_source(source, "state dict" if isinstance(source, MemorySource) else type(source).__name__)


def _infos(stored: StoredModel) -> dict[str, TensorInfo]:
    return {one.name: TensorInfo(one.dtype, one.shape) for one in stored.tensors}


def _dtypes(stored: StoredModel) -> dict[str, DtypeFacts]:
    """By dtype, the one with the most numbers first."""
    found: dict[str, DtypeFacts] = {}
    for one in stored.tensors:
        had = found.get(one.dtype, DtypeFacts(0, 0, 0))
        found[one.dtype] = DtypeFacts(had.tensors + 1, had.parameters + one.parameters, had.bytes + one.bytes)
    return dict(sorted(found.items(), key=lambda entry: -entry[1].parameters))


def _parts(stored: StoredModel) -> dict[str, PartFacts]:
    """The named parts of a model that sees and reads; none of another."""
    found = parts_in(one.name for one in stored.tensors)
    counts = dict.fromkeys(found, 0)
    for one in stored.tensors:
        if (part := part_of(one.name)) in counts:
            counts[part] += one.parameters
    return {part: PartFacts(found[part], counts[part]) for part in found}


def _depth(stored: StoredModel) -> dict[str, dict[str, int]]:
    """The number of layers by the names of the tensors, where no config tells; an adapter's are its base's."""
    layout = Layout.of(one.name for one in stored.tensors)
    if stored.adapter is not None or layout.main_stack is None:
        return {}
    return {"": {"num_hidden_layers": layout.stacks[layout.main_stack]}}


def _quantised(stored: StoredModel) -> QuantisedFacts | None:
    if stored.adapter is not None or stored.pack is not None:
        return None  # its own numbers are none, whatever its base's config says
    codes = list(codes_and_scales(_infos(stored)))
    said = stored.config.get("quantization_config")
    if isinstance(said, Mapping):
        bits = next((said[key] for key in ("bits", "w_bit") if type(said.get(key)) is int), None)
        how = f"{said.get('quant_method', 'quantised')}" + (f", {bits} bits" if bits else "")
        return QuantisedFacts(how, len(codes))
    return QuantisedFacts("codes with scales beside them", len(codes)) if codes else None


def _has_template(folder: Path | None) -> bool:
    from smelt.formats.tokenizer.chat_template import read_chat_template

    return folder is not None and bool(read_chat_template(folder))
