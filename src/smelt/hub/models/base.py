"""The base of a delta pack in a hub: found by its files' hashes among the hub's models and the zoo's.

The path that a pack names is never followed: it is of the machine that it was packed on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.errors import MissingExtra, RecipeError
from smelt.files.identity import hash_file
from smelt.formats.open import is_delta
from smelt.formats.packs.note import BaseNote, DeltaNote

if TYPE_CHECKING:
    from smelt.hub.store.store import HubStore

__all__ = ["settle_base"]


def settle_base(store: HubStore, staged: Path) -> str | None:
    """Make a staged pack name its base as it is found here; gives the base's reference. None: not a pack."""
    if not is_delta(staged):
        return None
    note = DeltaNote.load(staged)
    wanted = set(note.base.sha256.values())
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
            yield f"zoo:{name}", {hash_file(path) for path in Path(folder).glob("*.safetensors")}
