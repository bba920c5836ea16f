"""An output in an object store: made beside its place, until the manifest makes it whole.

    .NAME.smelt-partial/run.json             the lock and the state of the run (state.py)
    .NAME.smelt-partial/parts/FILE/N.part    of a part of a file that has arrived: its ETag, and its share of the hash
    .NAME.smelt-partial/parts/FILE/1-ID      what a worker made of the first part, which waits for the header
    .NAME.smelt-partial/workers/...          what workers must know of the merge
    NAME/...                                 the output; uploads that are not complete cannot be seen there

A store has no rename, so the order makes the promise: until all parts of all files have arrived nothing is visible.
Then the manifest of an output that is replaced goes, the uploads are completed, the small files written, what the old
output had and this one has not is deleted, and the manifest comes last. What has no manifest is not finished.

Which uploads and parts there are is asked of the store alone. So any machine can go on with a run, and parts may come
from many (`ObjectOutput.uploads`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.caller import option
from smelt.engine.sink.objects.state import RunLock, RunState, read_state
from smelt.engine.sink.output_file import KindOfOutput
from smelt.engine.sink.provenance import MANIFEST, MARK, is_made_by
from smelt.engine.sink.shards import Shard, lay_out
from smelt.errors import CorruptFile, OutputError, RecipeError
from smelt.files.hashing.blake3 import blake3_of_bytes
from smelt.files.identity import FileIdentity, check_unchanged
from smelt.files.object_store.place import ObjectPlace
from smelt.files.object_store.store import ObjectStore, content_of, open_store
from smelt.files.reading import open_plain, parse_json
from smelt.recipe.schema import parse_size

if TYPE_CHECKING:
    from smelt.engine.plan.plan import Plan
    from smelt.engine.plan.ready_merge import ReadyMerge
    from smelt.engine.sink.objects.sink import ObjectSink
    from smelt.files.hashing.input_hashes import FileDigest

__all__ = ["ObjectOutput", "OutputInStore", "key_beside"]

_AT_ONCE = 16
"""Requests for small things."""


class ObjectOutput:
    """What a run writes to a store. Locked: one run writes at a time."""

    def __init__(
        self,
        out: ObjectPlace,
        store: ObjectStore,
        fingerprint: str,
        *,
        inputs: Mapping[Path, FileIdentity],
        resume: bool,
        force: bool,
    ):
        self.place, self.store, self._inputs, self._force = out, store, inputs, force
        self.fingerprint, self.workplace = fingerprint, str(out)
        self.finished: set[str] = set()
        self._published = False
        self._lock = RunLock(self.store, out, state_key(out))
        try:
            before = self._lock.before
            self.resumes = resume and before is not None and before.fingerprint == fingerprint
            if not self.resumes:
                self._begin(fingerprint)
        except BaseException:
            self._lock.release()
            raise

    def _begin(self, fingerprint: str) -> None:
        """Begin with nothing. What a run had made visible when it was killed goes when this one is complete."""
        self._forget_parts()
        state = self._lock.state
        left = [] if self._has_manifest() else sorted({*state.published, *state.stale})
        self._lock.note(fingerprint=fingerprint, published=[], stale=left)

    def _forget_parts(self) -> None:
        for key, uploads in self.uploads().items():
            for upload in uploads:
                self.store.abort(key, upload)
        left = [one.key for name in ("parts/", "workers/") for one in self.store.list_objects(self.beside(name))]
        with ThreadPoolExecutor(_AT_ONCE, "smelt-forget") as threads:
            list(threads.map(self.store.delete, left))

    @property
    def published(self) -> list[str]:
        """Names of objects of the output that are visible, or may be."""
        return self._lock.state.published

    def uploads(self) -> dict[str, list[str]]:
        """Ids of the uploads to files of this output, by key."""
        return self.store.list_uploads(self.place.inside(""))

    def beside(self, name: str) -> str:
        """The key of something that is no part of the output, and goes at the end."""
        return key_beside(self.place, name)

    def shards(self, plan: Plan) -> list[Shard]:
        """The weights files of a plan."""
        return lay_out(plan.stored_tensors, parse_size(plan.recipe.shard_size), plan.components)

    def sink(self, plan: Plan, metadata: Mapping[str, str], memory: int | str | None) -> ObjectSink:
        """Where the merged tensors of a plan go; `metadata` is as long as what it will be at the end."""
        from smelt.engine.sink.objects.sink import ObjectSink

        return ObjectSink(self, plan, metadata, memory)

    def publish(self, names: Sequence[str]) -> None:
        """From here on objects of these names may be visible. The first time, an old output stops being one."""
        state = self._lock.state
        if not self._published:
            check_unchanged(self._inputs)
            self._published = True
        if not state.published:
            stale = self._checked_place(state)
            self._lock.note(published=list(names), stale=stale)
            self.store.delete(self.place.inside(MANIFEST))
        elif not set(names) <= set(state.published):
            self._lock.note(published=sorted({*state.published, *names}))

    def _checked_place(self, state: RunState) -> list[str]:
        """What is stale at the place now; another's that came meanwhile is kept, and an error."""
        there = names_at(self.store, self.place)
        if not there or (set(there) <= {*state.stale} and MANIFEST not in there):
            return sorted(there)
        if self._force and is_made_by_smelt(self.store, self.place):
            known = files_of_manifest(self.store, self.place)
            return sorted({*state.stale, *(name for name in there if name in known)} - {MANIFEST})
        raise OutputError(f"{self.place} appeared while the merge ran; it is kept, and so are the parts of the result")

    def complete(
        self,
        files: Mapping[str, bytes | Path],
        known: Mapping[str, tuple[str, int]],
        manifest: Callable[[Mapping[str, tuple[str, int]]], bytes],
    ) -> None:
        """Write the small files, remove what is stale, and put the manifest over everything."""
        hashes = dict(known)
        contents = {name: _read(content) for name, content in files.items()}
        for name, content in contents.items():
            hashes[name] = (blake3_of_bytes(content), len(content))
        whole = manifest(hashes)
        self.publish([*hashes])
        for name, content in contents.items():
            self.store.put(self.place.inside(name), content)
        for name in self._lock.state.stale:
            if name not in hashes:
                self.store.delete(self.place.inside(name))
        self._lock.note()
        self.store.put(self.place.inside(MANIFEST), whole)
        self._forget_parts()
        self._lock.remove()

    def close(self) -> None:
        """Let the place go; what is uploaded is kept for a run that goes on."""
        with suppress(OutputError):  # whoever comes next sees that nobody is at it any more
            self._lock.release()

    def discard(self) -> None:
        """Remove all of it: a run that cannot succeed leaves nothing behind."""
        with suppress(OutputError):
            self._forget_parts()
            state = self._lock.state
            if state.published and not self._has_manifest():
                for name in {*state.published, *state.stale}:
                    self.store.delete(self.place.inside(name))
            self._lock.remove()

    def _has_manifest(self) -> bool:
        return self.store.head(self.place.inside(MANIFEST)) is not None


class OutputInStore(KindOfOutput):
    """A folder of objects, which its manifest makes whole."""

    def __init__(self, out: ObjectPlace):
        self.out, self.name = out, out.name
        self._store = open_store(out)
        self.kept = f"what has arrived is kept in {out}, where it cannot be seen yet"

    def check_plan(self, plan: Plan) -> None:
        if self.out.suffix == ".safetensors":
            raise RecipeError(f"{self.out}: an output in a store is a folder; name one without .safetensors")
        for ref in plan.recipe.pool.refs.values():
            if self.out.holds(ref):
                raise OutputError(f"the output {self.out} holds an input ({ref}); choose another place")

    def is_there(self) -> bool:
        return self._store.head(self.out.inside(MANIFEST)) is not None

    def already_made(self, ready: ReadyMerge, known: Mapping[Path, FileDigest]) -> bool:
        manifest = read_manifest_at(self._store, self.out)
        sizes = sizes_at(self._store, self.out)
        parents, statistics = ready.parent_hashes(known), ready.statistics_hashes(known)
        return is_made_by(manifest, ready.hash, parents, statistics, sizes.get)

    def clear_finished(self) -> None:
        for one in list(self._store.list_objects(key_beside(self.out, ""))):
            self._store.delete(one.key)

    def check(self, inputs: Sequence[Path], *, force: bool, needed: int) -> None:
        """Refuse a place that is taken, or that cannot be written to, before any work is done."""
        there = names_at(self._store, self.out)
        if not there:
            return
        if MANIFEST not in there:
            found = read_state(self._store, state_key(self.out))
            if found is not None and set(there) <= {*found[0].published, *found[0].stale}:
                return  # of a run that was killed while it published
        if not is_made_by_smelt(self._store, self.out):
            raise OutputError(
                f"{self.out} already exists and is not an output of this kind (it has no {MANIFEST} that Smelt wrote), "
                f"so it is kept, with or without {option('force')}; choose another place, or remove it yourself"
            )
        if not force:
            raise OutputError(
                f"{self.out} already exists; it is kept. Choose another place, or write {option('force')} to replace it"
            )

    def open(self, fingerprint: str, *, inputs: Mapping[Path, FileIdentity], resume: bool, force: bool) -> ObjectOutput:
        return ObjectOutput(self.out, self._store, fingerprint, inputs=inputs, resume=resume, force=force)

    def size_of_adapter(self) -> tuple[int, int]:
        name, size = next(one for one in sizes_at(self._store, self.out).items() if one[0].endswith(".safetensors"))
        length = int.from_bytes(self._store.get(self.out.inside(name), 0, 8), "little")
        header: Any = parse_json(self._store.get(self.out.inside(name), 8, length), name)
        return len(header.keys() - {"__metadata__"}), size


def state_key(place: ObjectPlace) -> str:
    """The key of a run's state."""
    return key_beside(place, "run.json")


def key_beside(place: ObjectPlace, name: str) -> str:
    """The key of something that is no part of the output at a place, and goes at the end."""
    return f"{place.beside(f'.{place.name}.smelt-partial')}/{name}"


def sizes_at(store: ObjectStore, place: ObjectPlace) -> dict[str, int]:
    """Bytes of the objects at a place, by the names that they have there."""
    prefix = place.inside("")
    return {one.key.removeprefix(prefix): one.size for one in store.list_objects(prefix)}


def names_at(store: ObjectStore, place: ObjectPlace) -> list[str]:
    """What is visible at a place."""
    return [*sizes_at(store, place)]


def read_manifest_at(store: ObjectStore, place: ObjectPlace) -> Any:
    """A place's manifest; None where there is none that can be read."""
    content = content_of(store, place.inside(MANIFEST))
    try:
        return parse_json(content, f"{place}/{MANIFEST}") if content is not None else None
    except CorruptFile:
        return None


def is_made_by_smelt(store: ObjectStore, place: ObjectPlace) -> bool:
    """Whether a place has a manifest that Smelt wrote."""
    manifest = read_manifest_at(store, place)
    return isinstance(manifest, dict) and manifest.keys() >= set(MARK.keys)


def files_of_manifest(store: ObjectStore, place: ObjectPlace) -> set[str]:
    """The files that a place's manifest names, and itself: what is Smelt's there."""
    files = (read_manifest_at(store, place) or {}).get("files")
    return {MANIFEST, *(files if isinstance(files, dict) else ())}


def _read(content: bytes | Path) -> bytes:
    if isinstance(content, bytes):
        return content
    with open_plain(content) as file:
        return file.read()
