"""Adding a model: copied into staging, checked there, then made visible in one step.

The base of a delta pack is found by its files' hashes among the hub's models and the zoo's. The path that a pack names
is never followed: it is of the machine that it was packed on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.errors import MissingExtra, RecipeError, SmeltError
from smelt.files.identity import file_hashes, hash_file
from smelt.formats.open import is_delta
from smelt.formats.packs.note import BaseNote, DeltaNote
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


def add_model(
    store: HubStore,
    graph: SemanticGraph,
    ref: str,
    words: Words,
    *,
    limit: int = LARGEST,
    allow_pickle: bool = False,
    queued: bool = False,
) -> ModelRow:
    """One more model, whole and sound, or none. Of the zoo's models only the name is kept, others are copied.

    `queued`: a job to label it comes with it, in the same change of the store.

    `allow_pickle` is for `open_clip:` alone, which then makes safetensors of a pickle; the hub itself keeps none.
    """
    name = check_name(words.name or _name(ref))
    if store.has_model(name):
        raise name_taken(name)
    if ref.startswith("zoo:"):
        row = _by_reference(ref, name, words, graph)
        store.add_model(row, None, queued=queued)
        return row
    folder, links = _folder(ref, allow_pickle)
    return _copied(store, ref, folder, links, name, words, graph, limit, queued)


def _name(ref: str) -> str:
    """`RN50.openai` for open_clip's words; the last part of any other reference."""
    word, _, rest = ref.partition(":")
    return rest.replace("/", ".") if word == "open_clip" else ref_name(ref)


def _copied(
    store: HubStore,
    ref: str,
    folder: Path,
    links: bool,
    name: str,
    words: Words,
    graph: SemanticGraph,
    limit: int,
    queued: bool,
) -> ModelRow:
    from smelt.hub.store.schema import FileRow

    with store.staging() as staged:  # as deep in the hub's folder as its place in models/, so a pack finds its base
        sizes = read_in(folder, staged, limit=limit, links=links)
        base = _settle_base(store, staged) or ""
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
        store.add_model(row, staged, queued=queued)
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

    said = {"description": words.description or facts.description, "licence": words.licence or facts.licence}
    return ModelRow(
        name=name,
        ref=ref,
        copied=copied,
        base=base,
        bytes=size,
        submitted_by=words.submitted_by,
        **{**asdict(facts), **said},
    )


def _folder(ref: str, allow_pickle: bool) -> tuple[Path, bool]:
    """The folder to copy from, and whether it is a download, whose files are links."""
    path = local_path(ref)
    if path is not None:
        if not path.is_dir():
            raise RecipeError(f"{ref} is a file; the hub takes a model folder (weights, config, tokenizer, processor)")
        return path, False
    if ref.startswith("hf:"):
        from smelt.models.download import download

        return download(ref.removeprefix("hf:")), True
    if ref.startswith("open_clip:"):
        from smelt.models.families.open_clip.reference import open_clip_folder

        return open_clip_folder(ref.removeprefix("open_clip:"), allow_pickle=allow_pickle), True
    if "+" in ref:
        raise RecipeError(f"{ref}: an adapter over a base is two models; merge them into one folder first")
    raise RecipeError(f"there is no model at {ref!r} (a folder, zoo:NAME, hf:ORG/NAME or open_clip:ARCHITECTURE/TAG)")


def _settle_base(store: HubStore, staged: Path) -> str | None:
    """Make a staged pack name its base as it is found here; gives the base's reference. None: not a pack."""
    if not is_delta(staged):
        return None
    note = DeltaNote.load(staged)
    wanted = {*note.base.sha256.values(), *note.from_base.values()}
    found = next((ref for ref, hashes in _candidates(store) if wanted and wanted <= hashes), None)
    if found is None:
        raise RecipeError(
            f"a delta pack over {note.base.ref!r}, but neither the hub nor the zoo has that model (by its files' "
            "hashes); add the base first, or `smelt unpack` the model"
        )
    # Seen from models/<name>/ and from staging/<number>/ alike, so that it is checked as it will lie.
    ref = f"../../models/{found.removeprefix('hub:')}" if found.startswith("hub:") else found
    settled = note.model_copy(update={"base": BaseNote(ref=ref, sha256=note.base.sha256)})
    settled.save(staged)
    return found


def _candidates(store: HubStore) -> Iterator[tuple[str, set[str]]]:
    """References of whole models, and the hashes of their files."""
    for row in store.models():
        if row.copied and not row.base:
            yield f"hub:{row.name}", {file.sha256 for file in store.model(row.name).files}
    from smelt.models.zoo.catalogue import zoo_folders

    try:
        folders = zoo_folders()
    except MissingExtra:
        return
    for name, folder in folders.items():
        if not is_delta(Path(folder)):
            files = [path for path in Path(folder).iterdir() if path.is_file()]
            yield f"zoo:{name}", set(file_hashes(files).values())
