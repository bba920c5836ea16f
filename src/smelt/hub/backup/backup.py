"""A backup of a hub, taken while its services run: the rows of one commit, then the files that they speak of.

Files of a hub are never changed, only removed, and only inside write transactions. So the rows are read from a snapshot
of the database, and every file is given a second name in the hub's staging before the snapshot is let go; nobody waits.
Should one be removed in between, it is begun again, in the end with everybody else's writes held back. Then the files
are copied, and hashed as they are. What a backup of the same hub at the same place has already is taken from there.

All of it is made beside its place and gets its name at the end. Killed before, it leaves the older backup as it was;
the next one clears away what was left.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import select
from sqlalchemy.orm import Session

from smelt.errors import CorruptFile, OutputError
from smelt.files.content_store import copy_in
from smelt.files.writing import check_overwrite, check_writable, lock_folder, recover_swap, swap_folder
from smelt.hub.backup.manifest import FILES, MARK, Filed, Manifest, Piece
from smelt.hub.backup.rows import TABLES, save_rows
from smelt.hub.store.database import clock
from smelt.hub.store.migrate import newest_revision
from smelt.hub.store.schema import FileRow, GraphRow, HubRow, LabelRow
from smelt.hub.store.store import HubStore
from smelt.version import __version__

__all__ = ["back_up"]

_ATTEMPTS = 3


def back_up(
    store: HubStore, out: Path, *, force: bool = False, progress: Callable[[int, int], None] | None = None
) -> Manifest:
    """Write a backup; a folder that is one already is replaced with `force`. `progress` hears of files."""
    out = out.resolve()
    if out == store.folder or store.folder in out.parents or out in store.folder.parents:
        raise OutputError(f"{out}: lies in the hub's own folder, or holds it; choose a place elsewhere")
    check_writable(out)
    aside = out.with_name(f".{out.name}.before")
    try:
        with _draft(out) as draft, store.staging() as staged:
            if MARK.is_on(aside):  # the last backup was killed while it gave the new one its name
                recover_swap(out, aside)
            check_overwrite(out, MARK, force=force)
            before = _Before.find(out, store.hub().mark)
            held, manifest = _gather(store, draft, staged, before)
            manifest = _copy(draft, held, manifest, before, progress)
            manifest.save(draft)
            os.sync()
            swap_folder(draft, out, aside)
    except OSError as error:
        raise OutputError(f"{out}: the backup cannot be written there ({error.strerror or error})") from None
    return manifest


@dataclass(frozen=True)
class _Before:
    """The backup of the same hub that is there already, and what is taken from it."""

    folder: Path
    made: datetime
    files: dict[str, Filed]

    @classmethod
    def find(cls, folder: Path, mark: str) -> _Before:
        try:
            manifest = Manifest.read(folder)
            if manifest.mark == mark:
                files = {one.path: one for one in manifest.listed(folder)}
                return cls(folder, datetime.fromisoformat(manifest.made), files)
        except (CorruptFile, OSError, ValueError):  # there is none, or none that is of use
            pass
        return cls(folder, datetime.min.replace(tzinfo=UTC), {})


@contextmanager
def _draft(out: Path) -> Iterator[Path]:
    """An empty folder beside the place, which nobody else has; one that a killed backup left is cleared."""
    home = out.with_name(f".{out.name}.backup")
    home.mkdir(parents=True, exist_ok=True)
    held = lock_folder(home, OutputError(f"{out}: another backup is being written there; wait until it ends"))
    draft = home / "draft"
    try:
        if draft.exists():
            shutil.rmtree(draft)
        draft.mkdir()  # which fails if the last holder has removed its home
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        with suppress(OSError):
            home.rmdir()
        os.close(held)


def _gather(store: HubStore, draft: Path, staged: Path, before: _Before) -> tuple[dict[str, Path], Manifest]:
    """The rows, written; the files that belong to them, by their path, each where it is held until it is copied."""
    for attempt in range(_ATTEMPTS):
        last = attempt == _ATTEMPTS - 1
        look: AbstractContextManager[Session] = store.write() if last else store.database.snapshot()
        with look as session:
            rows = {table: _rows(session, draft, table) for table in TABLES}
            hub = session.scalars(select(HubRow)).one()
            made = clock(session).isoformat(timespec="microseconds")
            try:
                held = {
                    name: before.folder / name if name in before.files and not new else _held(store, name, staged)
                    for name, new in sorted(_names(store, session, before.made))
                }
            except FileNotFoundError as error:
                if not last:
                    continue
                where = Path(error.filename).relative_to(store.folder)
                raise CorruptFile(
                    f"{store.place.shown}: {where} is gone, so there can be no backup of all. Make a label anew with "
                    "`smelt hub label`; remove a model whose files are gone"
                ) from None
        nothing = Piece(0, 0, "")
        return held, Manifest(hub.name, hub.mark, newest_revision(), __version__, made, rows, nothing, 0)
    raise AssertionError("the last attempt ends in one way or the other")


def _rows(session: Session, draft: Path, table: str) -> Piece:
    path = draft / "rows" / f"{table}.jsonl"
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        return _piece(path, save_rows(session, table, file), file)


def _names(store: HubStore, session: Session, made: datetime) -> Iterator[tuple[str, bool]]:
    """The files that rows speak of, and whether one was made since then under a name that it may have had before.

    Folders of models are links into these; they are made again.
    """
    for digest in session.scalars(select(FileRow.sha256).distinct()):
        yield f"files/{digest[:2]}/{digest}", False
    for version in session.scalars(select(GraphRow.version)):
        folder = store.graph_folder(version)
        yield from ((str(path.relative_to(store.folder)), False) for path in folder.rglob("*") if path.is_file())
    for row in session.scalars(select(LabelRow)):
        yield f"labels/{row.digest}.safetensors", row.made >= made
        if (store.folder / f"labels/{row.digest}.index").exists():
            yield f"labels/{row.digest}.index", row.made >= made
    for path in (store.folder / "indexes").glob("*.segment"):
        yield f"indexes/{path.name}", False


def _held(store: HubStore, name: str, staged: Path) -> Path:
    """A second name for a file, so that it is there until it is copied, whoever removes it from the hub."""
    place = staged / name.replace("/", "-")
    if not place.exists():
        try:
            os.link(store.folder / name, place, follow_symlinks=False)
        except FileNotFoundError:
            raise
        except OSError:  # a file system without hard links
            shutil.copyfile(store.folder / name, place, follow_symlinks=False)
    return place


def _copy(
    draft: Path,
    held: dict[str, Path],
    manifest: Manifest,
    before: _Before,
    progress: Callable[[int, int], None] | None,
) -> Manifest:
    """Every file into the draft, and the list of them."""
    total = 0
    with (draft / FILES).open("wb") as lines:
        for number, (name, source) in enumerate(held.items(), 1):
            target = draft / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_relative_to(before.folder):
                os.link(source, target, follow_symlinks=False)
                one = before.files[name]
            else:
                digest, size = copy_in(source, target, source.stat().st_size)
                one = Filed(name, size, digest)
                source.unlink()
            if name.startswith("files/") and not name.endswith(one.sha256):
                raise CorruptFile(
                    f"{name}: the hub's file is no longer what it was; remove its models and add them again"
                )
            lines.write(json.dumps(one).encode() + b"\n")
            total += one.size
            if progress is not None:
                progress(number, len(held))
        return replace(manifest, files=_piece(draft / FILES, len(held), lines), bytes=total)


def _piece(path: Path, count: int, written: BinaryIO) -> Piece:
    written.flush()
    with path.open("rb") as file:
        return Piece(count, path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())
