"""`smelt verify s3://bucket/name`: whether an output in a store holds what its manifest says. It is streamed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from smelt.engine.sink.objects.output import sizes_at
from smelt.engine.sink.provenance import MANIFEST, ManifestEntry, parse_manifest
from smelt.engine.sink.verify import WHAT_FOR, Verification, content_fault
from smelt.errors import CorruptFile, OutputError, RecipeError
from smelt.files.hashing.blake3 import TreeHash
from smelt.files.object_store.place import ObjectPlace
from smelt.files.object_store.store import ObjectStore, content_of, open_store
from smelt.formats.file_kinds import TOOL_FILES, kind_of, shown

__all__ = ["verify_objects"]

_PIECE = 1 << 24
_AT_ONCE = 8


def verify_objects(place: ObjectPlace) -> Verification:
    """Recompute every hash of an output that Smelt wrote to a store."""
    store = open_store(place)
    content = content_of(store, place.inside(MANIFEST))
    if content is None:
        raise RecipeError(f"{place}: has no {MANIFEST}, so it was not made by Smelt or its run did not finish")
    try:
        files, untouched = parse_manifest(content, f"{place}/{MANIFEST}")
    except CorruptFile:
        return Verification(str(place), 0, (f"{MANIFEST}: is damaged and cannot be read",))
    faults = [] if untouched else [f"{MANIFEST}: has been changed since it was written"]
    there = sizes_at(store, place)
    for name, wanted in files.items():
        faults += _faults_of(store, place, name, wanted, there.get(name))
    unknown = []
    for name in sorted(there.keys() - files.keys() - {MANIFEST}):
        kind = None if name.lower() in TOOL_FILES else kind_of(name)
        if kind is None:
            unknown.append(name)
        else:
            faults.append(f"{shown(name)}: the manifest does not know it, and it {WHAT_FOR[kind]}")
    return Verification(str(place), len(files), tuple(faults), tuple(unknown))


def _faults_of(
    store: ObjectStore, place: ObjectPlace, name: str, wanted: ManifestEntry, size: int | None
) -> Iterator[str]:
    if size is None:
        yield f"{shown(name)}: is missing"
        return
    try:
        fault = content_fault(name, wanted, size, lambda: _digest(store, place.inside(name), wanted))
    except OutputError as error:
        fault = f"{shown(name)}: cannot be read ({error})"
    if fault is not None:
        yield fault


def _digest(store: ObjectStore, key: str, wanted: ManifestEntry) -> str:
    """By several ranges at once; a piece of each is in memory."""
    starts = range(0, wanted.size, _PIECE)

    def read(start: int) -> bytes:
        return store.get(key, start, min(_PIECE, wanted.size - start))

    if wanted.kind == "sha256":
        digest = hashlib.sha256()
        for start in starts:
            digest.update(read(start))
        return digest.hexdigest()
    tree = TreeHash(wanted.size)
    if tree.address is not None:
        with ThreadPoolExecutor(_AT_ONCE, "smelt-verify") as threads:
            list(threads.map(lambda start: tree.add(start, read(start)), starts))
    return tree.finish_by(lambda start, size: store.get(key, start, size))
