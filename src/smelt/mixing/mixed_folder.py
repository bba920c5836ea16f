"""Writing a mixed model: a folder that appears when it is complete, with a manifest over all of its files.

model.safetensors      the merged rest and the base's MLPs, under the model's own names
experts.safetensors    the experts' changes of everything routed, one stacked tensor [experts, ...] for each key
routers.safetensors    {MLP's name}.first.weight, .first.bias, .last.weight, .last.bias
mix.json               method, parameters, experts in order, parents, SHA-256 of the three files above
trace.jsonl, routing.json, config, tokenizer, processor, card, manifest
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.engine.sink.output import folder_at_one_go
from smelt.engine.sink.provenance import encode_manifest
from smelt.files.identity import hash_file
from smelt.mixing.checkpoint import save_routers
from smelt.mixing.mix_note import EXPERTS, MODEL, NOTE, ROUTERS, ROUTING, TRACE, MixNote
from smelt.optimise.tensors import save_tensors

if TYPE_CHECKING:
    import torch

    from smelt.files.identity import FileIdentity
    from smelt.mixing.network import MixedNetwork
    from smelt.recipe.schema import Recipe

__all__ = ["Record", "bytes_of", "write_mixed"]


@dataclass(frozen=True)
class Record:
    """What stands beside the numbers."""

    recipe: Recipe
    note: Mapping[str, Any]
    """The fields of mix.json, but for the hashes."""
    trace: Sequence[Mapping[str, Any]]
    routing: Mapping[str, Any] | None
    files: Mapping[str, bytes | Path]
    """Config, tokenizer, processor."""
    inputs: Mapping[Path, FileIdentity]
    """What it was made from, as it was when it was opened."""


def bytes_of(mixed: MixedNetwork) -> int:
    """About how large the folder will be."""
    tensors = [*mixed.state.values(), *mixed.deltas.values(), *mixed.parameters.values()]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def write_mixed(
    mixed: MixedNetwork, out: Path, record: Record, formats: Mapping[str, torch.dtype], *, force: bool = False
) -> MixNote:
    """Write the folder; a failure leaves nothing behind."""
    with folder_at_one_go(out, inputs=record.inputs, force=force) as folder:
        save_tensors(folder.path / MODEL, {n: t.to(formats.get(n, t.dtype)) for n, t in mixed.state.items()})
        save_tensors(folder.path / EXPERTS, mixed.deltas)
        save_routers(mixed.routers, folder.path / ROUTERS)
        hashes = {name: hash_file(folder.path / name) for name in (MODEL, EXPERTS, ROUTERS)}
        note = MixNote(**record.note, sha256=hashes)
        folder.complete(_files(out.resolve().name, note, record), {}, lambda all_: _manifest(note, record, all_))
    return note


def _files(name: str, note: MixNote, record: Record) -> dict[str, bytes | Path]:
    trace = "".join(json.dumps(line) + "\n" for line in record.trace).encode()
    files: dict[str, bytes | Path] = {**record.files, NOTE: note.dump(), TRACE: trace, "README.md": _card(name, note)}
    if record.routing is not None:
        files[ROUTING] = json.dumps(record.routing, indent=1).encode() + b"\n"
    return files


def _manifest(note: MixNote, record: Record, files: Mapping[str, tuple[str, int]]) -> bytes:
    recipe = record.recipe
    content = {"mix": note.method, "recipe": recipe.dump(), "recipe_hash": recipe.hash, "parents": note.parents}
    return encode_manifest(content, files)


def _card(name: str, note: MixNote) -> bytes:
    rows = "\n".join(f"| {who} | `{parent['ref']}` |" for who, parent in note.parents.items())
    used = note.data_budget
    labels = f", {used.labels:,} of them with their labels" if used.labels else ", without labels"
    data = f"{used.images:,} pictures of the split {used.split!r}{labels}" if used.images else "no data"
    return f"""# {name}

A mixture of {len(note.experts)} experts ({note.method}) made with Smelt {note.smelt}: the MLP of every block mixes the
experts' weights anew for each picture, everything else is one merged model. Its routers were learned in
{note.learning.steps:,} steps on {data}.

| model | reference |
|---|---|
{rows}

`smelt eval {name}` and `smelt.evaluate` load it. Other libraries would read `{MODEL}` alone, which is not the mixture.
""".encode()
