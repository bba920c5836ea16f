"""From a backup to a hub, in a new or empty place: a folder, or a Postgres with a folder for the files.

The hub is made beside its place, all of it: every file copied under a path of a known form and compared with its hash,
every row checked, and no row without its files. Then, as one change, it gets its name. It is a hub of its own, with a
mark of its own, so the one that was backed up may still be there. Jobs that were running wait to be run again.

Killed before the end, there is no hub; the same command clears what was left and begins again.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from smelt.errors import CorruptFile, OutputError, RecipeError
from smelt.files.content_store import ContentStore, copy_in
from smelt.files.reading import find_json_table
from smelt.files.writing import OutputMark, check_writable, is_free, lock_folder, move_into_place, write_json
from smelt.hub.backup.manifest import FILES, Filed, Manifest, Piece, plain_file
from smelt.hub.backup.row_checks import RowChecks
from smelt.hub.backup.rows import TABLES, read_rows, write_rows
from smelt.hub.location import DATABASE, HubLocation
from smelt.hub.store.folder import MARK, write_mark
from smelt.hub.store.migrate import newest_revision
from smelt.hub.store.store import HubStore

__all__ = ["restore"]

_BEGUN = OutputMark("restoring.json", ("smelt_restore", "mark"))
_ROOM = 50_000_000
"""Bytes that shall be left on the disk."""


def restore(backup: Path, place: HubLocation, *, progress: Callable[[int, int], None] | None = None) -> Manifest:
    """Make the hub of a backup at a place where nothing is. `progress` hears of files."""
    manifest = Manifest.read(backup)
    if manifest.revision != newest_revision():
        raise RecipeError(
            f"{backup}: its tables are of revision {manifest.revision}, and this Smelt has {newest_revision()}; "
            f"restore it with Smelt {manifest.smelt}, and open the hub with this one"
        )
    check_writable(place.folder)
    try:
        with _draft(place, secrets.token_hex(16)) as (draft, mark):
            _check_free(place)
            _check_room(draft, manifest)
            _make(backup, manifest, place, draft, mark, progress)
    except OSError as error:
        raise OutputError(f"{place.folder}: the hub cannot be made there ({error.strerror or error})") from None
    return manifest


@contextmanager
def _draft(place: HubLocation, mark: str) -> Iterator[tuple[Path, str]]:
    """A folder beside the place, which nobody else has, and the new hub's mark."""
    home = place.folder.with_name(f".{place.folder.name}.restore")
    if home.exists() and not is_free(home) and not _BEGUN.is_on(home):
        raise OutputError(f"{home}: is in the way and no rest of a restore; move it elsewhere")
    home.mkdir(parents=True, exist_ok=True)
    held = lock_folder(home, OutputError(f"{place.folder}: another restore is at work there; wait until it ends"))
    try:
        _clear(home, place)
        write_json(home / _BEGUN.name, {"smelt_restore": 1, "mark": mark})
        (home / "hub").mkdir()
        yield home / "hub", mark
    except BaseException:
        shutil.rmtree(home / "hub", ignore_errors=True)
        if not _has_mark(place.folder, mark):  # else the next one has to know that it is ours
            shutil.rmtree(home, ignore_errors=True)
        raise
    else:
        shutil.rmtree(home, ignore_errors=True)
    finally:
        os.close(held)


def _clear(home: Path, place: HubLocation) -> None:
    """What a killed restore left: its draft, and files on their place whose rows were not committed any more."""
    begun = find_json_table(home / _BEGUN.name) or {}
    if place.database is None and _has_mark(place.folder, begun.get("mark")) and not HubStore.exists(place):
        shutil.rmtree(place.folder)
    for path in home.iterdir():
        if path.name != _BEGUN.name:
            shutil.rmtree(path)


def _has_mark(folder: Path, mark: object) -> bool:
    try:
        return (folder / MARK).read_text(encoding="utf-8", errors="replace").strip() == mark
    except OSError:
        return False


def _check_free(place: HubLocation) -> None:
    if not is_free(place.folder):
        raise RecipeError(f"{place.folder}: is not empty; a backup is restored into a new or empty folder only")
    if place.database is None and HubStore.exists(place):
        raise RecipeError(f"{place.shown}: there is a hub already; a backup is restored into an empty database only")


def _check_room(draft: Path, manifest: Manifest) -> None:
    free = shutil.disk_usage(draft).free
    if manifest.bytes + _ROOM > free:
        raise OutputError(f"{draft.parent.parent}: the files are {manifest.bytes:,} bytes, and {free:,} are free there")


def _make(
    backup: Path,
    manifest: Manifest,
    place: HubLocation,
    draft: Path,
    mark: str,
    progress: Callable[[int, int], None] | None,
) -> None:
    url = place.url if place.database is None else f"sqlite:///{draft / DATABASE}"
    store = HubStore.create(HubLocation(url, draft, place.shown))
    try:
        checks = RowChecks()
        _check(plain_file(backup, FILES), manifest.files)
        _copy(backup, manifest, draft, checks, progress)
        with store.write() as session:
            for table in TABLES:
                path = plain_file(backup, f"rows/{table}.jsonl")
                _check(path, manifest.rows[table])
                count = write_rows(session, table, (checks.checked(table, row, mark) for row in read_rows(path, table)))
                if count != manifest.rows[table].lines:
                    raise CorruptFile(f"{path}: has {count:,} rows, and should have {manifest.rows[table].lines:,}")
            checks.finish()
            _link_models(store.files, checks, draft)
            write_mark(store.place, mark)
            if place.database is None:  # the rows are committed last
                _settle(draft, place.folder)
    finally:
        store.close()
    if place.database is not None:
        _settle(draft, place.folder)


def _settle(draft: Path, folder: Path) -> None:
    shutil.rmtree(draft / "staging", ignore_errors=True)
    if folder.exists():
        folder.rmdir()  # refuses to, if something has come into it meanwhile
    move_into_place(draft, folder)


def _copy(
    backup: Path, manifest: Manifest, draft: Path, checks: RowChecks, progress: Callable[[int, int], None] | None
) -> None:
    left = manifest.bytes
    for number, one in enumerate(manifest.listed(backup), 1):
        left -= one.size
        if left < 0:
            raise CorruptFile(f"{backup}: its files are larger than the {manifest.bytes:,} bytes that it tells of")
        _copy_one(backup, one, draft)
        checks.files[one.path] = one.size
        if progress is not None:
            progress(number, manifest.files.lines)


def _copy_one(backup: Path, one: Filed, draft: Path) -> None:
    target = draft / one.path
    target.parent.mkdir(parents=True, exist_ok=True)
    if copy_in(plain_file(backup, one.path), target, one.size) != (one.sha256, one.size):
        raise CorruptFile(f"{backup}: {one.path} is not what was backed up (by its hash); take another backup")


def _check(path: Path, piece: Piece) -> None:
    """Refuse a list or a table that is not what the manifest tells of."""
    if path.stat().st_size == piece.size:
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() == piece.sha256:
                return
    raise CorruptFile(f"{path}: is not what was backed up (by its hash); take another backup")


def _link_models(files: ContentStore, checks: RowChecks, draft: Path) -> None:
    """The folders of models, as links to the files."""
    for model, name, sha256 in checks.links:
        target = draft / "models" / model / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(files.path(sha256), target)
        except OSError:  # as in the content store, where the file system knows no hard links
            shutil.copyfile(files.path(sha256), target)
