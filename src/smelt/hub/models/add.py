"""Adding a model: copied into staging, checked there, then made visible in one step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.errors import RecipeError, SmeltError
from smelt.files.identity import hash_file
from smelt.formats.open import is_delta
from smelt.formats.packs.note import DeltaNote
from smelt.hub.models.base import settle_base
from smelt.hub.models.check import Facts, check_model
from smelt.hub.models.intake import LARGEST, read_in
from smelt.hub.store.names import check_name, name_taken
from smelt.models.references import local_path
from smelt.recipe.reference_name import ref_name

if TYPE_CHECKING:
    from smelt.hub.graph.graph import SemanticGraph
    from smelt.hub.store.schema import ModelRow
    from smelt.hub.store.store import HubStore

__all__ = ["Words", "add_model"]


@dataclass(frozen=True)
class Words:
    """What whoever adds a model says of it."""

    name: str | None = None
    description: str = ""
    licence: str = ""
    submitted_by: str = ""
    """Whose token it came with; empty for whoever adds it on the machine itself."""


def add_model(store: HubStore, graph: SemanticGraph, ref: str, words: Words, *, limit: int = LARGEST) -> ModelRow:
    """One more model, whole and sound, or none. Of the zoo's models only the name is kept, others are copied."""
    name = check_name(words.name or ref_name(ref))
    if store.has_model(name):
        raise name_taken(name)
    if ref.startswith("zoo:"):
        row = _by_reference(ref, name, words, graph)
        store.add_model(row, None)
        return row
    return _copied(store, ref, name, words, graph, limit)


def _copied(store: HubStore, ref: str, name: str, words: Words, graph: SemanticGraph, limit: int) -> ModelRow:
    from smelt.hub.store.schema import FileRow

    folder, links = _folder(ref)
    with store.staging() as staged:  # as deep in the hub's folder as its place in models/, so a pack finds its base
        sizes = read_in(folder, staged, limit=limit, links=links)
        base = settle_base(store, staged) or ""
        if base:
            note = staged / "delta.json"
            sizes[note.name] = hash_file(note), note.stat().st_size
        try:
            facts = check_model(str(staged), staged, graph)
        except SmeltError as error:  # whoever sent it knows it by its name, and not where it was checked
            error.args = (f"{name} was not added: {error}".replace(str(staged), name),)
            raise
        kept_as = "submitted" if words.submitted_by else ref  # a submission comes in a folder that is gone at once
        row = _row(name, kept_as, facts, words, sum(size for _, size in sizes.values()), base, copied=True)
        row.files = [FileRow(name=file, sha256=digest, size=size) for file, (digest, size) in sorted(sizes.items())]
        store.add_model(row, staged)
    return row


def _by_reference(ref: str, name: str, words: Words, graph: SemanticGraph) -> ModelRow:
    from smelt.models.zoo.catalogue import zoo_folder

    folder = zoo_folder(ref.removeprefix("zoo:"))
    base = ""
    if is_delta(folder):
        base = f"zoo:{ref_name(DeltaNote.load(folder).base.ref)}"
    size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    return _row(name, ref, check_model(ref, folder, graph), words, size, base, copied=False)


def _row(name: str, ref: str, facts: Facts, words: Words, size: int, base: str, *, copied: bool) -> ModelRow:
    from smelt.hub.store.schema import ModelRow

    return ModelRow(
        name=name,
        hash=facts.hash,
        ref=ref,
        copied=copied,
        base=base,
        family=facts.family,
        architecture=facts.architecture,
        parameters=facts.parameters,
        bytes=size,
        preprocess=facts.preprocess,
        description=words.description or facts.description,
        licence=words.licence or facts.licence,
        submitted_by=words.submitted_by,
    )


def _folder(ref: str) -> tuple[Path, bool]:
    """The folder to copy from, and whether it is a download, whose files are links."""
    path = local_path(ref)
    if path is not None:
        if not path.is_dir():
            raise RecipeError(f"{ref} is a file; the hub takes a model folder (weights, config, tokenizer, processor)")
        return path, False
    if ref.startswith("hf:"):
        from smelt.models.download import download

        return download(ref.removeprefix("hf:")), True
    if "+" in ref:
        raise RecipeError(f"{ref}: an adapter over a base is two models; merge them into one folder first")
    raise RecipeError(f"there is no model at {ref!r} (a folder, zoo:NAME or hf:ORG/NAME)")
